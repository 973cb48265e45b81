"""What a task does, on a real SQLite store and with a reader from memory."""

from dataclasses import replace

import cloudpickle
import pyarrow as pa
import pytest
from task_bench import LOG_END, TENANTS, VISITS, ListSink, by_tenant, with_tenant

from headrace.errors import BrokerUnavailable, SinkUnavailable, StoreUnavailable, TargetMissing
from headrace.model.record_versions import version_of
from headrace.model.streams import LaneId, StreamId
from headrace.model.waves import Bin
from headrace.ports import Connections, Site, Written
from headrace.sinks import SqlTable
from headrace.spark.slice_errors import error_of
from headrace.spark.task import Work, kept, run_bin
from headrace.store import SqlPositions, SqlPositionsFactory
from headrace.testing.dead_letters_fake import MemoryDeadLetters
from headrace.testing.numbers_reader import NumbersReader


def test_at_least_once_writes_and_leaves_the_position_to_the_driver(bench):
    sink = ListSink()
    receipts = bench.run(sink)
    assert [(receipt.reached, receipt.committed, receipt.records) for receipt in receipts] == [
        (10, False, 10)
    ] * 2
    assert sum(len(values) for *_, values in sink.written) == 20
    assert bench.position("acme") == 0


def test_receipts_tell_when_records_happened_if_the_use_case_knows(bench):
    def at_noon(table):
        return [1_700_049_600.0] * table.num_rows

    receipts = bench.run(ListSink(), event_time=at_noon)
    assert [set(receipt.timestamps_s) for receipt in receipts] == [{1_700_049_600.0}] * 2
    assert all(1_700_049_600.0 not in receipt.timestamps_s for receipt in bench.run(ListSink()))


def test_at_most_once_moves_the_position_before_the_handler_runs(bench):
    seen = []

    def looks(table, context):
        seen.append(bench.position(context.tenant))
        return with_tenant(table, context)

    receipts = bench.run(ListSink(), handler=looks, guarantee="at-most-once")
    assert seen == [10, 10]
    assert all(receipt.committed and receipt.reached == 10 for receipt in receipts)


def test_at_most_once_run_again_by_spark_finds_it_claimed_and_skips(bench):
    sink = ListSink()
    bench.run(sink, guarantee="at-most-once")
    first = list(sink.written)
    receipts = bench.run(sink, guarantee="at-most-once")
    assert sink.written == first
    assert all(receipt.superseded and receipt.error is None for receipt in receipts)


def test_a_store_that_does_not_answer_a_claim_stops_the_slices_and_not_the_task(bench, monkeypatch):
    def down(self):
        raise StoreUnavailable("locked")

    monkeypatch.setattr(SqlPositions, "begin", down)
    sink = ListSink()
    receipts = bench.run(sink, guarantee="at-most-once")
    assert sink.written == []
    for receipt in receipts:
        assert (receipt.error.code, receipt.error.temporary) == ("StoreUnavailable", True)
        assert (receipt.reached, receipt.committed) == (0, False)


def test_exactly_once_moves_positions_with_the_rows_and_a_rerun_writes_nothing(bench):
    connections = Connections(kafka={}, database_url=bench.url)
    VISITS.prepare(Site(connections, bench.store.positions))
    for expected in (False, True):
        receipts = bench.run(VISITS, guarantee="exactly-once")
        assert all(receipt.superseded is expected for receipt in receipts)
        with bench.store.positions.begin() as connection:
            rows = connection.exec_driver_sql("SELECT count(*) FROM visits").scalar()
        assert rows == 20
    assert bench.position("acme") == 10


def test_a_zombies_exactly_once_write_is_refused(bench):
    connections = Connections(kafka={}, database_url=bench.url)
    VISITS.prepare(Site(connections, bench.store.positions))
    stale = bench.slices()
    bench.store.membership.hold([StreamId("keep", name) for name in TENANTS])
    receipts = bench.run(VISITS, slices=stale, guarantee="exactly-once")
    assert all(receipt.superseded for receipt in receipts)
    with bench.store.positions.begin() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM visits").scalar() == 0


def test_one_tenants_bad_record_stops_it_there_and_nobody_else(bench):
    def picky(table, context):
        if context.tenant == "acme" and b"4" in table["value"].to_pylist():
            raise ValueError("no")
        return with_tenant(table, context)

    receipts = by_tenant(bench.run(ListSink(), handler=picky))
    assert receipts["acme"].reached == 4
    assert receipts["acme"].error.offset == 4
    assert receipts["acme"].records == 4
    assert receipts["bolt"].reached == 10
    assert receipts["bolt"].error is None


