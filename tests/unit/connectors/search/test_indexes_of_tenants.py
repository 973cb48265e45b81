"""An index for each tenant: what one that cannot be made, or is closed, costs the others."""

import contextlib
import http.server
import itertools
import json
import math
import threading
import time

import pyarrow as pa
import pytest
from opensearchpy import exceptions

from headrace.connectors import tenants
from headrace.connectors.search import servers
from headrace.connectors.search.library import library
from headrace.connectors.search.tenants_indexes import TenantsIndexesWriter
from headrace.connectors.search.writer import _judgements
from headrace.errors import SinkUnavailable
from headrace.model.streams import LaneId, Slice
from headrace.ports import Connections, Effect, Server, Site
from headrace.sinks import SearchIndex

MOMENT_S = 0.4
FIELDS = {"mappings": {"properties": {"id": {"type": "text"}, "size": {"type": "long"}}}}
ABSENT = 404, {"error": {"type": "index_not_found_exception", "reason": "no such index"}}
BLOCKED = 403, {"error": {"type": "cluster_block_exception", "reason": "create-index blocked"}}
FORBIDDEN = 403, {"error": {"type": "security_exception", "reason": "no permissions"}}
CLOSED = {"status": 400, "error": {"type": "index_closed_exception", "reason": "closed"}}


class Cluster:
    """A cluster that has the index of each tenant but those of ``new``."""

    def __init__(self):
        self.new = {}
        self.closed, self.asked = set(), []
        #: what is said of a look at the index of a tenant, whatever it is
        self.odd = {}
        self.hangs_s = 0.0

    def answer(self, method, path, body):
        """Status and body."""
        self.asked.append((method, path.split("?")[0]))
        tenant = path.split("/")[1].split("-")[0]
        if method == "GET":
            if tenant in self.odd:
                return self.odd[tenant]
            return ABSENT if tenant in self.new else (200, {f"{tenant}-leads.v1": FIELDS})
        if method == "PUT":
            time.sleep(self.hangs_s)
            return self.new[tenant]
        actions = [json.loads(line)["index"]["_index"] for line in body.splitlines()[::2]]
        items = [CLOSED if at in self.closed else {"status": 201} for at in actions]
        return 200, {"items": [{"index": item} for item in items]}


