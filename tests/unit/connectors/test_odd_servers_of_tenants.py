"""A tenant's own server that answers what nobody expects: what its neighbours have of it."""

import json
import math
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import pyarrow as pa
import pytest

from dripping import dripping
from headrace.connectors import own_servers, row_by_row
from headrace.connectors.changes import Change
from headrace.connectors.dynamodb import servers as dynamodb
from headrace.connectors.dynamodb.fitting import fit
from headrace.connectors.dynamodb.library import demand_its_own
from headrace.connectors.redis import servers as redis
from headrace.connectors.tenants import TenantsWriter
from headrace.errors import CodeNotLoaded, ConfigError, SinkRefused, SinkUnavailable
from headrace.model.streams import LaneId, Slice
from headrace.ports import Connections, Effect, Server, Site, Written
from headrace.sinks import DynamoTable, RedisHashes

NAMES = ("acme", "odd", "bolt")
KEY = [("_tenant", "HASH"), ("_key", "RANGE")]
TABLE = {
    "TableStatus": "ACTIVE",
    "AttributeDefinitions": [{"AttributeName": name, "AttributeType": "S"} for name, _ in KEY],
    "KeySchema": [{"AttributeName": name, "KeyType": kind} for name, kind in KEY],
}
AMAZONS = "application/x-amz-json-1.0"


@pytest.fixture(autouse=True)
def _fresh(monkeypatch):
    monkeypatch.setattr(dynamodb._services, "held", {})
    monkeypatch.setattr(redis._caches, "held", {})


def effect(tenant, *, may_repeat=True):
    piece = Slice(LaneId("keep", tenant, 0), "visits", 0, 9, epoch=1)
    return Effect((piece,), (9,), pa.table({"id": pa.array([1], pa.int64())}), may_repeat)


# --- whatever it is


class _Writes:
    def __init__(self, raises=None):
        self.raises = raises

    def write(self, effects):
        if self.raises is not None:
            raise self.raises
        return [Written() for _ in effects]


RAISED = [
    (KeyError("Table"), "SinkUnavailable"),
    (ValueError("hunter2"), "SinkUnavailable"),
    (MemoryError(), "SinkUnavailable"),
    (SinkRefused("no"), "TargetMissing"),
    (ConfigError("no"), "TargetMissing"),
    (CodeNotLoaded("no"), "CodeNotLoaded"),
]


@pytest.mark.parametrize("may_repeat", [True, False])
@pytest.mark.parametrize("place", ["opened", "written"])
@pytest.mark.parametrize(("error", "code"), RAISED)
def test_what_one_raises_is_its_tenants_alone_and_no_records(error, code, place, may_repeat):
    def opened(tenant, _):
        if tenant != "odd":
            return _Writes()
        if place == "opened":
            raise error
        return _Writes(error)

    writer = TenantsWriter(opened, lambda _: None, in_company=True)
    told = writer.write([effect(name, may_repeat=may_repeat) for name in NAMES])
    assert [one.error and one.error.code for one in told] == [None, code, None]
    assert "hunter2" not in told[1].error.message


@pytest.mark.parametrize(("error", "code"), RAISED)
def test_what_all_rows_of_a_request_met_is_none_of_theirs(error, code):
    def send(changes, use_case):
        raise error

    changes = [Change(0, gone=False, values=(), newness=1)]
    [told] = row_by_row.write([effect("odd")], lambda _: changes, send, "hashes x")
    assert (told.error.code, told.refused) == (code, ())


# --- in their own tongue


def written(sink, url):
    """What the odd one has of a write, beside a neighbour where nobody listens."""
    named = {"c-odd": url, "c-next": url.rpartition(":")[0] + ":1"}
    servers = {name: Server(at, "me", "not-a-secret") for name, at in named.items()}
    site = Site(Connections({}, "", servers=servers), None)
    effects = [effect("next", may_repeat=False), effect("odd", may_repeat=False)]
    neighbour, odd = sink.open(site).write(effects)
    assert "c-next" in neighbour.error.message
    return odd


