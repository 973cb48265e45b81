"""Addresses of OpenSearch and Elasticsearch, and what their answers mean."""

import opensearchpy
import pyarrow as pa
import pytest

from headrace.connectors.search.library import judged, translated
from headrace.connectors.search.servers import Cluster, address_of
from headrace.errors import ConfigError, SinkRefused, SinkUnavailable, TargetMissing
from headrace.model.streams import LaneId, Slice
from headrace.ports import Connections, Effect, Server, Site
from headrace.sinks import SearchIndex

COLUMNS = {"id": "text", "size": "bigint", "gone": "boolean", "share": "double"}


def test_an_address_says_hosts_tls_and_files_and_the_user_stands_apart():
    found = address_of(Server("https://a,b:9201?ca_file=/ca.pem", "me", "secret"), "search")
    assert found.hosts == (("a", 9201), ("b", 9201))
    assert (found.tls, dict(found.files)) == (True, {"ca_file": "/ca.pem"})
    assert (found.user, found.password) == ("me", "secret")
    assert "secret" not in repr(found)
    assert address_of(Server("http://a"), "search").hosts == (("a", 9200),)


@pytest.mark.parametrize(
    ("hosts", "found"),
    [
        ("[::1]:7000", [("::1", 7000)]),
        ("[2001:db8::1]", [("2001:db8::1", 9200)]),
        ("a,[::1],[::2]:7000", [("a", 7000), ("::1", 7000), ("::2", 7000)]),
    ],
)
def test_an_ipv6_address_stands_in_brackets(hosts, found):
    assert address_of(Server(f"https://{hosts}?ca_file=/ca.pem"), "search").hosts == tuple(found)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("redis://a", "no OpenSearch or Elasticsearch"),
        ("https://me:hunter2@a:9200", "with the user apart"),
        ("https://a:9200/path", "no OpenSearch or Elasticsearch"),
        ("https://a:port", "no OpenSearch or Elasticsearch"),
        ("https://", "no OpenSearch or Elasticsearch"),
        ("https://a,,b", "no OpenSearch or Elasticsearch"),
        ("https://::1:9200", "no OpenSearch or Elasticsearch"),
        ("https://a:99999", "no OpenSearch or Elasticsearch"),
        ("https://a?tls=on", "option 'tls' is none of"),
        ("https://a?ca_file=", "option 'ca_file' says nothing"),
    ],
)
def test_an_address_that_is_wrong_is_told_without_what_may_be_a_secret(url, said):
    with pytest.raises(ConfigError, match=said) as told:
        address_of(Server(url), "search")
    assert "hunter2" not in str(told.value)


@pytest.mark.parametrize(
    ("status", "kind", "told"),
    [
        (201, None, None),
        (409, "version_conflict_engine_exception", None),
        (400, "mapper_parsing_exception", SinkRefused),
        (400, "strict_dynamic_mapping_exception", SinkRefused),
        (401, "security_exception", TargetMissing),
        (403, "security_exception", TargetMissing),
        (403, "cluster_block_exception", SinkUnavailable),
        (404, "index_not_found_exception", TargetMissing),
        (429, "es_rejected_execution_exception", SinkUnavailable),
        (429, "cluster_block_exception", SinkUnavailable),
        (503, "unavailable_shards_exception", SinkUnavailable),
    ],
)
def test_a_document_is_done_or_waits_or_is_refused_or_a_person_is_asked(status, kind, told):
    found = judged(status, kind and {"type": kind, "reason": "why"}, "index")
    assert (found and type(found)) == told


