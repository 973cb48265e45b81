"""Addresses of Solr, what its answers mean, and how collections are looked at."""

import http.server
import threading
import time
from contextlib import contextmanager

import orjson
import pyarrow as pa
import pytest
import urllib3

from dripping import dripping
from headrace.connectors.solr import servers
from headrace.connectors.solr.documents import SolrDocuments
from headrace.connectors.solr.fitting import fit
from headrace.connectors.solr.library import (
    CollectionBlamed,
    answer_of,
    demand_done,
    unanswered,
)
from headrace.connectors.solr.servers import Solr, address_of
from headrace.embedded.addresses import free_ports
from headrace.errors import ConfigError, HeadraceError, SinkRefused, SinkUnavailable, TargetMissing
from headrace.model.streams import LaneId, Slice
from headrace.ports import Connections, Effect, Server, Site
from headrace.sinks import SolrIndex

COLUMNS = {"lead": "text", "size": "bigint", "gone": "boolean", "share": "double"}
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


def test_an_address_says_hosts_tls_and_files_and_the_user_stands_apart():
    found = address_of(Server("https://a,b:8984/solr?ca_file=/ca.pem", "me", "secret"), "solr")
    assert found.hosts == (("a", 8984), ("b", 8984))
    assert (found.tls, dict(found.files)) == (True, {"ca_file": "/ca.pem"})
    assert (found.user, found.password) == ("me", "secret")
    assert "secret" not in repr(found)
    assert address_of(Server("http://a"), "solr").hosts == (("a", 8983),)


@pytest.mark.parametrize(
    ("hosts", "found"),
    [
        ("[::1]:7000", [("::1", 7000)]),
        ("[2001:db8::1]", [("2001:db8::1", 8983)]),
        ("a,[::1],[::2]:7000", [("a", 7000), ("::1", 7000), ("::2", 7000)]),
    ],
)
def test_an_ipv6_address_stands_in_brackets(hosts, found):
    assert address_of(Server(f"https://{hosts}?ca_file=/ca.pem"), "solr").hosts == tuple(found)


@pytest.mark.parametrize("url", ["solr://a", "https://me:hunter2@a:8983", "https://a:8983/other"])
def test_an_address_that_is_wrong_is_told_without_what_may_be_a_secret(url):
    with pytest.raises(ConfigError, match="connection solr is no Solr: write it as") as told:
        address_of(Server(url), "solr")
    assert "hunter2" not in str(told.value)


@pytest.mark.parametrize(
    ("status", "reason", "told"),
    [
        (400, "ERROR: [doc=a] Error adding field 'size'='x' msg=For input string", SinkRefused),
        (400, "unknown UpdateRequestProcessorChain: headrace", CollectionBlamed),
        (400, "ERROR: [doc=a] unknown field 'size'", CollectionBlamed),
        (401, "no", TargetMissing),
        (403, "no", TargetMissing),
        (404, None, TargetMissing),
        (409, "user version is not high enough: 4", CollectionBlamed),
        (409, "version conflict for a expected=1 actual=2", SinkUnavailable),
        (413, None, SinkRefused),
        (429, "too many requests", SinkUnavailable),
        (500, "No space left on device", SinkUnavailable),
        (503, None, SinkUnavailable),
        (302, None, SinkUnavailable),
    ],
)
def test_a_document_waits_or_is_refused_or_a_person_is_asked(status, reason, told):
    content = b"<html>" if reason is None else orjson.dumps({"error": {"msg": reason}})
    with pytest.raises(HeadraceError) as error:
        demand_done(status, content, "index")
    assert type(error.value) is told


@pytest.mark.parametrize("content", [b"<html>", b"[]", b"", b"\xff"])
def test_an_answer_that_is_none_says_nothing_of_what_was_written(content):
    with pytest.raises(SinkUnavailable, match="an answer that is none"):
        answer_of(content, "index")


