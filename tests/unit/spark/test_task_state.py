"""State of keys inside a task: of exactly the records before the position, whatever happens."""

import json
import time
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import pyarrow as pa
import pytest
from task_bench import LOG_END, TENANTS, VISITS, ListSink, by_tenant, of_acme, with_tenant

from headrace import StateTable
from headrace.errors import BrokerUnavailable, SinkRefused, StoreUnavailable
from headrace.model.records import Move
from headrace.model.state import StateChanges, StateKey, StateSize
from headrace.model.streams import LaneId, Slice
from headrace.ports import Connections, RefusedRow, Site, Written
from headrace.spark.key_hash import bucket_of_key
from headrace.spark.slice_errors import error_of
from headrace.spark.state_of_lanes import MUCH_BYTES, state_of, transactions
from headrace.state.copies import StateCopies
from headrace.store import SqlPositions
from headrace.testing.dead_letters_fake import MemoryDeadLetters
from headrace.testing.memory_store import MemoryStore
from headrace.testing.numbers_reader import NumbersReader
from headrace.testing.records import records
from headrace.use_cases import use_case

SEEN = StateTable(
    "seen", pa.schema([("digit", pa.string()), ("count", pa.int64())]), key="digit", scope="lane"
)
DROP = {5, 6}


def digit_of(number):
    return str(number % 3)


def counting(table, context):
    """Counts values by their last digit, of three; 5 and 6 clear a counter."""
    seen = context.state["seen"]
    numbers = [int(value) for value in table["value"].to_pylist()]
    known = {row["digit"]: row["count"] for row in seen.load([*map(digit_of, numbers)]).to_pylist()}
    for number in numbers:
        known[digit_of(number)] = known.get(digit_of(number), 0) + 1
        if number in DROP:
            del known[digit_of(number)]
    seen.delete([digit for digit in {*map(digit_of, numbers)} if digit not in known])
    seen.save(pa.table({"digit": [*known], "count": pa.array(known.values(), pa.int64())}))
    return with_tenant(table, context)


def oracle(numbers):
    """What the state is after these, computed from the log alone."""
    known = Counter()
    for number in numbers:
        known[digit_of(number)] += 1
        if number in DROP:
            del known[digit_of(number)]
    return dict(known)


def kept(bench, tenant="acme", partition=0):
    """What the store has."""
    asked = "SELECT value FROM headrace_state WHERE tenant = ? AND part = ? AND name = 'seen'"
    with bench.store.positions.begin() as connection:
        rows = connection.exec_driver_sql(asked, (tenant, f"{tenant}.visits[{partition}]"))
        found = [json.loads(row) for row in rows.scalars()]
    return {row["digit"]: row["count"] for row in found}


def run(bench, sink, **options):
    return bench.run(sink, **{"handler": counting, "state": [SEEN], **options})


def moved(bench, until):
    """Slices from where acme and bolt stand now."""
    return tuple(
        replace(piece, from_offset=bench.position(piece.lane.tenant), until_offset=until)
        for piece in bench.slices()
    )


@pytest.mark.parametrize("parts", [1, 5])
def test_the_task_moves_positions_and_state_together_behind_the_effect(bench, parts):
    sink = ListSink()
    receipts = run(bench, sink, reader=NumbersReader(parts))
    assert all(receipt.committed and receipt.reached == LOG_END for receipt in receipts)
    for tenant in TENANTS:
        assert bench.position(tenant) == LOG_END
        assert kept(bench, tenant) == oracle(range(LOG_END))
    run(bench, sink, slices=moved(bench, 25))
    assert kept(bench) == oracle(range(25))
    assert of_acme(sink) == [b"%d" % number for number in range(25)]


def test_a_task_that_runs_again_finds_it_done_and_calls_nobody(bench):
    sink, calls = ListSink(), []

    def listed(table, context):
        counting(table, context)
        calls.append(context.tenant)
        return with_tenant(table, context)

    run(bench, sink, handler=listed)
    before, calls[:] = list(sink.written), []
    receipts = run(bench, sink, handler=listed)
    assert all(receipt.superseded and receipt.error is None for receipt in receipts)
    assert (sink.written, calls) == (before, [])
    assert kept(bench) == oracle(range(LOG_END))