def test_the_value_that_does_not_fit_is_not_quoted():
    reason = "failed to parse field [at] of type [date] in document with id '1'. "
    error = {"type": "mapper_parsing_exception", "reason": f"{reason}Preview of field's value: 'x'"}
    assert "'x'" not in str(judged(400, error, "index"))


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (opensearchpy.exceptions.ConnectionTimeout("TIMEOUT", "x", None), "SinkUnavailable"),
        (opensearchpy.exceptions.ConnectionError("N/A", "refused", None), "SinkUnavailable"),
        (opensearchpy.exceptions.AuthenticationException(401, "no", "no"), "TargetMissing"),
        (opensearchpy.exceptions.RequestError(400, "no", {"error": {}}), "TargetMissing"),
        (opensearchpy.exceptions.TransportError(503, "no", "<html>"), "SinkUnavailable"),
        (OSError("no route"), "SinkUnavailable"),
    ],
)
def test_no_record_is_to_blame_for_a_request_that_comes_to_nothing(error, code):
    assert type(translated(error, "index")).__name__ == code


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"key": ()}, "it needs a key"),
        ({"key": ("share",)}, "no column of text, bigint, date"),
        ({"newest_by": "id"}, "newest_by names 'id'"),
        ({"name": "Leads"}, "the name has lower-case letters"),
        ({"columns": {**COLUMNS, "at": "float"}}, "column 'at': kind 'float' is none of"),
        ({"columns": {**COLUMNS, "_id": "text"}}, "'_id' is no name"),
        ({"shards": 0}, "shards is at least 1"),
        ({"at": ""}, "at names no connection"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anybody_is_asked(more, said):
    given = {"name": "leads", "columns": COLUMNS, "key": ("id",), "newest_by": "size", "at": "s"}
    with pytest.raises(ConfigError, match=said):
        SearchIndex(**{**given, **more})


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("share", float("nan"), "'share', row 0: JSON has only numbers that are finite"),
        ("size", -1, "not below 0"),
        ("id", "x" * 513, "takes from 1 to 512"),
        ("id", "", "its key has 0 bytes"),
        ("id", None, "the key has no null"),
    ],
)
def test_what_no_cluster_takes_is_refused_before_it_is_asked(column, value, said):
    sink = SearchIndex("leads", COLUMNS, key=("id",), newest_by="size", at="search")
    row = {"id": "a", "size": 1, "gone": False, "share": 0.5, column: value}
    types = {"id": pa.string(), "size": pa.int64(), "gone": pa.bool_(), "share": pa.float64()}
    table = pa.table({name: pa.array([row[name]], types[name]) for name in row})
    with pytest.raises(SinkRefused, match=said):
        sink.check(table)


def test_a_cluster_that_is_away_is_asked_once_in_a_call_however_many_tenants_there_are(monkeypatch):
    asked = []

    def away(_, method, path, body=None):
        asked.append((method, path, body))
        raise SinkUnavailable("away")

    monkeypatch.setattr(Cluster, "raw", away)
    sink = SearchIndex("leads-{tenant}", COLUMNS, key=("id",), newest_by="size", at="search")
    site = Site(Connections({}, "", servers={"search": Server("http://a")}), None)
    table = pa.table({"id": ["a"], "size": [1], "gone": [False], "share": [0.5]})
    effects = [
        Effect((Slice(LaneId("keep", f"t{n}", 0), "visits", 0, 1, epoch=1),), (1,), table)
        for n in range(9)
    ]
    told = sink.open(site).write(effects)
    assert {one.error.code for one in told} == {"SinkUnavailable"}
    assert asked == [("GET", "/leads-t0/_mapping", None)]


def test_a_request_that_is_too_large_is_halved_down_to_the_document_that_is(monkeypatch):
    asked = []

    def takes_little(_, method, path, body=None):
        assert (method, path.partition("?")[0]) == ("POST", "/_bulk")
        ids = [line.split(b'"_id":"')[1].split(b'"')[0] for line in body.splitlines()[::2]]
        asked.append(ids)
        if b"k5" in ids or len(ids) > 4:
            raise opensearchpy.exceptions.TransportError(413, "too large", "<html>")
        return {"items": [{"index": {"status": 201}} for _ in ids]}

    monkeypatch.setattr(Cluster, "raw", takes_little)
    sink = SearchIndex("leads", COLUMNS, key=("id",), newest_by="size", at="search")
    site = Site(Connections({}, "", servers={"search": Server("http://a")}), None)
    table = pa.table(
        {
            "id": [f"k{n}" for n in range(9)],
            "size": [1] * 9,
            "gone": [False] * 9,
            "share": [0.5] * 9,
        }
    )
    piece = Slice(LaneId("keep", "t", 0), "visits", 0, 1, epoch=1)
    [told] = sink.open(site).write([Effect((piece,), (1,), table)])
    assert [(row.row, row.error.code) for row in told.refused] == [(5, "SinkRefused")]
    taken = [id_ for ids in asked if b"k5" not in ids and len(ids) <= 4 for id_ in ids]
    assert sorted(taken) == [f"k{n}".encode() for n in range(9) if n != 5]
