"""The tables of the demo: what is in them is what was sent, and planted faults are caught."""

import inspect
import re
from contextlib import ExitStack
from datetime import UTC, datetime
from types import SimpleNamespace

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from headrace.demo import in_all, in_cassandra, in_delta, replicated
from headrace.demo.expected import came_by, expected
from headrace.demo.in_cassandra import keep_in_cassandra
from headrace.demo.reading_back import (
    IN_CACHE,
    IN_CASSANDRA,
    IN_DELTA,
    IN_SEARCH,
    read_back,
    table_checks,
)
from headrace.demo.run import settings_of
from headrace.demo.scenario import REMOVED
from headrace.demo.tables import Asked, with_tables
from headrace.demo.visits import GUEST, read_visits
from headrace.ports import Connections
from headrace.use_cases import UseCase

VISITS = list(read_visits())[:500]
DELTA = "visits in Delta, to the record"


def rows() -> list[dict]:
    """What a faultless run leaves in a table."""
    return [
        {
            "tenant": tenant,
            "part": part,
            "record": record,
            "line": visit.line,
            "lead": visit.lead,
            "at": visit.at,
            "path": visit.path,
            "status": visit.status,
            "bytes": visit.size_bytes,
            "method": None if came_by(visit) == "version 1" else visit.method,
        }
        for (tenant, part), sent in expected(VISITS, {}).lanes.items()
        for record, visit in enumerate(sent)
    ]


def positions() -> dict:
    lanes = {lane: len(sent) for lane, sent in expected(VISITS, {}).lanes.items()}
    return dict.fromkeys((IN_DELTA, IN_CASSANDRA, IN_SEARCH, IN_CACHE), lanes)


def check_of(found, at=None):
    (check,) = table_checks(VISITS, positions() if at is None else at, {DELTA: found})
    return check


def test_a_faultless_table_passes_whatever_its_order():
    check = check_of(rows()[::-1])
    assert check.passed
    assert (check.expected, check.found, check.faults) == ("500", "500", ())


def test_a_table_that_nobody_kept_is_not_told():
    assert table_checks(VISITS, positions(), {}) == []


def test_a_table_that_nothing_was_written_to_is_no_faultless_one():
    check = check_of([], at={})
    left = sum(row["tenant"] == REMOVED for row in rows())
    assert (check.expected, check.found, len(check.faults)) == (str(500 - left), "0", 500 - left)


def test_one_visit_that_is_missing_is_named():
    found = [row for row in rows() if (row["tenant"], row["part"], row["record"]) != ("blog", 1, 3)]
    check = check_of(found)
    assert not check.passed
    assert (check.found, check.faults) == ("499", ("missing: blog.visits[1], record 3",))


def test_one_visit_that_is_there_twice_is_named_also_where_the_sum_is_right():
    found = rows()
    lost, twice = found[0], found[-1]
    check = check_of([*found[1:], twice])
    place = "{tenant}.visits[{part}], record {record}"
    assert check.found == check.expected
    assert check.faults == (
        f"missing: {place.format(**lost)}",
        f"{place.format(**twice)} is there 2 times",
    )


@pytest.mark.parametrize("column", ["line", "lead", "at", "path", "status", "bytes", "method"])
def test_one_value_that_is_wrong_is_caught_in_each_column(column):
    found = rows()
    found[7] = {**found[7], column: "another"}
    (fault,) = check_of(found).faults
    assert fault.startswith(f"wrong: {found[7]['tenant']}.visits[{found[7]['part']}]")
    assert "another" in fault


def test_a_visit_that_nobody_sent_is_caught():
    check = check_of([*rows(), {**rows()[0], "tenant": "blog", "part": 1, "record": 10**6}])
    assert check.faults == ("nobody sent: blog.visits[1], record 1000000",)


def test_of_the_removed_tenant_is_wanted_what_was_read_and_of_others_all_that_was_sent():
    at = positions()
    lane = (REMOVED, 0)
    at[IN_DELTA] = {**at[IN_DELTA], lane: 1, ("home", 0): 1}
    found = [row for row in rows() if (row["tenant"], row["part"]) != lane or row["record"] < 1]
    assert check_of(found, at).passed
    assert not check_of(rows(), at).passed
    assert not check_of([row for row in found if row["tenant"] != "home"], at).passed


