"""What a task does, on a real SQLite store and with a reader from memory."""

import time
from dataclasses import dataclass, field

import cloudpickle
import pyarrow as pa
import pytest

from headrace.errors import BrokerUnavailable, SinkRefused, SinkUnavailable, StoreUnavailable
from headrace.model.records import Deployment, LaneStart, Move
from headrace.model.streams import LaneId, Slice, StreamId, Tenant
from headrace.model.waves import Bin
from headrace.ports import Connections, Site, Written
from headrace.sinks import SqlTable
from headrace.spark.crumbs import Crumbs
from headrace.spark.handling import error_of
from headrace.spark.task import Work, kept, run_bin
from headrace.store import SqlPositions, SqlPositionsFactory, open_store
from headrace.testing.dead_letters_twin import DeadLettersTwin
from headrace.testing.numbers_reader import NumbersReader
from headrace.use_cases import use_case

TENANTS = ("acme", "bolt")
LOG_END = 10
VISITS = SqlTable("visits", columns={"tenant": "text", "value": "bytes"})


@dataclass
class ListSink:
    """Keeps what it is given in this process; refuses or fails as told."""

    written: list[tuple[str, int, int, list[bytes]]] = field(default_factory=list)
    refuses: bytes | None = None
    down: bool = False
    exactly_once = None

    def prepare(self, _site: object) -> None:
        pass

    def open(self, _site: object) -> "ListSink":
        return self

    def write(self, effects):
        return [self._write(each) for each in effects]

    def _write(self, effect):
        values = effect.output["value"].to_pylist() if effect.output.num_columns else []
        if self.down:
            return Written(error=error_of(SinkUnavailable("down")))
        if self.refuses in values:
            return Written(error=error_of(SinkRefused("value not allowed")))
        first = effect.slices[0]
        self.written.append((first.lane.tenant, first.from_offset, effect.reached[0], values))
        return Written()

    def close(self) -> None:
        pass


class DeadCrumbs(Crumbs):
    """Nobody is there any more to clear them up."""

    def during(self, planned, call):
        kept = bytes(self._map)
        try:
            return super().during(planned, call)
        except KeyboardInterrupt:
            kept = bytes(kept[: self._at]) + (self._number[planned]).to_bytes(4, "little")
            raise
        finally:
            self._map[:] = kept


class Bench:
    """A store with two tenants at position 0, and a way to run a bin."""

    def __init__(self, folder) -> None:
        self.url = f"sqlite:///{folder / 'store.db'}"
        self.dead_letters = DeadLettersTwin()
        self.limits = {}
        self.store = open_store(self.url)
        self.store.deploy(Deployment("keep", "m.py", "0" * 64, "{tenant}.visits"))
        for name in TENANTS:
            self.store.add_tenant(Tenant(name))
        streams = [StreamId("keep", name) for name in TENANTS]
        self.epochs = self.store.hold(streams)
        for each in streams:
            self.store.start_lanes([LaneStart(each, "id", {0: 0, 1: 0})])

    def slices(self, *, partitions=(0,), until=LOG_END):
        return tuple(
            Slice(
                LaneId("keep", name, partition),
                f"{name}.visits",
                0,
                until,
                self.epochs[StreamId("keep", name)],
            )
            for name in TENANTS
            for partition in partitions
        )

    def run(
        self,
        sink,
        *,
        reader=None,
        budget_s=60.0,
        slices=None,
        handler=None,
        crumbs=None,
        **options,
    ):
        keep = use_case(topic="{tenant}.visits", sink=sink, name="keep", **options)(
            handler or with_tenant
        )
        connections = Connections(kafka={}, database_url=self.url)
        work = Work(
            b"",
            (),
            connections,
            reader or NumbersReader(),
            SqlPositionsFactory(),
            self.dead_letters,
            **self.limits,
        )
        # Same process: the sink must be the one the test looks at, so nothing is pickled.
        object.__setattr__(work, "load", lambda: keep)
        return run_bin(work, Bin(slices or self.slices(), 1.0), budget_s, crumbs=crumbs)

    def position(self, tenant, partition=0):
        positions = {each.lane: each.next_offset for each in self.store.load_positions()}
        return positions[LaneId("keep", tenant, partition)]