def test_one_that_slept_before_its_commit_changes_nothing(bench):
    def sleeps(table, context):
        answer = counting(table, context)
        piece = context.slices[0]
        assert bench.store.positions.advance([Move.of(piece, 3)]) == [True]
        return answer

    receipts = run(bench, ListSink(), handler=sleeps)
    assert all(receipt.superseded for receipt in receipts)
    assert kept(bench) == {}


def test_what_a_sink_did_not_take_leaves_state_and_position(bench):
    receipts = run(bench, ListSink(down=True))
    assert all(receipt.error.code == "SinkUnavailable" for receipt in receipts)
    assert (bench.position("acme"), kept(bench)) == (0, {})


def test_a_store_that_does_not_answer_the_commit_is_trouble_that_passes(bench, monkeypatch):
    sink = ListSink()

    def down(self):
        raise StoreUnavailable("locked")

    monkeypatch.setattr(SqlPositions, "begin", down)
    receipts = run(bench, sink)
    assert {(receipt.error.code, receipt.committed) for receipt in receipts} == {
        ("StoreUnavailable", False)
    }
    monkeypatch.undo()
    assert (bench.position("acme"), kept(bench)) == (0, {})
    run(bench, sink)
    assert kept(bench) == oracle(range(LOG_END))


def test_a_store_that_does_not_answer_a_load_blames_no_record(bench, monkeypatch):
    def swallows(table, context):
        try:
            return counting(table, context)
        except StoreUnavailable:
            return with_tenant(table, context)

    def down(*_):
        raise StoreUnavailable("away")

    monkeypatch.setattr(SqlPositions, "load_state", down)
    sink = ListSink()
    receipts = run(bench, sink, handler=swallows, bad_record="dead-letter")
    for receipt in receipts:
        assert (receipt.error.code, receipt.error.temporary) == ("StoreUnavailable", True)
    assert (sink.written, bench.dead_letters.letters) == ([], [])


@pytest.mark.parametrize("records", [1, LOG_END])
def test_a_store_that_hangs_in_a_load_blames_no_record(bench, monkeypatch, records):
    monkeypatch.setattr(SqlPositions, "load_state", lambda *_: time.sleep(60.0))
    bench.limits = {"timeout_s": 0.3}
    alone = bench.slices(until=records)[:1]
    (receipt,) = run(bench, ListSink(), slices=alone, bad_record="dead-letter")
    error = receipt.error
    assert (error.code, error.temporary, error.offset) == ("StoreUnavailable", True, None)
    assert bench.dead_letters.letters == []


def test_a_bad_record_stops_state_where_it_stops_the_position(bench):
    def fails(table, context):
        answer = counting(table, context)
        if b"7" in table["value"].to_pylist():
            raise ValueError("seven")
        return answer

    receipt = by_tenant(run(bench, ListSink(), handler=fails))["acme"]
    assert (receipt.reached, receipt.error.offset) == (7, 7)
    assert (bench.position("acme"), kept(bench)) == (7, oracle(range(7)))


def test_a_record_that_is_set_aside_leaves_no_trace_in_state(bench):
    def refuses(table, context):
        values = table["value"].to_pylist()
        answer = counting(table, context)
        if b"4" in values:
            raise context.bad_record(values.index(b"4"), "four")
        return answer

    run(bench, ListSink(), handler=refuses, bad_record="dead-letter")
    assert [letter.error.offset for letter in bench.dead_letters.letters] == [4, 4]
    assert kept(bench) == oracle([0, 1, 2, 3, 5, 6, 7, 8, 9])
    assert bench.position("acme") == LOG_END


@pytest.mark.parametrize(("policy", "upto"), [("suspend", 5), ("dead-letter", LOG_END)])
def test_a_record_that_the_sink_refuses_does_as_well(bench, policy, upto):
    sink = ListSink(refuses=b"5")
    run(bench, sink, bad_record=policy)
    done = [number for number in range(upto) if number != 5]
    assert sorted(of_acme(sink)) == [b"%d" % number for number in done]
    assert (bench.position("acme"), kept(bench)) == (upto, oracle(done))


