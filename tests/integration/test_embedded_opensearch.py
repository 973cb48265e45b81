"""The embedded OpenSearch: its data, its errors and its end."""

import json
import urllib.request
import uuid

import psutil
import pytest
from owner_killed import answers_without_its_owner

from headrace.embedded import EmbeddedOpenSearch
from headrace.embedded.addresses import free_ports
from headrace.errors import ServerError

pytestmark = pytest.mark.usefixtures("opensearch_jars")


@pytest.fixture
def folder(open_folder):
    """A folder of the test's own, which who runs root's node can reach."""
    return open_folder / f"node-{uuid.uuid4().hex[:8]}"


def asked(node, path, method="GET", body=None):
    request = urllib.request.Request(
        f"{node.url}{path}",
        json.dumps(body).encode() if body is not None else None,
        {"Content-Type": "application/json"},
        method=method,
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


@pytest.mark.slow
def test_data_is_kept_over_stop_and_kill_and_the_port_where_it_is_asked_for(folder):
    node = EmbeddedOpenSearch(folder, *free_ports(1))
    try:
        node.start()
        assert psutil.Process(node.pid).memory_info().rss < 2**30
        url = node.url
        asked(node, "/t", "PUT", {"settings": {"number_of_replicas": 0}})
        asked(node, "/t/_doc/1", "PUT", {"a": 1})
        node.stop()
        assert not node.running
        node.start()
        assert node.url == url
        asked(node, "/t/_doc/2", "PUT", {"a": 2})
        node.kill()
        node.start()
        assert [asked(node, f"/t/_doc/{n}")["_source"]["a"] for n in (1, 2)] == [1, 2]
    finally:
        node.stop()


def test_a_folder_in_use_is_refused(opensearch):
    with pytest.raises(ServerError, match=f"folder {opensearch.folder} is in use"):
        EmbeddedOpenSearch(opensearch.folder).start()
    assert opensearch.running


def test_a_taken_port_is_refused(opensearch, folder):
    with pytest.raises(ServerError, match=rf"OpenSearch cannot listen on .*:{opensearch.port}"):
        EmbeddedOpenSearch(folder, port=opensearch.port).start()


def test_the_end_of_its_log_is_told_where_it_does_not_start(folder):
    broken = EmbeddedOpenSearch(folder, settings={"no_such_setting": 1})
    with pytest.raises(ServerError, match="no_such_setting"):
        broken.start()
    assert not broken.running


@pytest.mark.slow
def test_it_ends_with_the_process_that_started_it(folder):
    assert not answers_without_its_owner(EmbeddedOpenSearch, folder)