@pytest.mark.parametrize("answer", [b":x\r\n", b"HTTP/1.1 400 Bad\r\n"])
def test_a_redis_that_answers_what_is_none(answer, monkeypatch):
    monkeypatch.setattr(own_servers, "ALONE", (5.0, 1.0))  # it is silent after that
    sink = RedisHashes("x", {"id": "bigint"}, key=("id",), newest_by="id", at="c-{tenant}")
    with dripping(b"", answers=(b"+OK\r\n" * 3, b"+OK\r\n", *(answer,) * 4)) as port:
        odd = written(sink, f"redis://127.0.0.1:{port}")
    assert odd.error.temporary
    assert "c-odd" in odd.error.message


@contextmanager
def dynamodb_that_says(**by_operation):
    """Its port."""

    class Talks(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            told = by_operation[self.headers["X-Amz-Target"].partition(".")[2]]
            self.send_response(200)
            self.send_header("Content-Type", AMAZONS)
            self.send_header("Content-Length", str(len(told)))
            self.end_headers()
            self.wfile.write(told)

        def log_message(self, *_):
            """Says nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Talks) as listening:
        threading.Thread(target=listening.serve_forever, args=(0.05,), daemon=True).start()
        yield listening.server_port
        listening.shutdown()


@pytest.mark.parametrize(
    "said",
    [
        {"DescribeTable": b"{}"},
        {"DescribeTable": json.dumps({"Table": TABLE}).encode(), "PutItem": b"<html>"},
    ],
    ids=["look", "put"],
)
def test_a_dynamodb_that_answers_what_is_none(said):
    sink = DynamoTable(
        "{tenant}.leads", {"id": "bigint"}, key=("id",), newest_by="id", at="c-{tenant}"
    )
    with dynamodb_that_says(**said) as port:
        odd = written(sink, f"dynamodb://eu-west-1?endpoint=http://127.0.0.1:{port}")
    assert odd.error.temporary
    assert "c-odd: an answer that is not DynamoDB's" in odd.error.message


@pytest.mark.parametrize(
    ("headers", "body", "is_its_own"),
    [
        ({"Content-Type": AMAZONS}, b"{}", True),
        ({"x-amzn-RequestId": "1"}, b"{}", True),
        ({"X-Amz-Crc32": "1", "Content-Type": "text/plain"}, b"{}", True),
        ({"Content-Type": "text/html"}, b"{}", False),
        ({}, b"{}", False),
        ({"Content-Type": AMAZONS}, b"<html>", False),
        ({"x-amzn-RequestId": "1"}, b"[1]", False),
        ({"Content-Type": AMAZONS}, b"[" * 90_000, False),
        ({"Content-Type": AMAZONS}, b"\xff\xfe", False),
        ({"Content-Type": AMAZONS}, b"", False),
    ],
)
def test_an_answer_counts_only_if_it_is_dynamodbs(headers, body, is_its_own):
    answer = {"status_code": 200, "headers": headers, "body": body}
    if is_its_own:
        demand_its_own(answer, "c")
        return
    with pytest.raises(SinkUnavailable, match="may be written or not"):
        demand_its_own(answer, "c")
    demand_its_own({**answer, "status_code": 403}, "c")  # an error has a code, or none


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"Table": {"TableStatus": "ACTIVE"}},
        {"Table": {**TABLE, "AttributeDefinitions": []}},
        {"Table": {**TABLE, "KeySchema": [1]}},
        {"Table": "leads"},
    ],
)
def test_a_look_at_a_table_that_tells_nothing_of_it_is_no_look(answer):
    service = SimpleNamespace(where="connection c", asked=lambda *_: answer)
    with pytest.raises(SinkUnavailable, match="not DynamoDB's"):
        fit(service, "leads", math.inf)