@pytest.mark.parametrize(
    "reason",
    [
        "ERROR: [doc=a] Error adding field 'size'='hunter2' msg=For input string: \"hunter2\"",
        "Error: Invalid Date String For input string: 'hunter2'",
        "too large. The prefix of the first immense term is: '[hunter2]'",
        "Invalid Date String:'hunter2'",
    ],
)
def test_the_value_that_does_not_fit_is_not_quoted(reason):
    with pytest.raises(SinkRefused) as told:
        demand_done(400, orjson.dumps({"error": {"msg": reason}}), "index")
    assert "hunter2" not in str(told.value)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (urllib3.exceptions.ReadTimeoutError(None, "/", "late"), "may be written or not"),
        (TimeoutError("late"), "may be written or not"),
        (urllib3.exceptions.ProtocolError("reset"), "not now"),
        (OSError("no route"), "not now"),
    ],
)
def test_no_record_is_to_blame_for_a_request_that_comes_to_nothing(error, said):
    told = unanswered(error, "index")
    assert (type(told), said in str(told)) == (SinkUnavailable, True)


@pytest.mark.parametrize("answers", [(), (HEAD + b"Content-Length: 2\r\n\r\n{}",)])
@pytest.mark.parametrize(
    "drips", [HEAD + b"X: " + b"a" * 200, HEAD + b"Content-Length: 200\r\n\r\n" + b" " * 200]
)
def test_an_answer_that_comes_byte_by_byte_is_none_when_the_time_is_over(
    monkeypatch, answers, drips
):
    monkeypatch.setattr(servers, "_ANSWER_S", 0.4)
    with dripping(drips, answers=answers) as port:
        solr = Solr("solr", address_of(Server(f"http://127.0.0.1:{port}"), "solr"))
        for _ in answers:
            assert solr.asked("/") == {}
        began_s = time.monotonic()
        with pytest.raises(SinkUnavailable, match="no answer in time"):
            solr.asked("/")
        assert time.monotonic() - began_s < 4
        solr.close()