def test_after_a_failed_part_no_later_part_of_the_slice_is_written(bench):
    sink = ListSink()

    def picky(table, context):
        if b"3" in table["value"].to_pylist():
            raise ValueError("no")
        return with_tenant(table, context)

    receipts = bench.run(sink, reader=NumbersReader(parts=5), handler=picky)
    assert all(receipt.reached == 3 for receipt in receipts)
    assert sorted(value for *_, values in sink.written for value in values) == sorted(
        [b"0", b"1", b"2"] * 2
    )


def test_a_sink_that_refuses_one_record_stops_exactly_at_it(bench):
    sink = ListSink(refuses=b"7")
    receipts = bench.run(sink)
    assert all(receipt.reached == 7 for receipt in receipts)
    assert all(
        receipt.error.offset == 7 and receipt.error.raw_value == b"7" for receipt in receipts
    )
    written = [value for tenant, *_, values in sink.written if tenant == "acme" for value in values]
    assert written == [b"%d" % number for number in range(7)]


class NoTopic(ListSink):
    """Nothing that it would write to is there; counts how often it was asked."""

    asked = 0

    def write(self, effects):
        self.asked += 1
        return [Written(error=error_of(TargetMissing("no topic"))) for _ in effects]


def test_where_the_target_is_missing_no_record_is_searched_for_or_blamed(bench):
    sink = NoTopic()
    receipts = bench.run(sink, bad_record="dead-letter")
    assert sink.asked == 1
    assert [(receipt.error.code, receipt.error.offset) for receipt in receipts] == [
        ("TargetMissing", None)
    ] * 2
    assert bench.dead_letters.letters == []


def test_a_sink_that_is_down_is_temporary_and_moves_nothing(bench):
    receipts = bench.run(ListSink(down=True))
    assert all(receipt.error.temporary and receipt.reached == 0 for receipt in receipts)


def test_a_lane_that_cannot_be_read_leaves_the_others(bench):
    broken = LaneId("keep", "acme", "acme.visits[0]")
    receipts = by_tenant(bench.run(ListSink(), reader=NumbersReader(broken=(broken,))))
    assert receipts["acme"].error.code == "LeaderUnknown"
    assert receipts["bolt"].reached == 10


class Hands:
    """A clock that stands still until somebody moves it."""

    now_s = 0.0

    def monotonic(self):
        return self.now_s


class SlowReader(NumbersReader):
    """Each lane takes five seconds to come."""

    def __init__(self, hands):
        super().__init__()
        self._hands = hands

    def read(self, slices, batch_records):
        for batch in super().read(slices, batch_records):
            self._hands.now_s += 5.0
            yield batch


def test_what_took_long_to_read_is_handled_and_not_thrown_away(bench, monkeypatch):
    hands = Hands()
    monkeypatch.setattr("headrace.spark.task.time", hands)
    monkeypatch.setattr("headrace.spark.bin_run.time", hands)
    receipts = bench.run(ListSink(), reader=SlowReader(hands), budget_s=1.0)
    assert [receipt.reached for receipt in receipts] == [LOG_END] * 2


def test_a_spent_budget_yields_at_the_next_batch_and_says_how_far_it_came(bench):
    sink = ListSink()
    receipts = by_tenant(bench.run(sink, reader=NumbersReader(parts=10), budget_s=0.0))
    assert receipts["acme"].reached == 1
    assert receipts["acme"].error is None
    assert receipts["bolt"].reached == 0


def test_order_stream_gives_one_call_with_all_lanes_of_a_tenant(bench):
    calls = []

    def looks(table, context):
        calls.append((context.tenant, len(context.slices), table.num_rows))
        return with_tenant(table, context)

    pieces = bench.slices(partitions=(0, 1))
    receipts = bench.run(ListSink(), handler=looks, slices=pieces, order="stream")
    assert sorted(calls) == [("acme", 2, 20), ("bolt", 2, 20)]
    assert all(receipt.reached == 10 for receipt in receipts)


