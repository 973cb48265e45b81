"""The embedded Cassandra: its data, its errors and its end."""

import psutil
import pytest
from owner_killed import answers_without_its_owner

from headrace.connectors.cassandra.addresses import address_of
from headrace.connectors.cassandra.servers import Cluster
from headrace.embedded import EmbeddedCassandra
from headrace.embedded.addresses import free_ports
from headrace.errors import ServerError
from headrace.ports import Server


def asked(node, statement):
    cluster = Cluster("test", address_of(Server(node.url), "test"))
    try:
        return cluster.asked(statement)
    finally:
        cluster.close()


pytestmark = pytest.mark.usefixtures("cassandra_jars")


@pytest.mark.slow
def test_data_is_kept_over_stop_and_kill_and_the_port_where_it_is_asked_for(tmp_path):
    node = EmbeddedCassandra(tmp_path / "cassandra", *free_ports(1))
    try:
        node.start()
        # Of a node of one's own: one that many tests have written to has grown.
        assert psutil.Process(node.pid).memory_info().rss < 1.2 * 2**30
        asked(node, "CREATE TABLE headrace.t (id int PRIMARY KEY)")
        asked(node, "INSERT INTO headrace.t (id) VALUES (1)")
        url = node.url
        node.stop()
        assert not node.running
        node.start()
        assert node.url == url
        asked(node, "INSERT INTO headrace.t (id) VALUES (2)")
        node.kill()
        node.start()
        assert sorted(asked(node, "SELECT id FROM headrace.t")) == [(1,), (2,)]
    finally:
        node.stop()


def test_a_folder_in_use_is_refused(cassandra):
    with pytest.raises(ServerError, match=f"folder {cassandra.folder} is in use"):
        EmbeddedCassandra(cassandra.folder).start()
    assert cassandra.running


def test_a_taken_port_is_refused(cassandra, tmp_path):
    with pytest.raises(ServerError, match=rf"Cassandra cannot listen on .*:{cassandra.port}"):
        EmbeddedCassandra(tmp_path, port=cassandra.port).start()


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ServerError, match=f"{tmp_path}/file/node cannot be written"):
        EmbeddedCassandra(tmp_path / "file" / "node").start()


def test_the_end_of_its_log_is_told_where_it_does_not_start(tmp_path):
    broken = EmbeddedCassandra(tmp_path / "node", settings={"no_such_setting": 1})
    with pytest.raises(ServerError, match="no_such_setting"):
        broken.start()
    assert not broken.running


@pytest.mark.slow
def test_it_ends_with_the_process_that_started_it(tmp_path):
    assert not answers_without_its_owner(EmbeddedCassandra, tmp_path / "node")