@contextmanager
def a_solr(answer):
    """The port of one that answers what a function of path, body and login says."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, told = answer(self.path, body, self.headers.get("Authorization"))
            content = told if isinstance(told, bytes) else orjson.dumps(told)
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_POST = do_GET  # noqa: N815 - as http.server asks for it

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()


def test_where_a_node_does_not_answer_the_next_request_goes_to_the_next():
    dead = free_ports(1)[0]
    with a_solr(lambda *asked: (200, {"login": asked[2]})) as port:
        at = Server(f"http://127.0.0.1:{dead},127.0.0.1:{port}/solr", "me", "pw")
        solr = Solr("solr", address_of(at, "solr"))
        with pytest.raises(SinkUnavailable, match="not now"):
            solr.asked("/")
        assert solr.asked("/") == {"login": "Basic bWU6cHc="}
        solr.close()


def test_where_a_node_is_not_well_the_next_request_goes_to_the_next():
    with a_solr(lambda *_: (503, {})) as bad, a_solr(lambda *_: (200, {})) as good:
        at = Server(f"http://127.0.0.1:{bad},127.0.0.1:{good}/solr")
        solr = Solr("solr", address_of(at, "solr"))
        with pytest.raises(SinkUnavailable, match="not now"):
            solr.asked("/")
        assert solr.asked("/") == {}
        solr.close()


def effects(*tables):
    for number, table in enumerate(tables):
        piece = Slice(LaneId("keep", f"t{number}", 0), "visits", 0, 9, epoch=1)
        yield Effect((piece,), (9,), table)


def rows(*sizes):
    count = len(sizes)
    return pa.table(
        {
            "lead": [f"k{n}" for n in range(count)],
            "size": pa.array(sizes, pa.int64()),
            "gone": [False] * count,
            "share": [0.5] * count,
        }
    )


def test_a_document_that_is_refused_is_found_by_halves_and_the_others_are_taken():
    taken = {}

    def answer(path, body, _):
        assert path == "/solr/leads/update?update.chain=headrace&commitWithin=1000"
        for document in orjson.loads(body):
            if document["size"] in {41, 77}:
                return 400, {"error": {"msg": "no"}}
            taken[document["id"]] = document["headrace_version"]
        return 200, {}

    with a_solr(answer) as port:
        sink = SolrIndex("leads", COLUMNS, key=("lead",), newest_by="size", at="solr")
        site = Site(Connections({}, "", servers={"solr": Server(f"http://127.0.0.1:{port}")}), None)
        [told] = sink.open(site).write(list(effects(rows(*range(100)))))
    assert [(row.row, row.error.code) for row in told.refused] == [
        (41, "SinkRefused"),
        (77, "SinkRefused"),
    ]
    assert taken == {f"k{n}": n for n in range(100) if n not in (41, 77)}


@pytest.mark.parametrize("is_fit", [True, False])
def test_a_key_that_has_the_words_of_a_lost_field_is_held_against_its_record_alone(is_fit):
    """Solr's reason has the id of the document in it, and ids are the tenants' to choose."""
    taken = set()
    kinds = {"lead": "string", "size": "plong", "gone": "boolean", "share": "pdouble"}
    types = [*TYPES, {"name": "boolean", "class": "solr.BoolField"}]
    types.append({"name": "pdouble", "class": "solr.DoublePointField"})
    fields = [{"name": name, "type": kind} for name, kind in kinds.items()] + FIELDS[:2]
    schema = {"uniqueKey": "id", "fieldTypes": types, "fields": fields[0 if is_fit else 1 :]}

    def answer(path, body, _):
        if path.endswith("/schema"):
            return 200, {"schema": schema}
        if "/admin/" in path:
            return 200, CHAIN
        for document in orjson.loads(body):
            if document["size"] == 1:
                said = f"ERROR: [doc={document['id']}] Error adding field 'size'='x' msg=no"
                return 400, {"error": {"msg": said}}
            taken.add(document["lead"])
        return 200, {}

    table = rows(0, 1, 2).set_column(0, "lead", pa.array(["a", "unknown field", "c"]))
    with a_solr(answer) as port:
        sink = SolrIndex("leads", COLUMNS, key=("lead",), newest_by="size", at="solr")
        site = Site(Connections({}, "", servers={"solr": Server(f"http://127.0.0.1:{port}")}), None)
        [told] = sink.open(site).write(list(effects(table)))
    if is_fit:
        assert [(row.row, row.error.code) for row in told.refused] == [(1, "SinkRefused")]
        assert taken == {"a", "c"}
    else:
        assert told.error.code == "TargetMissing"


def test_a_solr_that_is_away_is_asked_once_in_a_call(monkeypatch):
    asked = []

    def away(_, path, body=None):
        asked.append((path, body))
        raise SinkUnavailable("away")

    monkeypatch.setattr(Solr, "asked", away)
    sink = SolrIndex("leads", COLUMNS, key=("lead",), newest_by="size", at="solr")
    site = Site(Connections({}, "", servers={"solr": Server("http://a")}), None)
    told = sink.open(site).write(list(effects(*(rows(1, 2, 3) for _ in range(9)))))
    assert {one.error.code for one in told} == {"SinkUnavailable"}
    assert len(asked) == 1


# --- documents


def test_a_document_has_its_id_its_newness_and_days_as_moments_and_no_nulls():
    columns = {"a": "text", "day": "date", "at": "timestamp", "price": "decimal(10, 2)"}
    documents = SolrDocuments(columns, ("a", "day"), "at", None, "index")
    table = pa.table(
        {
            "a": ["x:y"],
            "day": pa.array([20_000], pa.int32()).cast(pa.date32()),
            "at": pa.array([1_500_000], pa.timestamp("us", "UTC")),
            "price": pa.nulls(1, pa.decimal128(10, 2)),
        }
    )
    [change] = documents.changes(table, 0)
    assert orjson.loads(change.values[0]) == {
        "id": "x%3Ay:2024-10-04",
        "headrace_version": 1_500_000,
        "a": "x:y",
        "day": "2024-10-04T00:00:00Z",
        "at": "1970-01-01T00:00:01.500000Z",
    }
    finer = table.set_column(2, "at", pa.array([1], pa.timestamp("us", "UTC")))
    with pytest.raises(SinkRefused, match="column 'at': a moment is finer than a millisecond"):
        documents.check(finer)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"key": ()}, "it needs a key"),
        ({"newest_by": "lead"}, "newest_by names 'lead'"),
        ({"name": "a/b"}, "the name has letters"),
        ({"columns": {**COLUMNS, "id": "text"}}, "no column is named 'id'"),
        ({"columns": {**COLUMNS, "headrace_version": "bigint"}}, "no column is named 'headrace_"),
        ({"at": ""}, "at names no connection"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anybody_is_asked(more, said):
    given = {"name": "leads", "columns": COLUMNS, "key": ("lead",), "newest_by": "size", "at": "s"}
    with pytest.raises(ConfigError, match=said):
        SolrIndex(**{**given, **more})


# --- collections

TYPES = [
    {"name": "string", "class": "solr.StrField"},
    {"name": "plong", "class": "solr.LongPointField"},
    {"name": "pdate", "class": "org.apache.solr.schema.DatePointField"},
]
FIELDS = [
    {"name": "id", "type": "string"},
    {"name": "headrace_version", "type": "plong"},
    {"name": "lead", "type": "string"},
]
CHAIN = b"""<config><updateRequestProcessorChain name="other"/>
<updateRequestProcessorChain name="headrace">
  <processor class="solr.DocBasedVersionConstraintsProcessorFactory">
    <str name="versionField"> headrace_version </str><bool name="ignoreOldUpdates">true</bool>
  </processor><processor class="solr.RunUpdateProcessorFactory"/>