def with_tenant(table, context):
    tenants = pa.array([context.tenant] * table.num_rows, pa.string())
    return pa.table({"tenant": tenants, "value": table["value"]})


@pytest.fixture
def bench(tmp_path):
    made = Bench(tmp_path)
    yield made
    made.store.close()


def by_tenant(receipts):
    return {each.slice.lane.tenant: each for each in receipts}


def test_at_least_once_writes_and_leaves_the_position_to_the_driver(bench):
    sink = ListSink()
    receipts = bench.run(sink)
    assert [(each.reached, each.committed, each.records) for each in receipts] == [
        (10, False, 10)
    ] * 2
    assert sum(len(values) for *_, values in sink.written) == 20
    assert bench.position("acme") == 0


def test_receipts_tell_when_records_happened_if_the_use_case_knows(bench):
    def at_noon(table):
        return [1_700_049_600.0] * table.num_rows

    receipts = bench.run(ListSink(), event_time=at_noon)
    assert [set(each.timestamps_s) for each in receipts] == [{1_700_049_600.0}] * 2
    assert all(1_700_049_600.0 not in each.timestamps_s for each in bench.run(ListSink()))


def test_at_most_once_moves_the_position_before_the_handler_runs(bench):
    seen = []

    def looks(table, context):
        seen.append(bench.position(context.tenant))
        return with_tenant(table, context)

    receipts = bench.run(ListSink(), handler=looks, guarantee="at-most-once")
    assert seen == [10, 10]
    assert all(each.committed and each.reached == 10 for each in receipts)


def test_at_most_once_run_again_by_spark_finds_it_claimed_and_skips(bench):
    sink = ListSink()
    bench.run(sink, guarantee="at-most-once")
    first = list(sink.written)
    receipts = bench.run(sink, guarantee="at-most-once")
    assert sink.written == first
    assert all(each.superseded and each.error is None for each in receipts)


def test_a_store_that_does_not_answer_a_claim_stops_the_slices_and_not_the_task(bench, monkeypatch):
    def down(self):
        raise StoreUnavailable("locked")

    monkeypatch.setattr(SqlPositions, "begin", down)
    sink = ListSink()
    receipts = bench.run(sink, guarantee="at-most-once")
    assert sink.written == []
    for each in receipts:
        assert (each.error.code, each.error.temporary) == ("StoreUnavailable", True)
        assert (each.reached, each.committed) == (0, False)


def test_exactly_once_moves_positions_with_the_rows_and_a_rerun_writes_nothing(bench):
    connections = Connections(kafka={}, database_url=bench.url)
    VISITS.prepare(Site(connections, bench.store.positions))
    for expected in (False, True):
        receipts = bench.run(VISITS, guarantee="exactly-once")
        assert all(each.superseded is expected for each in receipts)
        with bench.store.positions.begin() as connection:
            rows = connection.exec_driver_sql("SELECT count(*) FROM visits").scalar()
        assert rows == 20
    assert bench.position("acme") == 10


def test_a_zombies_exactly_once_write_is_refused(bench):
    connections = Connections(kafka={}, database_url=bench.url)
    VISITS.prepare(Site(connections, bench.store.positions))
    stale = bench.slices()
    bench.store.hold([StreamId("keep", name) for name in TENANTS])
    receipts = bench.run(VISITS, slices=stale, guarantee="exactly-once")
    assert all(each.superseded for each in receipts)
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
    assert all(each.reached == 3 for each in receipts)
    assert sorted(value for *_, values in sink.written for value in values) == sorted(
        [b"0", b"1", b"2"] * 2
    )


def test_a_sink_that_refuses_one_record_stops_exactly_at_it(bench):
    sink = ListSink(refuses=b"7")
    receipts = bench.run(sink)
    assert all(each.reached == 7 for each in receipts)
    assert all(each.error.offset == 7 and each.error.raw_value == b"7" for each in receipts)
    written = [value for tenant, *_, values in sink.written if tenant == "acme" for value in values]
    assert written == [b"%d" % number for number in range(7)]


def test_a_sink_that_is_down_is_temporary_and_moves_nothing(bench):
    receipts = bench.run(ListSink(down=True))
    assert all(each.error.temporary and each.reached == 0 for each in receipts)


