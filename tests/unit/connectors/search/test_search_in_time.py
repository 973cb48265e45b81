"""A cluster that answers byte by byte."""

import time

import pytest

from dripping import dripping
from headrace.connectors.search import servers
from headrace.connectors.search.library import library
from headrace.connectors.search.servers import Cluster, address_of
from headrace.errors import SinkUnavailable
from headrace.ports import Server

ANSWER_S = 0.4
STATUS = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
WHOLE = STATUS + b"Content-Length: 2\r\n\r\n{}"


@pytest.mark.parametrize("answers", [(), (WHOLE,)], ids=["first", "next"])
@pytest.mark.parametrize(
    "drips",
    [STATUS + b"X: " + b"a" * 200, STATUS + b"Content-Length: 200\r\n\r\n" + b" " * 200],
    ids=["header", "body"],
)
def test_an_answer_that_comes_byte_by_byte_is_none_when_the_time_is_over(
    monkeypatch, answers, drips
):
    library()  # to import it takes its time
    monkeypatch.setattr(servers, "_ANSWER_S", ANSWER_S)
    with dripping(drips, answers=answers) as port:
        url = f"http://127.0.0.1:{port}"
        cluster = Cluster("search", address_of(Server(url), "search"))
        for _ in answers:
            assert cluster.asked("GET", "/") == {}
        began_s = time.monotonic()
        with pytest.raises(SinkUnavailable, match="no answer in time"):
            cluster.asked("GET", "/")
        assert time.monotonic() - began_s < 10 * ANSWER_S
        cluster.close()
