"""An index in a real OpenSearch: what searches find, and what becomes of rows it does not take."""

import datetime as dt
import os
import signal
import time
import uuid
from decimal import Decimal

import pyarrow as pa
import pytest
from leads import LEADS, SAID, Target, due_after_zombies, effect, of_leads, one, until_taken

from headrace.connectors.search import servers
from headrace.connectors.search.servers import cluster_of
from headrace.embedded import EmbeddedOpenSearch
from headrace.embedded.addresses import free_ports
from headrace.errors import ConfigError, SinkUnavailable
from headrace.sinks import SearchIndex

pytestmark = pytest.mark.slow


def leads(name, **more):
    return SearchIndex(name, LEADS, **{"at": "search", "copies": 0, **SAID, **more})


class Index(Target):
    """Indexes of one's own in a cluster, as a sink and as whoever searches sees them."""

    def __init__(self, url):
        super().__init__("search", url)
        self.cluster = cluster_of(self.connections, "search")

    def found(self, query, name=None):
        """The documents that a query finds, by their id."""
        name = name or self.name
        self.cluster.asked("POST", f"/{name}/_refresh")
        hits = self.cluster.asked("POST", f"/{name}/_search", {"size": 1000, "query": query})
        return {hit["_id"]: hit["_source"] for hit in hits["hits"]["hits"]}

    def there(self):
        """Cities by lead, of those that are not gone."""
        found = self.found({"term": {"gone": False}})
        return {lead: document["city"] for lead, document in found.items()}

    def settle(self, **settings):
        self.cluster.asked("PUT", f"/{self.name}/_settings", settings)


@pytest.fixture
def index(opensearch):
    return Index(opensearch.url)


@pytest.fixture(scope="module")
def strict(open_folder, opensearch_jars):
    """A node that takes little at once, and may be stopped and killed."""
    settings = {"http.max_content_length": "1mb", "indexing_pressure.memory.limit": "600kb"}
    folder = open_folder / f"strict-{uuid.uuid4().hex[:8]}"
    with EmbeddedOpenSearch(folder, *free_ports(1), settings=settings) as server:
        yield server


# --- what searches find


def test_each_kind_of_value_is_found_as_what_it_is_and_nulls_are_not_there(index):
    columns = {
        "tenant": "text",
        "number": "bigint",
        "at": "timestamp",
        "day": "date",
        "price": "decimal(30, 2)",
        "share": "double",
        "paid": "boolean",
        "raw": "bytes",
        "note": "text",
        "nothing": "text",
    }
    sink = SearchIndex(
        index.name, columns, key=("tenant", "number"), newest_by="at", at="search", copies=0
    )
    moment = dt.datetime(2026, 1, 31, 12, 0, 0, 123456, dt.UTC)
    price = Decimal("1234567890123456789012345678.10")
    table = pa.table(
        {
            "tenant": ["a:b"],
            "number": [-5],
            "at": pa.array([moment], pa.timestamp("us", "UTC")),
            "day": [dt.date(2026, 1, 31)],
            "price": [price],
            "share": [0.1],
            "paid": [True],
            "raw": [b"\x00\xff"],
            "note": ["Alle meine Entchen"],
            "nothing": pa.nulls(1, pa.string()),
        }
    )
    assert index.write(index.prepared(sink), table) == [None]
    due = {
        "a%3Ab:-5": {
            "tenant": "a:b",
            "number": -5,
            "at": "2026-01-31T12:00:00.123456Z",
            "day": "2026-01-31",
            "price": "1234567890123456789012345678.10",
            "share": 0.1,
            "paid": True,
            "raw": "AP8=",
            "note": "Alle meine Entchen",
        }
    }
    for query in (
        {"match": {"note": "entchen"}},
        {"term": {"tenant.exact": "a:b"}},
        {"range": {"at": {"gte": "2026-01-31T12:00:00.123Z", "lt": "2026-02-01T00:00:00Z"}}},
        {"term": {"day": "2026-01-31"}},
        {"range": {"price": {"gt": 1e27}}},
        {"term": {"number": -5}},
    ):
        assert index.found(query) == due, query