def test_a_lane_that_cannot_be_read_leaves_the_others(bench):
    broken = LaneId("keep", "acme", 0)
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
        for each in super().read(slices, batch_records):
            self._hands.now_s += 5.0
            yield each


def test_what_took_long_to_read_is_handled_and_not_thrown_away(bench, monkeypatch):
    hands = Hands()
    monkeypatch.setattr("headrace.spark.task.time", hands)
    monkeypatch.setattr("headrace.spark.bin_run.time", hands)
    receipts = bench.run(ListSink(), reader=SlowReader(hands), budget_s=1.0)
    assert [each.reached for each in receipts] == [LOG_END] * 2


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
    assert all(each.reached == 10 for each in receipts)


def test_by_intent_a_slice_is_one_effect_however_it_was_read(bench):
    sink = ListSink()
    sink.exactly_once = "intent"
    bench.run(sink, reader=NumbersReader(parts=5), guarantee="exactly-once")
    assert sorted((tenant, first, reached) for tenant, first, reached, _ in sink.written) == [
        ("acme", 0, 10),
        ("bolt", 0, 10),
    ]


def test_receipts_carry_cost_and_timestamps(bench):
    receipt = bench.run(ListSink())[0]
    assert receipt.seconds > 0
    assert receipt.bytes > 0
    assert receipt.output_bytes is not None
    assert receipt.output_bytes > 0
    assert receipt.timestamps_s == tuple(offset / 1000 for offset in range(10))


def test_a_worker_opens_its_clients_once(bench):
    factories = (NumbersReader(), SqlPositionsFactory(), DeadLettersTwin())
    work = Work(b"", (), Connections({}, bench.url), *factories)
    again = cloudpickle.loads(cloudpickle.dumps(work))
    assert kept(work) is kept(again)


def test_no_secret_shows_in_what_a_task_is_given():
    connections = Connections(
        {"sasl.password": "hunter2"}, "postgresql://u:hunter2@db/x", "smtp://u:hunter2@mail"
    )
    factories = (NumbersReader(), SqlPositionsFactory(), DeadLettersTwin())
    work = Work(b"hunter2", (), connections, *factories)
    assert "hunter2" not in repr(work)


# --- bad records set aside -------------------------------------------------------------------


def refuses(*values):
    def picky(table, context):
        for row, value in enumerate(table["value"].to_pylist()):
            if context.tenant == "acme" and value in values:
                raise context.bad_record(row, "no")
        return with_tenant(table, context)

    return picky


def of_acme(sink):
    return [value for tenant, *_, values in sink.written if tenant == "acme" for value in values]


def test_bad_records_are_set_aside_and_the_rest_is_one_effect(bench):
    sink = ListSink()
    receipts = by_tenant(
        bench.run(sink, handler=refuses(b"0", b"4", b"5", b"9"), bad_record="dead-letter")
    )
    assert receipts["acme"].reached == 10
    assert receipts["acme"].error is None
    assert (receipts["acme"].dead_letters, receipts["acme"].records) == (4, 10)
    assert of_acme(sink) == [b"1", b"2", b"3", b"6", b"7", b"8"]
    letters = bench.dead_letters.letters
    assert [(each.error.offset, each.error.raw_value) for each in letters] == [
        (0, b"0"),
        (4, b"4"),
        (5, b"5"),
        (9, b"9"),
    ]


def test_a_slice_of_bad_records_only_is_passed(bench):
    sink = ListSink()
    values = [b"%d" % number for number in range(10)]
    receipts = by_tenant(bench.run(sink, handler=refuses(*values), bad_record="dead-letter"))
    assert receipts["acme"].reached == 10
    assert len(bench.dead_letters.letters) == 10
    assert of_acme(sink) == []


