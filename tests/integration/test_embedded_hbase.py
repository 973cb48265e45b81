"""The embedded HBase: its data, its errors and its end."""

import happybase
import psutil
import pytest
from owner_killed import answers_without_its_owner

from headrace.embedded import EmbeddedHBase
from headrace.embedded.addresses import free_ports
from headrace.errors import ServerError

pytestmark = pytest.mark.usefixtures("hbase_jars")


def asked(server, ask):
    connection = happybase.Connection("127.0.0.1", server.port)
    try:
        return ask(connection)
    finally:
        connection.close()


@pytest.mark.slow
def test_data_is_kept_over_stop_and_kill_and_the_port_where_it_is_asked_for(tmp_path):
    node = EmbeddedHBase(tmp_path, *free_ports(1))
    try:
        node.start()
        both = (psutil.Process(pid) for pid in (node.pid, node.thrift_pid))
        assert sum(process.memory_info().rss for process in both) < 2**30
        url = node.url
        asked(node, lambda line: line.create_table("t", {"d": {}}))
        asked(node, lambda line: line.table("t").put(b"1", {b"d:a": b"x"}))
        node.stop()
        assert not node.running
        node.start()
        assert node.url == url
        asked(node, lambda line: line.table("t").put(b"2", {b"d:a": b"x"}))
        node.kill()
        node.start()
        rows = asked(node, lambda line: [key for key, _ in line.table("t").scan()])
        assert rows == [b"1", b"2"]
    finally:
        node.stop()


def test_a_folder_in_use_is_refused(hbase):
    with pytest.raises(ServerError, match=f"folder {hbase.folder} is in use"):
        EmbeddedHBase(hbase.folder).start()
    assert hbase.running


def test_a_taken_port_is_refused(hbase, tmp_path):
    with pytest.raises(ServerError, match=rf"HBase cannot listen on .*:{hbase.port}"):
        EmbeddedHBase(tmp_path, port=hbase.port).start()


def test_the_end_of_its_log_is_told_where_it_does_not_start(tmp_path):
    broken = EmbeddedHBase(tmp_path, settings={"hbase.rootdir": "nowhere://"})
    with pytest.raises(ServerError, match="ended while starting"):
        broken.start()
    assert not broken.running


def test_it_ends_where_its_thrift_server_does_not_start(tmp_path):
    broken = EmbeddedHBase(
        tmp_path, settings={"hbase.regionserver.thrift.ipaddress": "none.invalid"}
    )
    with pytest.raises(ServerError, match=r"ended while starting(?s:.*)of its Thrift server"):
        broken.start()
    assert not broken.running


@pytest.mark.slow
def test_it_ends_with_the_process_that_started_it(tmp_path):
    assert not answers_without_its_owner(EmbeddedHBase, tmp_path)