@pytest.fixture
def cluster(monkeypatch):
    library()  # to import it takes its time
    monkeypatch.setattr(servers._clusters, "held", {})
    monkeypatch.setattr(tenants, "MOMENT_S", MOMENT_S)
    said = Cluster()

    class Talks(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            status, answer = said.answer(self.command, self.path, body)
            told = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            with contextlib.suppress(OSError):  # nobody waits for it any more
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(told)))
                self.end_headers()
                self.wfile.write(told)

        def do_PUT(self):
            self.do_GET()

        def do_POST(self):
            self.do_GET()

        def log_message(self, *_):
            """Says nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Talks) as listening:
        threading.Thread(target=listening.serve_forever, daemon=True).start()
        said.port = listening.server_port
        yield said
        listening.shutdown()


def written(cluster, *names, may_repeat=True):
    """What became of a row of each tenant, all of one bin."""
    sink = SearchIndex(
        "{tenant}-leads", {"id": "text", "size": "bigint"}, ("id",), newest_by="size", at="search"
    )
    server = Server(f"http://127.0.0.1:{cluster.port}")
    site = Site(Connections({}, "", servers={"search": server}), None, in_company=True)
    effects = [
        Effect(
            (Slice(LaneId("keep", name, 0), "visits", 0, 9, epoch=1),),
            (9,),
            pa.table({"id": ["a"], "size": [1]}),
            may_repeat=may_repeat,
        )
        for name in names
    ]
    told = sink.open(site).write(effects)
    return {
        name: one.error.code if one.error else "untried" if one.untried else "written"
        for name, one in zip(names, told, strict=True)
    }


@pytest.mark.parametrize("order", list(itertools.permutations(("acme", "bolt", "newbie"))))
@pytest.mark.parametrize(
    ("refusal", "code"), [(BLOCKED, "SinkUnavailable"), (FORBIDDEN, "TargetMissing")]
)
def test_an_index_that_may_not_be_made_costs_its_own_tenant_alone(cluster, order, refusal, code):
    cluster.new["newbie"] = refusal
    due = {"acme": "written", "bolt": "written", "newbie": code}
    for _ in ("all new to the process", "known"):
        assert written(cluster, *order) == due


def test_a_name_that_no_index_may_have_costs_its_own_tenant_alone(cluster):
    due = {"Newbie": "TargetMissing", "acme": "written"}
    assert written(cluster, "Newbie", "acme") == due


def test_an_index_whose_making_hangs_comes_behind_those_that_are_known_and_has_a_moment(cluster):
    assert written(cluster, "acme") == {"acme": "written"}
    cluster.new["newbie"], cluster.hangs_s = (200, {}), 10 * MOMENT_S
    began_s = time.monotonic()
    told = written(cluster, "newbie", "acme", "bolt")
    assert time.monotonic() - began_s < 5 * MOMENT_S
    assert told == {"newbie": "TenantsSinkSlow", "acme": "written", "bolt": "written"}
    assert cluster.asked.index(("PUT", "/newbie-leads.v1")) > cluster.asked.index(
        ("POST", "/_bulk"), 2
    )


def test_indexes_that_are_made_and_hang_have_one_moment_where_there_is_one_chance(cluster):
    assert written(cluster, "acme") == {"acme": "written"}
    new = [f"newbie{number}" for number in range(6)]
    cluster.new, cluster.hangs_s = dict.fromkeys(new, (200, {})), 10 * MOMENT_S
    began_s = time.monotonic()
    told = written(cluster, *new, "acme", "bolt", may_repeat=False)
    assert time.monotonic() - began_s < 3 * MOMENT_S, "their moments add up"
    assert told == dict.fromkeys(new, "TenantsSinkSlow") | {"acme": "written", "bolt": "written"}


def test_indexes_that_are_known_share_a_request_and_are_looked_at_once(cluster):
    written(cluster, "acme", "bolt")
    cluster.asked.clear()
    written(cluster, "acme", "bolt")
    assert cluster.asked == [("POST", "/_bulk"), ("POST", "/_bulk")]  # one row, then the others


def test_an_index_that_is_closed_stops_its_tenant_alone_and_is_looked_at_again(cluster):
    written(cluster, "acme", "bolt")
    cluster.closed.add("bolt-leads")
    assert written(cluster, "bolt", "acme") == {"bolt": "TargetMissing", "acme": "written"}
    cluster.closed.clear()
    cluster.asked.clear()
    assert written(cluster, "bolt", "acme") == {"bolt": "written", "acme": "written"}
    assert [path for method, path in cluster.asked if method == "GET"] == ["/bolt-leads/_mapping"]


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ({}, "TargetMissing"),
        ([], "SinkUnavailable"),
        ({"newbie-leads.v1": {}}, "SinkUnavailable"),
        (b"<html>", "SinkUnavailable"),
        (b"\xff\xfe", "SinkUnavailable"),
    ],
    ids=["nothing", "list", "no fields", "page", "noise"],
)
def test_what_is_odd_about_one_index_costs_its_own_tenant_alone(cluster, said, code):
    cluster.odd["newbie"] = 200, said
    assert written(cluster, "newbie", "acme") == {"newbie": code, "acme": "written"}


class Unanswered:
    """Indexes about which nobody answers, as a client tells it."""

    name, cluster = "{tenant}-leads", servers.Cluster("search", None)
    forget = None

    def __init__(self, error):
        self.error, self.asked = error, []

    def look_at(self, tenant):
        self.asked.append(tenant)
        raise SinkUnavailable("away") from self.error

    def learn(self, tenant, fields):
        pytest.fail("there is nothing to learn")


LATE = exceptions.ConnectionTimeout("TIMEOUT", "read", None)
REFUSED = exceptions.ConnectionError("N/A", "refused", None)


@pytest.mark.parametrize(
    ("error", "left_s", "asked"),
    [
        (LATE, tenants.MOMENT_S / 2, ["bolt", "crow"]),
        (LATE, math.inf, ["bolt"]),
        (REFUSED, tenants.MOMENT_S / 2, ["bolt"]),
    ],
    ids=["cut short", "whole", "refused"],
)
def test_a_look_that_others_left_less_than_a_moment_says_nothing_of_the_cluster(
    error, left_s, asked
):
    known = Unanswered(error)
    writer = TenantsIndexesWriter(None, known, in_company=True)
    for tenant in ("bolt", "crow"):
        with pytest.raises(SinkUnavailable, match="away"):
            writer._opened(tenant, time.monotonic() + left_s)
    assert known.asked == asked


@pytest.mark.parametrize("body", [{}, {"items": [{}]}, {"items": []}, "text", [1]])
def test_an_answer_to_documents_that_tells_nothing_of_them_is_none(body):
    with pytest.raises(SinkUnavailable, match="an answer that is none"):
        _judgements(body, 1, "index x")