def test_nobody_waits_until_a_neighbours_dead_letters_are_ready(bench):
    sink, handler = ListSink(), refuses(b"4")
    bench.dead_letters.at_once = False
    receipts = by_tenant(bench.run(sink, handler=handler, bad_record="dead-letter"))
    assert (receipts["bolt"].error, receipts["bolt"].reached) == (None, 10)
    assert (receipts["acme"].error.code, receipts["acme"].reached) == ("HandlerSlow", 0)
    assert bench.dead_letters.letters == []
    alone = tuple(each for each in bench.slices() if each.lane.tenant == "acme")
    (receipt,) = bench.run(sink, handler=handler, bad_record="dead-letter", slices=alone)
    assert (receipt.error, receipt.reached, receipt.dead_letters) == (None, 10, 1)


def test_a_record_that_the_sink_refuses_is_set_aside(bench):
    sink = ListSink(refuses=b"7")
    receipts = bench.run(sink, bad_record="dead-letter")
    assert all(each.reached == 10 and each.dead_letters == 1 for each in receipts)
    assert [each.error.code for each in bench.dead_letters.letters] == ["SinkRefused"] * 2
    assert of_acme(sink) == [b"%d" % number for number in range(10) if number != 7]


@pytest.mark.parametrize("sink", [ListSink(), ListSink(refuses=b"4")])
def test_without_its_dead_letter_no_lane_passes_the_record(bench, sink):
    handler = refuses(b"4") if sink.refuses is None else None
    for _ in range(2):
        bench.dead_letters.fail_next(BrokerUnavailable("no broker"))
    receipts = by_tenant(bench.run(sink, handler=handler, bad_record="dead-letter"))
    assert receipts["acme"].reached <= 4
    assert receipts["acme"].error.code == "BrokerUnavailable"
    assert b"5" not in of_acme(sink)


def test_with_order_stream_a_letter_names_the_lane_of_its_record(bench):
    def picky(table, context):
        if context.tenant == "acme":
            offsets, lanes = table["offset"].to_pylist(), table["partition"].to_pylist()
            if (1, 6) in zip(lanes, offsets, strict=True):
                raise context.bad_record([*zip(lanes, offsets, strict=True)].index((1, 6)), "no")
        return with_tenant(table, context)

    pieces = bench.slices(partitions=(0, 1))
    receipts = bench.run(
        ListSink(), handler=picky, slices=pieces, order="stream", bad_record="dead-letter"
    )
    assert all(each.reached == 10 for each in receipts)
    (letter,) = bench.dead_letters.letters
    assert (letter.slice.lane.partition, letter.error.offset) == (1, 6)


def test_with_order_stream_an_error_is_on_the_lane_of_its_record_alone(bench):
    def picky(table, context):
        rows = [*zip(table["partition"].to_pylist(), table["offset"].to_pylist(), strict=True)]
        if context.tenant == "acme" and (1, 6) in rows:
            raise context.bad_record(rows.index((1, 6)), "no")
        return with_tenant(table, context)

    receipts = bench.run(
        ListSink(), handler=picky, slices=bench.slices(partitions=(0, 1)), order="stream"
    )
    of_acme = {
        each.slice.lane.partition: each for each in receipts if each.slice.lane.tenant == "acme"
    }
    assert of_acme[0].error is None
    assert (of_acme[1].error.offset, of_acme[1].reached) == (6, 6)


def test_with_order_stream_at_most_once_claims_all_lanes_of_a_call_or_none(bench):
    sink, slices = ListSink(), bench.slices(partitions=(0, 1))
    moved = Move(LaneId("keep", "acme", 1), 0, 3, bench.epochs[StreamId("keep", "acme")])
    assert bench.store.positions.advance([moved]) == [True]
    receipts = bench.run(sink, slices=slices, order="stream", guarantee="at-most-once")
    assert {each[0] for each in sink.written} == {"bolt"}
    assert (bench.position("acme", 0), bench.position("acme", 1)) == (0, 3)
    assert all(each.superseded for each in receipts if each.slice.lane.tenant == "acme")


class HastySink(ListSink):
    """Does not catch what a database says of one tenant's rows."""

    def write(self, effects):
        if any(each.slices[0].lane.tenant == "acme" for each in effects):
            raise OverflowError("too large for a column")
        return super().write(effects)