def test_what_is_gone_stays_without_its_data_and_only_what_is_newer_comes_back(index):
    sink = index.prepared(leads(index.name))
    index.write(sink, one("a", "Rome", 1))
    assert index.write(sink, one("a", None, 5, gone=True)) == [None]
    assert index.found({"match_all": {}}) == {"a": {"lead": "a", "changed": 5, "gone": True}}
    assert index.write(sink, one("a", "Bonn", 4)) == [None]
    assert index.there() == {}
    index.write(sink, one("a", "Oslo", 6))
    assert index.there() == {"a": "Oslo"}


def test_versions_are_as_large_as_they_get_and_never_below_zero(index):
    sink = index.prepared(leads(index.name))
    for version, city in ((2**63 - 2, "new"), (2**63 - 3, "old")):
        assert index.write(sink, one("a", city, version)) == [None]
    assert index.there() == {"a": "new"}
    [error] = index.write(sink, one("b", "x", -1))
    assert (error.code, "not below 0" in error.message) == ("SinkRefused", True)


def test_each_tenant_has_its_own_index_made_when_it_first_writes(index):
    sink = index.prepared(leads(f"{index.name}-{{tenant}}"))
    assert index.write(sink, one("a", "Rome", 1), one("a", "Oslo", 1)) == [None, None]
    cities = [index.found({"match_all": {}}, f"{index.name}-t{n}")["a"]["city"] for n in (0, 1)]
    assert cities == ["Rome", "Oslo"]
    errors = [
        told.error
        for told in index.told(
            sink, effect(one("a", "x", 2), "Bad"), effect(one("b", "x", 2), "t1")
        )
    ]
    assert errors[0].code == "TargetMissing"
    assert errors[1] is None


# --- what it does not take


def test_a_value_that_does_not_fit_its_field_is_named_and_the_others_are_there(index):
    columns = {"lead": "text", "at": "timestamp", "size": "bigint"}
    sink = SearchIndex(index.name, columns, key=("lead",), newest_by="size", at="search", copies=0)
    index.prepared(sink)
    moments = [0, 400_000_000_000_000_000, 0]
    table = pa.table(
        {
            "lead": ["a", "b", "c"],
            "at": pa.array(moments, pa.timestamp("us", "UTC")),
            "size": [1] * 3,
        }
    )
    [told] = index.told(sink, effect(table))
    assert [(row.row, row.error.code) for row in told.refused] == [(1, "SinkRefused")]
    assert "'at'" in told.refused[0].error.message or "[at]" in told.refused[0].error.message
    assert set(index.found({"match_all": {}})) == {"a", "c"}


def test_an_index_that_a_full_disk_has_made_read_only_is_waited_for(index):
    sink = index.prepared(leads(index.name))
    index.settle(**{"index.blocks.read_only_allow_delete": True})
    [error] = index.write(sink, one("a", "Rome", 1))
    assert error.code == "SinkUnavailable"
    index.settle(**{"index.blocks.read_only_allow_delete": None})
    assert index.write(sink, one("a", "Rome", 1)) == [None]


def test_an_index_that_is_closed_stops_the_lanes_and_blames_no_record(index):
    sink = index.prepared(leads(index.name))
    index.cluster.asked("POST", f"/{index.name}.v1/_close")
    [told] = index.told(sink, effect(one("a", "Rome", 1)))
    assert (told.error.code, "open it" in told.error.message) == ("TargetMissing", True)
    index.cluster.asked("POST", f"/{index.name}.v1/_open")
    until_taken(index, sink, one("a", "Rome", 1), within_s=30)


def test_an_index_whose_shards_nobody_has_is_waited_for_and_not_for_long(index):
    index.cluster.asked(
        "PUT",
        f"/{index.name}.v1?wait_for_active_shards=0",
        {
            **leads(index.name)._shape.body,
            "settings": {
                "index.routing.allocation.require._name": "nobody",
                "number_of_replicas": 0,
            },
            "aliases": {index.name: {"is_write_index": True}},
        },
    )
    began_s = time.monotonic()
    [error] = index.write(leads(index.name), one("a", "Rome", 1))
    assert error.code == "SinkUnavailable"
    assert time.monotonic() - began_s < 12
    index.settle(**{"index.routing.allocation.require._name": None})
    deadline_s = time.monotonic() + 60
    while index.write(leads(index.name), one("a", "Rome", 1)) != [None]:
        assert time.monotonic() < deadline_s