class TakesSome(ListSink):
    """Takes all rows of an effect but one."""

    def _write(self, effect):
        told = super()._write(replace(effect, output=effect.output))
        values = effect.output["value"].to_pylist() if effect.output.num_columns else []
        if b"5" in values:
            error = error_of(SinkRefused("not this one"))
            return Written(refused=(RefusedRow(values.index(b"5"), error),))
        return told


def test_a_sink_that_takes_some_rows_leaves_no_state_of_the_others(bench):
    run(bench, TakesSome(), bad_record="dead-letter")
    assert bench.position("acme") == LOG_END
    assert kept(bench) == oracle(number for number in range(LOG_END) if number != 5)


def test_exactly_once_has_rows_positions_and_state_in_one_transaction(bench):
    VISITS.prepare(Site(Connections({}, bench.url), bench.store.positions))
    for again in (False, True):
        receipts = run(bench, VISITS, guarantee="exactly-once")
        assert all(receipt.superseded is again for receipt in receipts)
        assert kept(bench) == oracle(range(LOG_END))
        assert rows_of(bench) == LOG_END
    assert bench.position("acme") == LOG_END


def test_exactly_once_keeps_no_state_of_rows_that_the_database_refuses(bench):
    VISITS.prepare(Site(Connections({}, bench.url), bench.store.positions))
    with bench.store.positions.begin() as connection:
        connection.exec_driver_sql(
            "CREATE TRIGGER no BEFORE INSERT ON visits WHEN NEW.value = x'37' "
            "BEGIN SELECT RAISE(ABORT, 'no seven'); END"
        )
    receipts = by_tenant(run(bench, VISITS, guarantee="exactly-once"))
    assert receipts["acme"].error.code == "SinkRefused"
    at = bench.position("acme")
    assert (at, rows_of(bench), kept(bench)) == (7, 7, oracle(range(7)))


def test_exactly_once_of_a_zombie_changes_nothing(bench):
    VISITS.prepare(Site(Connections({}, bench.url), bench.store.positions))

    def sleeps(table, context):
        answer = counting(table, context)
        if context.tenant == "acme":
            bench.store.membership.hold([context.slices[0].lane.stream])
        return answer

    receipts = by_tenant(run(bench, VISITS, guarantee="exactly-once", handler=sleeps))
    assert (receipts["acme"].superseded, receipts["bolt"].committed) == (True, True)
    assert (kept(bench), kept(bench, "bolt")) == ({}, oracle(range(LOG_END)))
    assert rows_of(bench) == 0


def rows_of(bench, tenant="acme"):
    asked = "SELECT count(*) FROM visits WHERE tenant = ?"
    with bench.store.positions.begin() as connection:
        return connection.exec_driver_sql(asked, (tenant,)).scalar()


def test_a_key_that_cannot_be_is_its_records_trouble(bench):
    def null_key(table, context):
        keys = [None if value == b"4" else "k" for value in table["value"].to_pylist()]
        context.state["seen"].delete(keys)
        return with_tenant(table, context)

    run(bench, ListSink(), handler=null_key, bad_record="dead-letter")
    (letter, _) = bench.dead_letters.letters
    assert (letter.error.code, letter.error.offset) == ("StateRefused", 4)
    assert bench.position("acme") == LOG_END


def test_lanes_of_one_tenant_have_a_state_each(bench):
    run(bench, ListSink(), slices=bench.slices(partitions=(0, 1), until=4))
    run(bench, ListSink(), slices=moved(bench, 9))
    assert kept(bench) == oracle(range(9))
    assert kept(bench, partition=1) == oracle(range(4))


def test_a_rerun_has_no_state_of_where_it_begins(bench):
    again = replace(bench.slices()[0], lane=LaneId("keep~1", "acme", "acme.visits[0]"))
    (receipt,) = run(bench, ListSink(), slices=(again,))
    assert receipt.error.code == "ConfigError"
    assert "a rerun is for use cases without state" in receipt.error.message


def test_nobody_asks_the_store_for_a_use_case_without_state(bench, monkeypatch):
    def never(*_):
        raise AssertionError("asked for state")

    monkeypatch.setattr(SqlPositions, "load_state", never)
    monkeypatch.setattr(SqlPositions, "advance_groups", never)
    receipts = bench.run(ListSink())
    assert all(receipt.error is None and not receipt.committed for receipt in receipts)


