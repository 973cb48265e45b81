"""An index in a real Solr: what searches find, and what becomes of rows it does not take."""

import datetime as dt
import os
import signal
import time
from decimal import Decimal
from urllib.parse import urlencode

import pyarrow as pa
import pytest
from leads import LEADS, SAID, Target, due_after_zombies, effect, of_leads, one, until_taken

from headrace.connectors.solr import servers
from headrace.connectors.solr.servers import solr_of
from headrace.embedded import EmbeddedSolr
from headrace.embedded.addresses import free_ports
from headrace.errors import ConfigError, SinkUnavailable
from headrace.ports import Site
from headrace.sinks import SolrIndex
from solr_cores import drop_core, found, make_core

pytestmark = pytest.mark.slow


def leads(name, **more):
    return SolrIndex(name, LEADS, **{"at": "solr", **SAID, **more})


class Core(Target):
    """Cores of one's own in a Solr, as a sink and as whoever searches sees them."""

    def __init__(self, server):
        super().__init__("solr", server.url)
        self.server = server
        self.solr = solr_of(self.connections, "solr")

    def made(self, columns=LEADS, name=None):
        make_core(self.server, name or self.name, columns)
        return self

    def found(self, query="*:*", name=None):
        return found(self.solr, name or self.name, query)

    def there(self):
        """Cities by lead, of those that are not gone."""
        return {lead: document["city"] for lead, document in self.found("gone:false").items()}


@pytest.fixture
def core(solr):
    return Core(solr)


@pytest.fixture(scope="module")
def own(tmp_path_factory, solr_jars):
    """A Solr that may be stopped and killed."""
    with EmbeddedSolr(tmp_path_factory.mktemp("own"), *free_ports(1)) as server:
        yield server


# --- what searches find


def test_each_kind_of_value_is_found_as_what_it_is_and_nulls_are_not_there(core):
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
    core.made({**columns, "price": "string", "tenant": "string"})
    sink = SolrIndex(core.name, columns, key=("tenant", "number"), newest_by="at", at="solr")
    moment = dt.datetime(2026, 1, 31, 12, 0, 0, 123000, dt.UTC)
    table = pa.table(
        {
            "tenant": ["a:b"],
            "number": [-5],
            "at": pa.array([moment], pa.timestamp("us", "UTC")),
            "day": [dt.date(2026, 1, 31)],
            "price": [Decimal("1234567890123456789012345678.10")],
            "share": [0.1],
            "paid": [True],
            "raw": [b"\x00\xff"],
            "note": ["Alle meine Entchen"],
            "nothing": pa.nulls(1, pa.string()),
        }
    )
    assert core.write(core.prepared(sink), table) == [None]
    due = {
        "a%3Ab:-5": {
            "headrace_version": 1769860800123000,
            "tenant": "a:b",
            "number": -5,
            "at": "2026-01-31T12:00:00.123Z",
            "day": "2026-01-31T00:00:00Z",
            "price": "1234567890123456789012345678.10",
            "share": 0.1,
            "paid": True,
            "raw": "AP8=",
            "note": "Alle meine Entchen",
        }
    }
    for query in (
        "note:entchen",
        'tenant:"a:b"',
        "at:[2026-01-31T12:00:00.123Z TO 2026-02-01T00:00:00Z]",
        'day:"2026-01-31T00:00:00Z"',
        "number:[-9 TO -1]",
        "paid:true",
    ):
        assert core.found(query) == due, query


def test_searches_find_a_document_within_a_moment_and_nobody_commits(core):
    sink = core.made().prepared(leads(core.name))
    asked = f"/{core.name}/select?{urlencode({'q': 'city:rome'})}"
    assert core.write(sink, one("a", "Rome", 1)) == [None]
    give_up_s = time.monotonic() + 10
    while not core.solr.asked(asked)["response"]["numFound"]:
        assert time.monotonic() < give_up_s
        time.sleep(0.1)


def test_what_is_gone_stays_without_its_data_and_only_what_is_newer_comes_back(core):
    sink = core.made().prepared(leads(core.name))
    core.write(sink, one("a", "Rome", 1))
    assert core.write(sink, one("a", None, 5, gone=True)) == [None]
    mark = {"lead": "a", "changed": 5, "headrace_version": 5, "gone": True}
    assert core.found() == {"a": mark}
    for version in (4, 5):
        assert core.write(sink, one("a", "Bonn", version)) == [None]
    assert core.there() == {}
    core.write(sink, one("a", "Oslo", 6))
    assert core.there() == {"a": "Oslo"}


def test_versions_are_as_large_and_as_small_as_they_get(core):
    sink = core.made().prepared(leads(core.name))
    for version, city in ((-(2**63), "oldest"), (2**63 - 2, "new"), (2**63 - 3, "old")):
        assert core.write(sink, one("a", city, version)) == [None]
    assert core.there() == {"a": "new"}


def test_a_tenant_whose_collection_is_not_there_stops_alone(core):
    core.made(name=f"{core.name}-t0")
    sink = core.prepared(leads(f"{core.name}-{{tenant}}"))
    site = Site(core.connections, None, in_company=True)
    first, second = core.write(sink, one("a", "Rome", 1), one("a", "Oslo", 1), site=site)
    assert first is None
    assert "collection" in second.message
    assert "make it" in second.message
    core.made(name=f"{core.name}-t1")
    assert core.write(sink, one("a", "Rome", 1), one("a", "Oslo", 1)) == [None, None]
    cities = [core.found(name=f"{core.name}-t{n}")["a"]["city"] for n in (0, 1)]
    assert cities == ["Rome", "Oslo"]