def test_delta_is_read_back_without_the_visits_of_a_guest(tmp_path):
    guests = {**rows()[0], "tenant": GUEST}
    table = pa.Table.from_pylist([*rows(), guests], in_delta.SCHEMA)
    write_deltalake(tmp_path / in_delta.FOLDER, table, partition_by=["tenant"])
    there = Connections(kafka={}, database_url="", warehouse=str(tmp_path))
    assert table_checks(VISITS, positions(), read_back(there, [IN_DELTA]))[0].passed


def with_word(found):
    alone = re.compile(r"(?<![a-z0-9._])puppet(?![a-z0-9._])", re.IGNORECASE)
    return [row for row in found if alone.search(row["path"])]


def last_ones(found):
    return list({(row["tenant"], row["lead"]): row for row in found}.values())


@pytest.mark.parametrize(
    ("name", "of"),
    [
        ("those that a search for puppet finds", with_word),
        ("the last visit of each lead, in Valkey", last_ones),
    ],
)
def test_of_a_search_and_a_cache_one_record_that_is_another_is_named(name, of):
    def check(found):
        (check,) = table_checks(VISITS, positions(), {name: found})
        return check

    right = of(rows())
    assert 3 < len(right) < 500
    assert check(right).passed
    assert len(check(right[1:]).faults) == 1
    assert "another" in check([{**right[0], "path": "another"}, *right[1:]]).faults[0]
    assert len(check(rows()).faults) == 500 - len(right)


def test_without_the_client_of_delta_the_demo_runs_and_says_how_to_see_tables(
    tmp_path, monkeypatch
):
    settings = settings_of(tmp_path, "127.0.0.1:1", "smtp://127.0.0.1:1", "local[1]")
    with ExitStack() as stack:
        found = with_tables(settings, tmp_path, stack, Asked())
        assert (found.settings.module, found.use_cases) == ("headrace.demo.in_delta", (IN_DELTA,))
        assert found.settings.connections == {}
        assert "demo --with cassandra" in found.told
        assert "demo --replicate" in found.told
        monkeypatch.setattr("headrace.demo.tables.find_spec", lambda name: None)
        found = with_tables(settings, tmp_path, stack, Asked())
    assert (found.settings, found.use_cases) == (settings, ())
    assert "pip install 'headrace[delta,cassandra]'" in found.told


@pytest.mark.parametrize(
    ("module", "count"), [(in_delta, 4), (in_cassandra, 5), (replicated, 6), (in_all, 7)]
)
def test_the_modules_have_the_use_cases_of_those_before(module, count):
    assert len(inspect.getmembers(module, lambda found: isinstance(found, UseCase))) == count


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("2015-05-17T10:05:03+00:00", datetime(2015, 5, 17, 10, 5, 3, tzinfo=UTC)),
        ("2015-05-17T12:05:03+02:00", datetime(2015, 5, 17, 10, 5, 3, tzinfo=UTC)),
        ("2015-05-17T10:05:03.123456", datetime(2015, 5, 17, 10, 5, 3, 123_000, tzinfo=UTC)),
        ("once", datetime(2026, 1, 2, tzinfo=UTC)),
        (None, datetime(2026, 1, 2, tzinfo=UTC)),
    ],
)
def test_in_cassandra_a_visit_is_at_its_moment_and_one_of_a_guest_that_says_none_when_it_came(
    said, kept
):
    visit = {**rows()[0], "partition": 0, "offset": 3, "at": said}
    visit |= {"timestamp": datetime(2026, 1, 2, tzinfo=UTC)}
    del visit["tenant"], visit["part"], visit["record"]
    made = keep_in_cassandra(pa.Table.from_pylist([visit]), SimpleNamespace(tenant=GUEST))
    in_cassandra.TABLE.check(made)
    assert made["at"].to_pylist() == [kept]