</updateRequestProcessorChain></config>"""


def looked_at(columns, *, fields=FIELDS, dynamic=(), key="id", config=CHAIN, status=200):
    schema = {"uniqueKey": key, "fieldTypes": TYPES, "fields": fields, "dynamicFields": dynamic}
    told = {
        "/solr/leads/schema": {"schema": schema},
        "/solr/leads/admin/file?file=solrconfig.xml": config,
    }
    with a_solr(lambda path, *_: (status, told[path])) as port:
        solr = Solr("solr", address_of(Server(f"http://127.0.0.1:{port}"), "solr"))
        try:
            fit(solr, "leads", columns)
        finally:
            solr.close()


def test_a_collection_that_has_its_fields_and_its_chain_is_taken():
    looked_at({"lead": "text"})
    dynamic = [{"name": "*", "type": "string"}, {"name": "*_l", "type": "plong"}]
    looked_at({"lead": "text", "size_l": "bigint"}, dynamic=dynamic)


@pytest.mark.parametrize(
    ("columns", "more", "said"),
    [
        (
            {"size": "bigint", "at": "date"},
            {},
            r'{"add-field":\[{"name":"size","type":"plong"},{"n',
        ),
        (
            {"lead": "bigint"},
            {},
            "field 'lead' is StrField, and a bigint is kept by LongPointField",
        ),
        ({"lead": "text"}, {"fields": FIELDS[2:]}, '"name":"headrace_version","type":"plong"'),
        ({"lead": "text"}, {"key": "key"}, "its uniqueKey is 'key', and has to be 'id'"),
        ({"lead": "text"}, {"config": b"<config/>"}, "has no update chain 'headrace'"),
        ({"lead": "text"}, {"config": CHAIN.replace(b'"headrace"', b'"x"')}, "has no update chain"),
        ({"lead": "text"}, {"config": CHAIN.replace(b"DocBased", b"Run")}, "has no update chain"),
        (
            {"lead": "text"},
            {"config": CHAIN.replace(b"true", b"false")},
            "without ignoreOldUpdates",
        ),
        ({"lead": "text"}, {"config": CHAIN.replace(b"ce_v", b"cev")}, "without versionField head"),
        ({"lead": "text"}, {"status": 404}, "there is no such collection"),
        ({"lead": "text"}, {"status": 400}, "Solr refuses it"),
        ({"lead": "text"}, {"status": 403}, "its user lacks a right"),
    ],
)
def test_what_a_collection_lacks_is_told_at_deploy(columns, more, said):
    with pytest.raises(ConfigError, match=said):
        looked_at(columns, **more)


def test_a_solr_that_is_away_says_nothing_of_a_collection():
    with pytest.raises(SinkUnavailable):
        looked_at({"lead": "text"}, status=503)
    with pytest.raises(SinkUnavailable, match="an answer that is none"):
        looked_at({"lead": "text"}, fields=[{"of": "another"}])
    with pytest.raises(SinkUnavailable, match="an answer that is none"):
        looked_at({"lead": "text"}, config=b"<html>")