def test_a_key_is_a_portions_if_a_record_of_it_has_it():
    lane = LaneId("keep", "acme", "acme.visits[0]#0/4")
    given = records([b"1", b"2", b"3"], keys=[b"a", None, b""])
    portion = SimpleNamespace(slices=[Slice(lane, "acme.visits", 0, 3, 1)], records=given)
    keyed = use_case(
        topic="{tenant}.visits",
        sink=ListSink(),
        order="key",
        state=[replace(SEEN, scope="key")],
        max_state_rows=7,
        max_state_bytes=70,
    )(counting)
    of = state_of(keyed, MemoryStore().positions, portion, lambda: None, StateCopies())
    in_the_same_bucket = next(
        key for number in range(99) if bucket_of_key(key := b"%d" % number, 4) == 0
    )
    assert [of.owns(key) for key in (b"a", b"", b"b", in_the_same_bucket)] == [1, 1, 0, 0]
    assert of.most == StateSize(7, 70)


def changes(*rows):
    kept = {StateKey("seen", b"%d" % number): row for number, row in enumerate(rows)}
    return StateChanges(LaneId("keep", "acme", "acme.visits[0]"), kept)


def test_a_change_of_much_state_is_in_a_transaction_of_its_own_behind_the_others():
    many = changes(*[None] * (MUCH_BYTES // 100))
    large = changes(b"x" * MUCH_BYTES)
    assert transactions([large, None, changes(b"1"), many, changes()]) == [[1, 2, 4], [0], [3]]
    assert transactions([large]) == [[0]]
    assert transactions([]) == []


@pytest.mark.parametrize("guarantee", ["at-least-once", "at-most-once", "exactly-once"])
def test_nobody_waits_for_the_much_state_of_a_neighbour(bench, monkeypatch, guarantee):
    VISITS.prepare(Site(Connections({}, bench.url), bench.store.positions))
    saved, save = [], SqlPositions.save_state_in

    def saves(self, connection, states):
        saved.append([state.lane.tenant for state in states])
        save(self, connection, states)

    def keeps(table, context):
        large = "x" * (MUCH_BYTES if context.tenant == "acme" else 1)
        context.state["large"].save(pa.table({"key": ["k"], "text": [large]}))
        return with_tenant(table, context)

    monkeypatch.setattr(SqlPositions, "save_state_in", saves)
    columns = pa.schema([("key", pa.string()), ("text", pa.string())])
    large = StateTable("large", columns, key="key", scope="lane", max_row_bytes=2 * MUCH_BYTES)
    sink = VISITS if guarantee == "exactly-once" else ListSink()
    receipts = run(bench, sink, guarantee=guarantee, handler=keeps, state=[large])
    assert all(receipt.committed and receipt.reached == LOG_END for receipt in receipts)
    assert saved == [["bolt"], ["acme"]]


def test_at_most_once_keeps_a_dead_letter_only_of_what_it_claimed(bench):
    def refuses(table, context):
        values = table["value"].to_pylist()
        if b"4" in values:
            raise context.bad_record(values.index(b"4"), "four")
        answer = counting(table, context)
        if context.tenant == "acme" and b"9" in values:
            bench.store.membership.hold([context.slices[0].lane.stream])
        return answer

    options = {"handler": refuses, "guarantee": "at-most-once", "bad_record": "dead-letter"}
    receipts = by_tenant(run(bench, ListSink(), **options))
    assert (receipts["acme"].superseded, receipts["bolt"].committed) == (True, True)
    assert [letter.slice.lane.tenant for letter in bench.dead_letters.letters] == ["bolt"]
    assert (receipts["bolt"].dead_letters, receipts["bolt"].lost) == (1, 0)


def test_at_most_once_loses_what_it_claimed_and_cannot_set_aside(bench, monkeypatch):
    def refuses(table, context):
        values = table["value"].to_pylist()
        if b"4" in values:
            raise context.bad_record(values.index(b"4"), "four")
        return counting(table, context)

    def down(*_):
        raise BrokerUnavailable

    monkeypatch.setattr(MemoryDeadLetters, "keep", down)
    sink = ListSink()
    options = {"handler": refuses, "guarantee": "at-most-once", "bad_record": "dead-letter"}
    receipt = by_tenant(run(bench, sink, **options))["acme"]
    assert (receipt.error.code, receipt.lost) == ("BrokerUnavailable", LOG_END)
    assert (sink.written, bench.position("acme")) == ([], LOG_END)


def test_at_most_once_moves_state_and_position_behind_the_handler_and_before_the_effect(bench):
    class Looks(ListSink):
        def _write(self, effect):
            seen.append((bench.position("acme"), kept(bench)))
            return super()._write(effect)

    sink, seen = Looks(), []
    for again in (False, True):
        receipts = run(bench, sink, guarantee="at-most-once")
        assert all(receipt.superseded is again for receipt in receipts)
    assert seen == [(LOG_END, oracle(range(LOG_END)))] * 2
    assert of_acme(sink) == [b"%d" % number for number in range(LOG_END)]


def test_at_most_once_loses_an_effect_and_no_state(bench):
    receipt = by_tenant(run(bench, ListSink(down=True), guarantee="at-most-once"))["acme"]
    assert (receipt.committed, receipt.lost_from, receipt.lost) == (True, 0, LOG_END)
    assert kept(bench) == oracle(range(LOG_END))


def test_at_most_once_claims_no_record_that_its_handler_cannot_take(bench):
    def fails(table, context):
        answer = counting(table, context)
        if b"7" in table["value"].to_pylist():
            raise ValueError("seven")
        return answer

    sink = ListSink()
    receipt = by_tenant(run(bench, sink, handler=fails, guarantee="at-most-once"))["acme"]
    assert (receipt.reached, receipt.error.offset, receipt.lost) == (7, 7, 0)
    assert (bench.position("acme"), kept(bench)) == (7, oracle(range(7)))
    assert of_acme(sink) == [b"%d" % number for number in range(7)]


def test_at_most_once_of_one_that_slept_before_its_claim_makes_no_effect(bench):
    def sleeps(table, context):
        answer = counting(table, context)
        bench.store.membership.hold([context.slices[0].lane.stream])
        return answer

    sink = ListSink()
    receipts = run(bench, sink, handler=sleeps, guarantee="at-most-once")
    assert all(receipt.superseded for receipt in receipts)
    assert (sink.written, kept(bench)) == ([], {})


@pytest.mark.parametrize("guarantee", ["at-least-once", "at-most-once", "exactly-once"])
def test_a_worker_asks_nothing_of_a_lane_that_stands_as_it_left_it(bench, monkeypatch, guarantee):
    VISITS.prepare(Site(Connections({}, bench.url), bench.store.positions))
    sink = VISITS if guarantee == "exactly-once" else ListSink()
    first = run(bench, sink, guarantee=guarantee, slices=bench.slices(until=4))
    assert [(told.state_hits, told.state_misses) for told in first] == [(0, 1)] * 2
    asked, load = [], SqlPositions.load_state

    def loads(self, at, table, keys):
        asked.append(at.lane.tenant)
        return load(self, at, table, keys)

    monkeypatch.setattr(SqlPositions, "load_state", loads)
    told = run(bench, sink, guarantee=guarantee, slices=moved(bench, 9))
    assert (asked, [receipt.state_hits for receipt in told]) == ([], [1, 1])
    lane = told[0].slice.lane
    epoch = bench.store.membership.hold([lane.stream])[lane.stream]
    later = [replace(piece, epoch=epoch) for piece in moved(bench, 12) if piece.lane == lane]
    (again,) = run(bench, sink, guarantee=guarantee, slices=tuple(later))
    assert (asked, again.state_misses) == ([lane.tenant], 1)
    assert (kept(bench), kept(bench, "bolt")) == (oracle(range(12)), oracle(range(9)))


def test_what_was_not_committed_is_not_known_to_its_worker(bench, monkeypatch):
    run(bench, ListSink(), slices=bench.slices(until=4))
    run(bench, ListSink(down=True), slices=moved(bench, 9))
    (first, _) = run(bench, ListSink(), slices=moved(bench, 9))
    assert (first.state_hits, first.state_misses) == (0, 1)
    assert kept(bench) == oracle(range(9))
