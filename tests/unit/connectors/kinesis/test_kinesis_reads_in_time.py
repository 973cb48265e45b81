"""A service that answers who reads byte by byte: it has its time, and no more."""

import time
from contextlib import closing

import pytest

from dripping import dripping
from headrace.connectors.kinesis import KinesisLog, clients, roles
from headrace.connectors.kinesis.by_connection import KinesisByConnection
from headrace.connectors.kinesis.reader import KinesisReader
from headrace.connectors.kinesis.roles import session_of
from headrace.connectors.kinesis.spots import beginning
from headrace.errors import BrokerUnavailable
from headrace.model.places import OPEN
from headrace.model.streams import LaneId, Slice
from headrace.ports import Connections, Server

MOMENT_S = 0.4
STATUS = b"HTTP/1.1 200 OK\r\nContent-Type: application/x-amz-json-1.1\r\n"
HEADER, BODY = STATUS + b"X: " + b"a" * 200, STATUS + b"Content-Length: 200\r\n\r\n" + b" " * 200


@pytest.fixture(params=[HEADER, BODY], ids=["header", "body"])
def client(request, monkeypatch):
    monkeypatch.setattr(clients, "_ANSWER_S", MOMENT_S)
    with dripping(request.param) as port:
        url = f"kinesis://eu-central-1?endpoint=http://127.0.0.1:{port}"
        server = Server(url, "me", "not-a-secret")
        made = KinesisByConnection(Connections({}, "", servers={"there": server}))
        # To read what a client needs to know of the service takes its time, once.
        with pytest.raises(BrokerUnavailable), closing(KinesisLog(made, asks_once=True)) as log:
            log.topics(["there:visits"])
        yield made
        made.close()


def test_a_token_service_that_answers_byte_by_byte_holds_no_task(monkeypatch):
    """All slices of a tenant wait for its role, and not one after the other."""
    monkeypatch.setattr(roles, "_LEND_S", MOMENT_S)
    role = "arn:aws:iam::123456789012:role/headrace"
    server = Server(f"kinesis://eu-central-1?role={role}", "me", "not-a-secret")
    with (
        dripping(HEADER) as port,
        closing(KinesisByConnection(Connections({}, "", servers={"there": server}))) as client,
    ):
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", f"http://127.0.0.1:{port}")
        session_of("me", "not-a-secret").create_client("sts", "eu-central-1").close()
        pieces = [
            Slice(lane, "there:visits", beginning(10), OPEN, 1, records=100, most_bytes=10**6)
            for lane in (LaneId("keep", "acme", f"there:visits[{number}]") for number in range(8))
        ]
        for _ in range(2):  # what a client needs to know of a service is read at the first
            began_s = time.monotonic()
            batches = list(KinesisReader(client).read(pieces, 100))
            took_s = time.monotonic() - began_s
    assert {batch.error.code for batch in batches} == {"BrokerUnavailable"}
    assert took_s < 6 * MOMENT_S


def test_a_shard_that_answers_byte_by_byte_holds_no_task(client):
    at = LaneId("keep", "acme", "there:visits[0]")
    piece = Slice(at, "there:visits", beginning(10), OPEN, 1, records=100, most_bytes=10**6)
    began_s = time.monotonic()
    (batch,) = KinesisReader(client).read([piece], 100)
    assert time.monotonic() - began_s < 6 * MOMENT_S
    assert (batch.error.code, batch.error.temporary) == ("BrokerUnavailable", True)
    assert batch.reached == piece.from_offset


def test_a_stream_that_is_told_byte_by_byte_holds_no_thread_of_the_driver(client):
    with closing(KinesisLog(client, asks_once=True)) as log:
        began_s = time.monotonic()
        with pytest.raises(BrokerUnavailable, match="Kinesis does not answer"):
            log.topics(["there:visits"])
        assert time.monotonic() - began_s < 6 * MOMENT_S