def test_a_document_of_somebody_else_loses_to_the_next_of_its_id(core):
    sink = core.made().prepared(leads(core.name))
    core.solr.asked(f"/{core.name}/update", b'[{"id": "a", "city": "Lima", "gone": false}]')
    assert core.there() == {"a": "Lima"}
    assert core.write(sink, one("a", "Rome", 1)) == [None]
    assert core.there() == {"a": "Rome"}


# --- what it does not take


def test_a_value_that_does_not_fit_its_field_is_named_and_the_others_are_there(core):
    sink = core.made({**LEADS, "city": "string"}).prepared(leads(core.name))
    rows = [(f"k{n}", "x" * 40_000 if n == 33 else "Rome", 1, 1, False) for n in range(100)]
    [told] = core.told(sink, effect(of_leads(*rows)))
    assert [(row.row, row.error.code) for row in told.refused] == [(33, "SinkRefused")]
    assert "'city'" in told.refused[0].error.message or '"city"' in told.refused[0].error.message
    assert "[120, 120" not in told.refused[0].error.message
    assert set(core.found()) == {f"k{n}" for n in range(100) if n != 33}


def test_a_field_that_is_gone_stops_the_lanes_and_blames_no_record(core):
    sink = core.made().prepared(leads(core.name))
    core.solr.asked(f"/{core.name}/schema", b'{"delete-field": {"name": "city"}}')
    [error] = core.write(sink, one("a", "Rome", 1))
    assert (error.code, "has lost a field" in error.message) == ("TargetMissing", True)


def test_a_collection_that_is_gone_stops_the_lanes(core):
    sink = core.made().prepared(leads(core.name))
    drop_core(core.server, core.name)
    [error] = core.write(sink, one("a", "Rome", 1))
    assert error.code == "TargetMissing"
    core.made()
    assert core.write(sink, one("a", "Rome", 1)) == [None]


# --- deploys


def test_what_a_deploy_tells_to_add_is_what_solr_takes(core):
    core.made({})
    sink = leads(core.name)
    with pytest.raises(ConfigError, match="it lacks fields") as told:
        core.prepared(sink)
    core.solr.asked(f"/{core.name}/schema", str(told.value).partition(" of ")[2].encode())
    assert core.write(core.prepared(sink), one("a", "Rome", 1)) == [None]


def test_a_collection_that_is_wrong_is_refused_and_nothing_is_written_to_look(core):
    with pytest.raises(ConfigError, match="there is no such collection"):
        core.prepared(leads(core.name))
    core.made({**LEADS, "size": "text_general"})
    with pytest.raises(ConfigError, match="field 'size' is TextField, and a bigint"):
        core.prepared(leads(core.name))
    assert core.found() == {}


def test_a_chain_that_compares_another_field_is_refused(core):
    core.made()
    config = core.server.folder / "home" / core.name / "conf" / "solrconfig.xml"
    field = '<str name="versionField">headrace_version</str>'
    assert field in config.read_text()
    config.write_text(config.read_text().replace(field, '<str name="versionField">size</str>'))
    core.solr.asked(f"/admin/cores?action=RELOAD&core={core.name}")
    with pytest.raises(ConfigError, match="without versionField headrace_version"):
        core.prepared(leads(core.name))
    assert core.found() == {}


def test_a_chain_that_does_not_leave_out_what_is_old_any_more_stops_the_lanes(core):
    sink = core.made().prepared(leads(core.name))
    config = core.server.folder / "home" / core.name / "conf" / "solrconfig.xml"
    ignores = '<bool name="ignoreOldUpdates">true</bool>'
    assert ignores in config.read_text()
    config.write_text(config.read_text().replace(ignores, ""))
    core.solr.asked(f"/admin/cores?action=RELOAD&core={core.name}")
    core.write(sink, one("a", "Rome", 2))
    [error] = core.write(sink, one("a", "Oslo", 1))
    assert (error.code, "ignoreOldUpdates" in error.message) == ("TargetMissing", True)


# --- kills


def test_attempts_of_all_kinds_at_once_and_late_leave_what_one_of_each_would(core):
    sink = core.made().prepared(leads(core.name))
    due, seed = due_after_zombies(sink, core.site, lanes=4, waves=10)
    assert core.there() == {key: value for key, value in due.items() if value}, seed


def test_a_solr_that_says_nothing_or_goes_away_delays_and_loses_nothing(own, monkeypatch):
    core = Core(own).made()
    sink = core.prepared(leads(core.name))
    many = of_leads(*((f"k{n}", "Rome", n, 1, False) for n in range(2_000)))
    with monkeypatch.context() as hurried:
        hurried.setattr(servers, "_ANSWER_S", 1.0)
        os.kill(own.pid, signal.SIGSTOP)
        try:
            [error] = core.write(sink, many)
        finally:
            os.kill(own.pid, signal.SIGCONT)
    assert error.code == "SinkUnavailable"
    until_taken(core, sink, many, within_s=60)
    own.kill()
    [error] = core.write(sink, one("k0", "Oslo", 2))
    assert error.code == "SinkUnavailable"
    with pytest.raises(SinkUnavailable):
        core.prepared(sink)
    own.start()
    until_taken(core, sink, one("k0", "Oslo", 2), within_s=60)
    there = core.there()
    assert len(there) == 2_000
    assert there["k0"] == "Oslo"
