"""The embedded Solr: its data, its errors and its end."""

import time

import psutil
import pytest
from owner_killed import answers_without_its_owner

from headrace.embedded import EmbeddedSolr
from headrace.embedded.addresses import free_ports
from headrace.errors import ServerError, SinkUnavailable
from solr_cores import asking, make_core

pytestmark = pytest.mark.usefixtures("solr_jars")


def asked(server, path, body=None):
    """The answer of a core, which may be loading after a start (503)."""
    give_up_s = time.monotonic() + 60
    while True:
        try:
            return asking(server).asked(path, body)
        except SinkUnavailable:
            assert time.monotonic() < give_up_s
            time.sleep(0.1)


def until_both_are_found(server):
    """A core answers while it replays the log of what was not committed before a kill."""
    give_up_s = time.monotonic() + 60
    while (found := asked(server, "/t/get?ids=1,2")["response"])["numFound"] < 2:
        assert time.monotonic() < give_up_s, found
        time.sleep(0.1)


@pytest.mark.slow
def test_data_is_kept_over_stop_and_kill_and_the_port_where_it_is_asked_for(tmp_path):
    node = EmbeddedSolr(tmp_path, *free_ports(1))
    try:
        node.start()
        assert psutil.Process(node.pid).memory_info().rss < 2**30
        url = node.url
        make_core(node, "t", {"a": "bigint"})
        asked(node, "/t/update", b'[{"id": "1", "headrace_version": 1, "a": 1}]')
        node.stop()
        assert not node.running
        node.start()
        assert node.url == url
        asked(node, "/t/update", b'[{"id": "2", "headrace_version": 1, "a": 2}]')
        node.kill()
        node.start()
        until_both_are_found(node)
    finally:
        node.stop()


def test_a_folder_in_use_is_refused(solr):
    with pytest.raises(ServerError, match=f"folder {solr.folder} is in use"):
        EmbeddedSolr(solr.folder).start()
    assert solr.running


def test_a_taken_port_is_refused(solr, tmp_path):
    with pytest.raises(ServerError, match=rf"Solr cannot listen on .*:{solr.port}"):
        EmbeddedSolr(tmp_path, port=solr.port).start()


def test_a_core_of_its_configuration_is_one_for_documents(solr):
    asking(solr).asked("/admin/cores?action=CREATE&name=of-headrace&configSet=headrace")
    fields = asking(solr).asked("/of-headrace/schema/fields")["fields"]
    assert {"id", "headrace_version"} <= {field["name"] for field in fields}


def test_the_end_of_its_log_is_told_where_it_does_not_start(tmp_path):
    broken = EmbeddedSolr(tmp_path, heap_mb=1)
    with pytest.raises(ServerError, match="ended while starting"):
        broken.start()
    assert not broken.running


@pytest.mark.slow
def test_it_ends_with_the_process_that_started_it(tmp_path):
    assert not answers_without_its_owner(EmbeddedSolr, tmp_path)