@pytest.mark.parametrize("guarantee", ["at-least-once", "exactly-once"])
def test_a_sink_that_raises_for_one_tenants_rows_fails_nobody_else(bench, guarantee):
    sink = HastySink()
    sink.exactly_once = "intent"
    receipts = by_tenant(bench.run(sink, guarantee=guarantee))
    assert receipts["bolt"].error is None
    assert receipts["bolt"].reached == 10
    assert receipts["acme"].error.code == "HandlerError"
    assert receipts["acme"].reached == 0


# --- calls that take too long ----------------------------------------------------------------


def hangs_at(value):
    def hangs(table, context):
        if context.tenant == "acme" and value in table["value"].to_pylist():
            time.sleep(60)
        return with_tenant(table, context)

    return hangs


def test_in_company_a_call_that_takes_too_long_is_ended_and_the_neighbours_go_on(bench):
    bench.limits = {"timeout_s": 0.1}
    receipts = by_tenant(bench.run(ListSink(), handler=hangs_at(b"3")))
    assert receipts["acme"].error.code == "HandlerSlow"
    assert receipts["acme"].error.temporary
    assert receipts["bolt"].reached == 10


def test_alone_a_call_that_hangs_is_ended_and_its_record_found(bench):
    bench.limits = {"timeout_s": 0.4}
    alone = tuple(each for each in bench.slices() if each.lane.tenant == "acme")
    sink = ListSink()
    (receipt,) = bench.run(sink, handler=hangs_at(b"3"), slices=alone)
    assert (receipt.error.code, receipt.error.offset) == ("HandlerHung", 3)
    assert receipt.reached == 3
    assert of_acme(sink) == [b"0", b"1", b"2"]


def test_a_hang_that_is_of_no_single_record_blames_none(bench):
    bench.limits = {"timeout_s": 0.2}
    alone = tuple(each for each in bench.slices() if each.lane.tenant == "acme")

    def hangs(table, context):
        if table.num_rows > 4:
            time.sleep(60)
        return with_tenant(table, context)

    (receipt,) = bench.run(ListSink(), handler=hangs, slices=alone)
    assert (receipt.error.code, receipt.error.offset) == ("HandlerHung", None)
    assert receipt.reached == 0


def test_a_spent_budget_ends_a_group_between_two_portions(bench):
    def slow(table, context):
        time.sleep(0.06)
        return with_tenant(table, context)

    receipts = by_tenant(bench.run(ListSink(), handler=slow, budget_s=0.05))
    assert sorted(each.reached for each in receipts.values()) == [0, 10]


# --- where a worker died ---------------------------------------------------------------------


def test_the_next_attempt_passes_over_the_slice_that_killed_the_worker(bench, tmp_path):
    def kills(table, context):
        if context.tenant == "acme":
            raise KeyboardInterrupt  # the only thing that leaves a task as a kill would
        return with_tenant(table, context)

    slices = bench.slices()
    with pytest.raises(KeyboardInterrupt):
        bench.run(ListSink(), handler=kills, crumbs=DeadCrumbs(tmp_path / "crumb", slices))
    receipts = by_tenant(
        bench.run(ListSink(), handler=kills, crumbs=Crumbs(tmp_path / "crumb", slices))
    )
    assert receipts["acme"].error.code == "WorkerKilled"
    assert receipts["acme"].reached == 0
    assert receipts["bolt"].reached == 10


def test_with_order_stream_a_killer_is_named_on_its_own_lane(bench, tmp_path):
    def kills(_table, _context):
        raise KeyboardInterrupt

    epoch = bench.epochs[StreamId("keep", "acme")]
    # Both go on, so nothing younger than the last record of either is taken: that of lane 1.
    slices = tuple(
        Slice(LaneId("keep", "acme", lane), "acme.visits", start, start + 1, epoch, more=True)
        for lane, start in ((0, 5), (1, 0))
    )
    path = tmp_path / "crumb"
    crumbs = DeadCrumbs(path, slices)
    with pytest.raises(KeyboardInterrupt):
        bench.run(ListSink(), handler=kills, slices=slices, order="stream", crumbs=crumbs)
    receipts = bench.run(
        ListSink(), handler=kills, slices=slices, order="stream", crumbs=Crumbs(path, slices)
    )
    errors = {each.slice.lane.partition: each.error for each in receipts}
    assert errors[0] is None
    assert (errors[1].code, errors[1].offset) == ("WorkerKilled", 0)