def test_an_index_that_is_gone_stops_the_lanes_and_is_not_made_by_guessing(index):
    sink = index.prepared(leads(index.name))
    index.cluster.asked("DELETE", f"/{index.name}.v1")
    [error] = index.write(sink, one("a", "Rome", 1))
    assert error.code == "TargetMissing"
    index.prepared(sink)
    assert index.write(sink, one("a", "Rome", 1)) == [None]


def test_who_is_given_too_much_at_once_says_so_and_takes_it_later(strict):
    index = Index(strict.url)
    sink = index.prepared(leads(index.name))
    rows = [(f"k{n}", "x" * 700, 1, 1, False) for n in range(900)]
    [told] = index.told(sink, effect(of_leads(*rows)))
    refused = told.refused or [told]
    assert {row.error.code for row in refused} == {"SinkUnavailable"}
    assert "429" in refused[0].error.message or "rejected" in refused[0].error.message
    for at in range(0, len(rows), 100):
        assert index.write(sink, of_leads(*rows[at : at + 100])) == [None]
    assert index.cluster.asked("GET", f"/{index.name}/_count") is not None


def test_a_document_that_is_too_large_for_the_server_is_refused_alone(strict):
    index = Index(strict.url)
    sink = index.prepared(leads(index.name))
    rows = of_leads(
        ("a", "Rome", 1, 1, False), ("b", "x" * 2**21, 1, 1, False), ("c", "Rome", 1, 1, False)
    )
    [told] = index.told(sink, effect(rows))
    assert [(row.row, row.error.code) for row in told.refused] == [(1, "SinkRefused")]
    assert index.there() == {"a": "Rome", "c": "Rome"}


# --- deploys


def test_an_index_that_is_right_is_found_right_again_and_a_wrong_one_is_refused(index):
    index.prepared(leads(index.name))
    index.prepared(leads(index.name))
    other = SearchIndex(
        index.name,
        {"lead": "text", "city": "date", "size": "bigint"},
        key=("lead",),
        newest_by="size",
        at="search",
    )
    with pytest.raises(ConfigError, match="field 'city' as text, which is no date"):
        index.prepared(other)
    index.cluster.asked("PUT", f"/{index.name}-plain", {})
    with pytest.raises(ConfigError, match="has to be an alias"):
        index.prepared(leads(f"{index.name}-plain"))


# --- kills


def test_attempts_of_all_kinds_at_once_and_late_leave_what_one_of_each_would(index):
    sink = index.prepared(leads(index.name))
    due, seed = due_after_zombies(sink, index.site, lanes=4, waves=10)
    assert index.there() == {key: value for key, value in due.items() if value}, seed


def test_a_node_that_says_nothing_or_goes_away_delays_and_loses_nothing(strict, monkeypatch):
    monkeypatch.setattr(servers, "_ANSWER_S", 1.0)
    monkeypatch.setattr(servers._clusters, "held", {})
    index = Index(strict.url)
    sink = index.prepared(leads(index.name))
    many = of_leads(*((f"k{n}", "Rome", n, 1, False) for n in range(2_000)))
    os.kill(strict.pid, signal.SIGSTOP)
    try:
        [error] = index.write(sink, many)
    finally:
        os.kill(strict.pid, signal.SIGCONT)
    assert error.code == "SinkUnavailable"
    until_taken(index, sink, many, within_s=60)
    strict.kill()
    [error] = index.write(sink, one("k0", "Oslo", 2))
    assert error.code == "SinkUnavailable"
    with pytest.raises(SinkUnavailable):
        index.prepared(sink)
    strict.start()
    until_taken(index, sink, one("k0", "Oslo", 2), within_s=60)
    index.cluster.asked("POST", f"/{index.name}/_refresh")
    assert index.cluster.asked("GET", f"/{index.name}/_count")["count"] == 2_000
    assert index.found({"term": {"lead.exact": "k0"}})["k0"]["city"] == "Oslo"