def test_by_intent_a_slice_is_one_effect_however_it_was_read(bench):
    sink = ListSink()
    sink.exactly_once = "intent"
    bench.run(sink, reader=NumbersReader(parts=5), guarantee="exactly-once")
    assert sorted((tenant, first, reached) for tenant, first, reached, _ in sink.written) == [
        ("acme", 0, 10),
        ("bolt", 0, 10),
    ]


class Gap(NumbersReader):
    """Slices begin before their first records, as after a compaction and in a bucket."""

    def read(self, slices, batch_records):
        for batch in super().read(slices, batch_records):
            yield replace(batch, records=batch.records.slice(3))


@pytest.mark.parametrize("fails", ["handler", "letters"])
@pytest.mark.parametrize("order", ["lane", "stream"])
def test_by_intent_a_slice_that_is_to_run_again_passes_no_gap_before_its_first_record(
    bench, fails, order
):
    """What is left would be another wave, and an attempt that sleeps may write all of this one."""

    def handler(table, context):
        if fails == "handler":
            raise SinkUnavailable("away")
        raise context.bad_record(0, "bad")

    sink = ListSink()
    sink.exactly_once = "intent"
    if fails == "letters":
        bench.dead_letters.accidents = [BrokerUnavailable("down") for _ in TENANTS]
    options = {"guarantee": "exactly-once", "bad_record": "dead-letter", "order": order}
    for receipt in bench.run(sink, reader=Gap(), handler=handler, **options):
        assert (receipt.reached, receipt.error.temporary) == (0, True)
    assert sink.written == []


def test_receipts_carry_cost_and_timestamps(bench):
    receipt = bench.run(ListSink())[0]
    assert receipt.seconds > 0
    assert receipt.bytes > 0
    assert receipt.output_bytes is not None
    assert receipt.output_bytes > 0
    assert receipt.timestamps_s == tuple(offset / 1000 for offset in range(10))


def test_a_worker_opens_its_clients_once(bench):
    factories = (NumbersReader(), SqlPositionsFactory(), MemoryDeadLetters())
    work = Work(b"", (), Connections({}, bench.url), *factories)
    again = cloudpickle.loads(cloudpickle.dumps(work))
    assert kept(work) is kept(again)


def test_a_use_case_that_cannot_be_loaded_is_told_of_each_slice_and_nothing_is_done(bench):
    """As with a package that is not installed there: Spark need not run the task four times."""
    factories = (NumbersReader(), SqlPositionsFactory(), MemoryDeadLetters())
    work = Work(b"cnot_installed_here\nanswer\n.", (), Connections({}, bench.url), *factories)
    receipts = run_bin(work, Bin(bench.slices(), 1.0), 60.0)
    assert [receipt.slice for receipt in receipts] == list(bench.slices())
    for receipt in receipts:
        assert (receipt.error.code, receipt.error.temporary) == ("CodeNotLoaded", True)
        assert "package not_installed_here is not installed" in receipt.error.message
        assert (receipt.reached, receipt.committed, receipt.records) == (0, False, 0)


def test_no_secret_shows_in_what_a_task_is_given():
    connections = Connections(
        {"sasl.password": "hunter2"},
        "postgresql://u:hunter2@db/x",
        "smtp://u:hunter2@mail",
        seal_key=b"hunter2",
    )
    factories = (NumbersReader(), SqlPositionsFactory(), MemoryDeadLetters())
    work = Work(b"hunter2", (), connections, *factories)
    assert "hunter2" not in repr(work)


def test_what_is_computed_of_a_slice_is_as_new_as_its_last_record(bench):
    newest = SqlTable(
        "newest",
        {"tenant": "text", "seen": "bigint", "version": "version"},
        ("tenant",),
        newest_by="version",
        key_in_one_lane=True,
    )
    newest.prepare(Site(Connections(kafka={}, database_url=bench.url), bench.store.positions))

    def counted(table, context):
        return pa.table({"tenant": [context.tenant], "seen": [table.num_rows]})

    for until, depth in ((10, 0), (4, 0), (3, 1)):
        slices = [replace(piece, depth=depth) for piece in bench.slices(until=until)]
        receipts = bench.run(newest, handler=counted, slices=slices)
        assert [receipt.error for receipt in receipts] == [None, None]
        with bench.store.positions.begin() as connection:
            rows = connection.exec_driver_sql("SELECT seen, version FROM newest").all()
        # The rest of a slice that was done whole comes late; what was sought back does not.
        assert set(rows) == {(10, version_of(0, 9)) if depth == 0 else (3, version_of(1, 2))}
