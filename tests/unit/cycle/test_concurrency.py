"""Whatever happens while waves run: one slice of a lane at a time, in order, and nothing lost.

Hypothesis plays everything at once: several tenants, handlers and workers that fail, waves that are
lost, a store that does not answer, an operator, and drivers that are killed. After each play all
troubles end, the driver runs until it is idle, and the books must balance. For a long run::

    pytest tests/unit/cycle/test_concurrency.py --hypothesis-profile=long
"""

import math
import shutil
import sqlite3
import tempfile
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.cycle.driver import Driver, Parts
from headrace.errors import (
    BrokerUnavailable,
    ConfigError,
    HandlerHung,
    HandlerSlow,
    SinkUnavailable,
    StoreUnavailable,
    TaskLost,
    WorkerKilled,
)
from headrace.model.plans import Limits
from headrace.model.records import Deployment, Move
from headrace.model.streams import LaneId, Order, Slice, State, StreamId, Tenant, Throttle
from headrace.model.waves import Bin, Wave
from headrace.ports import Connections, TopicPartition, WaveResult, Written
from headrace.sinks import SqlTable
from headrace.spark import task
from headrace.spark.handling import error_of
from headrace.store import SqlPositionsFactory, open_store
from headrace.testing.clock import FakeClock
from headrace.testing.dead_letters_twin import DeadLettersTwin
from headrace.testing.engine_twin import InProcessEngine
from headrace.testing.flight_checker import FlightChecker, OrderChecker
from headrace.testing.log_twin import LogTwin, ReaderTwinFactory, Row
from headrace.use_cases import use_case

TOPIC = "{tenant}.visits"
TENANTS = ("acme", "bolt", "cove")
SEEN = SqlTable(
    "seen",
    columns={"tenant": "text", "lane": "bigint", "place": "bigint", "stamp": "bigint"},
)

# --- the checkers catch what they are for ----------------------------------------------------


def a_wave(name, *lanes, use_case_name="keep", bins=1):
    slices = [Slice(lane, "t", 0, 5, 1) for lane in lanes]
    parts = [Bin(tuple(slices[number::bins]), 1.0) for number in range(bins)]
    return Wave(name, use_case_name, tuple(parts), 1.0)


class Idle:
    """An engine that starts everything and gives back what it is told to."""

    slots = 2

    def __init__(self):
        self.back = []

    def take(self, _use_case, _deployment):
        pass

    def start(self, _wave):
        pass

    def finished(self, _timeout_s):
        back, self.back = self.back, []
        return [WaveResult(each, (), 0.0) for each in back]


def checked(order=Order.LANE):
    checker = FlightChecker(Idle())
    checker.take(None, Deployment("keep", "m.py", "0", TOPIC, order=order))
    return checker


A0, A1 = LaneId("keep", "acme", 0), LaneId("keep", "acme", 1)


def test_a_second_slice_of_a_lane_in_flight_is_caught():
    checker = checked()
    checker.start(a_wave("w1", A0))
    checker.start(a_wave("w2", A1))
    with pytest.raises(AssertionError, match=r"acme/keep/0 is in flight twice.*w1.*w3"):
        checker.start(a_wave("w3", A0))
    assert checker.most_waves == 2


def test_a_lane_twice_in_one_wave_is_caught():
    with pytest.raises(AssertionError, match="in flight twice"):
        checked().start(a_wave("w1", A0, A0))


def test_a_lane_may_run_again_once_its_wave_came_back():
    checker = checked()
    first = a_wave("w1", A0)
    checker.start(first)
    checker.engine.back = [first]
    checker.finished(0.0)
    checker.start(a_wave("w2", A0))


def test_another_lane_of_a_strict_stream_in_flight_is_caught():
    checker = checked(order=Order.STREAM)
    checker.start(a_wave("w1", A0))
    with pytest.raises(AssertionError, match="acme/keep is in flight twice"):
        checker.start(a_wave("w2", A1))


def test_a_strict_stream_in_two_bins_is_caught():
    checked(order=Order.STREAM).start(a_wave("w1", A0, A1))
    with pytest.raises(AssertionError, match="acme/keep is in flight twice"):
        checked(order=Order.STREAM).start(a_wave("w1", A0, A1, bins=2))


@pytest.mark.parametrize("times", [0, 2])
def test_a_wave_that_comes_back_twice_or_from_nowhere_is_caught(times):
    checker = checked()
    wave = a_wave("w1", A0)
    if times:
        checker.start(wave)
    checker.engine.back = [wave] * max(1, times)
    with pytest.raises(AssertionError, match="w1 came back and is not in flight"):
        checker.finished(0.0)


@pytest.mark.parametrize(
    "numbers",
    [
        [0, 2, 1],  # swapped
        [0, 1, 2, 3, 0, 1, 4],  # a late copy of an old slice
        [0, 1, 2, 3, 1, 3],  # stepped back, and left one out
        [5, 3],  # something older that never came before
    ],
)
def test_records_that_were_overtaken_are_caught(numbers):
    with pytest.raises(AssertionError, match="came"):
        OrderChecker().happened(A0, numbers)


@pytest.mark.parametrize(
    "numbers",
    [
        [0, 1, 2, 3],
        [0, 1, 5, 9],  # gaps
        [0, 1, 2, 0, 1, 2, 3],  # a slice again
        [0, 1, 2, 2, 2, 3],
        [0, 1, 3, 4, 1, 2, 3, 4],  # a record that was left out comes in its place
    ],
)
def test_records_done_again_in_order_are_no_fault(numbers):
    checker = OrderChecker()
    checker.happened(A0, numbers)
    checker.happened(A1, [0])
    assert checker.counts(A0) == len(set(numbers))


def test_a_lane_that_was_sent_elsewhere_begins_anew():
    checker = OrderChecker()
    checker.happened(A0, [5, 6])
    checker.sent_elsewhere(A0)
    checker.happened(A0, [2, 3])


# --- the play --------------------------------------------------------------------------------

GUARANTEES = (
    "at-most-once",
    "at-least-once",
    "exactly-once, by transaction",
    "exactly-once, by intent",
)
#: records that a handler or worker can never take, or not before some time has passed
TROUBLES = ("bad", "raises", "hangs", "kills", "slow", "down")
NEVER_PASSES = ("bad", "raises", "hangs", "kills")
FATES = ("now", "now", "now", "stays", "late", "lost before", "lost after", "killed")


def trouble_of(value, now_s):
    """What a record does now; None if it does no harm."""
    kind, _, until = value.decode().partition(":")
    return kind if kind in TROUBLES and now_s < float(until) else None


@dataclass
class Notebook:
    """A sink that remembers what was written, in order."""

    exactly_once: str | None
    tell: object
    #: what stands there by the effect's identity
    kept: dict = field(default_factory=dict)

    def prepare(self, _site):
        pass

    def open(self, _site):
        return self

    def write(self, effects):
        for each in effects:
            rows = each.output.to_pylist() if each.output.num_columns else []
            spans = zip(each.slices, each.reached, strict=True)
            name = tuple((piece.lane, piece.from_offset, upto) for piece, upto in spans)
            if rows:
                self.kept[name] = rows
                self.tell(rows)
        return [Written()] * len(effects)

    def close(self):
        pass


class Hazards(InProcessEngine):
    """Waves end when they like, in any order, or not at all."""

    stage = None

    def finished(self, timeout_s):
        self.on_wait(timeout_s)
        results, self.late = getattr(self, "late", []), []
        for wave in list(self._waiting):
            fate = self.stage.fates.pop(0) if self.stage.fates else "now"
            if fate == "stays" and wave.id not in self._cancelled:
                continue
            self._waiting.remove(wave)
            result = self._suffer(wave, fate)
            (self.late if fate == "late" else results).append(result)
        return results

    def all_at_once(self):
        """As zombies do: nobody hears of it any more."""
        for wave in list(self._waiting):
            self._waiting.remove(wave)
            self._suffer(wave, "now")

    def _suffer(self, wave, fate):
        cancelled = wave.id in self._cancelled
        killer = self.stage.killer_in(wave)
        if not cancelled and (fate == "killed" or killer):
            self._taken.pop(wave.id)
            return failed(wave, WorkerKilled(f"wave {wave.id} lost its worker"))
        if fate == "lost before":
            self._taken.pop(wave.id)
            self._cancelled.discard(wave.id)
            return failed(wave, TaskLost(f"wave {wave.id} was lost"))
        result = self._run(wave)
        self.stage.look()
        if fate == "lost after" and not cancelled:
            return failed(wave, TaskLost(f"wave {wave.id} was lost"))
        # Real seconds would make each play another one.
        receipts = tuple(replace(each, seconds=0.001 * each.records) for each in result.receipts)
        return replace(result, receipts=receipts)


def failed(wave, error):
    return WaveResult(wave, (), 0.0, error_of(error))


class Unsteady:
    """A store that at times does not answer, before or after it did what was asked."""

    def __init__(self, whole, stage):
        self._whole, self._stage = whole, stage

    @property
    def positions(self):
        return Unsteady(self._whole.positions, self._stage)

    def __getattr__(self, name):
        method = getattr(self._whole, name)

        def called(*args, **options):
            fault = self._stage.fault()
            if fault == "before":
                raise StoreUnavailable("the store does not answer")
            answer = method(*args, **options)
            if fault == "after":
                raise StoreUnavailable("the store's answer was lost")
            return answer

        return called


class Stage:
    """Everything that a play needs, and the books that must balance at its end."""

    def __init__(self, folder, guarantee, order, bad_record, lanes):
        self.connections = Connections({}, f"sqlite:///{folder}/store.db", warehouse=str(folder))
        self.folder, self.guarantee, self.order = folder, guarantee, order
        self.log, self.clock, self.letters = LogTwin(), FakeClock(), DeadLettersTwin()
        self.store = open_store(self.connections.database_url)
        self.fates, self.faults = [], []
        self.order_checker, self.counts = OrderChecker(), Counter()
        self.lives, self.stamps, self.rowid = 0, 0, 0
        #: kills of waves that hold no record to blame
        self.accidents = 0
        #: ranges that a lane was sent over, each to be done; the last one is still open
        self.ways: dict[LaneId, list[list[int]]] = {}
        #: lanes sent elsewhere while a wave of them ran
        self.stale: dict[str, set[LaneId]] = {}
        self.zombies = []
        exact = guarantee == "exactly-once, by transaction"
        self.transacts = exact
        self.intends = guarantee == "exactly-once, by intent"
        self.sink = SEEN if exact else Notebook("intent" if self.intends else None, self.wrote)
        if exact:
            connection = sqlite3.connect(f"{folder}/store.db")
            connection.execute("CREATE TABLE seen (tenant TEXT, lane INT, place INT, stamp INT)")
            connection.close()
        self.use_case = use_case(
            topic=TOPIC,
            sink=self.sink,
            name="keep",
            guarantee=guarantee.partition(",")[0],
            order=order,
            bad_record=bad_record,
        )(self.handle)
        made = self.use_case
        self.store.deploy(
            Deployment(
                "keep", "m.py", "0" * 64, TOPIC, order=made.order, bad_record=made.bad_record
            )
        )
        for name, count in zip(TENANTS, lanes, strict=True):
            self.log.create_topic(f"{name}.visits", count)
            self.store.add_tenant(Tenant(name))
            for partition in range(count):
                self.ways[LaneId("keep", name, partition)] = [[0, -1]]
        self.start()

    # what the driver is made of

    def start(self):
        """A new driver, as after a kill; what ran may be finished by nobody's order."""
        if self.lives:
            self.zombies.append(self.engine)
        self.lives += 1
        self.engine = Hazards(
            self.connections,
            ReaderTwinFactory(self.log),
            SqlPositionsFactory(),
            self.letters,
            slots=3,
        )
        self.engine.stage = self
        self.checker = FlightChecker(self.engine)
        self.stale = {}
        store = Unsteady(self.store, self)
        parts = Parts(store, self.log, self.checker, self.letters, self.clock)
        limits = Limits(slice_records=6, bins_per_wave=2, min_bin_s=0.001)
        self.driver = Driver(parts, f"run{self.lives}", limits)
        self.driver.failing.chance = lambda: 0.5
        (deployment,) = self.store.deployments()
        self.checker.take(self.use_case, deployment)
        self.driver.take(self.use_case, deployment)

    def turn(self, seconds=0.1):
        self.driver.turn()
        self.clock.move(seconds)

    def fault(self):
        return self.faults.pop(0) if self.faults else None

    def handle(self, table, context):
        for row, value in enumerate(table["value"].to_pylist()):
            trouble = trouble_of(value, self.clock.monotonic_s())
            if trouble == "bad":
                raise context.bad_record(row, "bad")
            if trouble in ("raises", "hangs", "slow", "down"):
                raise {
                    "raises": ValueError,
                    "hangs": HandlerHung,
                    "slow": HandlerSlow,
                    "down": SinkUnavailable,
                }[trouble](trouble)
        rows = table.num_rows
        return pa.table(
            {
                "tenant": pa.array([context.tenant] * rows, pa.string()),
                "lane": table["partition"].cast(pa.int64()),
                "place": table["offset"],
                "stamp": table["timestamp"].cast(pa.int64()),
            }
        )

    def killer_in(self, wave):
        rows = (row for piece in wave.slices for _, row in self.rows(piece))
        now_s = self.clock.monotonic_s()
        return any(trouble_of(row.value, now_s) == "kills" for row in rows)

    def rows(self, piece):
        lane = self.log._lanes[TopicPartition(piece.topic, piece.lane.partition)]
        found = enumerate(lane.rows[piece.from_offset : piece.until_offset], piece.from_offset)
        return [(offset, row) for offset, row in found if row is not None]

    # what happened

    def look(self):
        """Take in the rows that were written since the last look."""
        if not self.transacts:
            return
        connection = sqlite3.connect(f"{self.folder}/store.db")
        found = connection.execute(
            "SELECT rowid, tenant, lane, place, stamp FROM seen WHERE rowid > ? ORDER BY rowid",
            (self.rowid,),
        ).fetchall()
        connection.close()
        if found:
            self.rowid = found[-1][0]
        self.wrote(
            [dict(zip(("tenant", "lane", "place", "stamp"), row[1:], strict=True)) for row in found]
        )

    def wrote(self, rows):
        for each in rows:
            lane = LaneId("keep", each["tenant"], each["lane"])
            self.counts[lane, each["place"]] += 1
            if lane in self.astray:
                continue
            self.order_checker.happened(lane, [each["place"]])
            if self.order == "stream":
                self.order_checker.happened(lane.stream, [each["stamp"]])

    @property
    def astray(self):
        """Lanes of which something runs that was planned before they were sent elsewhere."""
        running = {wave.id for wave in self.engine.started} & set(self.checker._flights)
        return {lane for wave in running for lane in self.stale.get(wave, ())}

    # what people do

    def position(self, lane):
        found = {each.lane: each.next_offset for each in self.store.load_positions([lane.stream])}
        return found.get(lane)

    def sent(self, lane, before, after):
        """Somebody moved a lane from one place to another."""
        way = self.ways[lane][-1]
        way[1] = way[0] if before is None else before
        self.ways[lane].append([after, -1])
        self.order_checker.sent_elsewhere(lane)
        self.order_checker.sent_elsewhere(lane.stream)
        for wave in self.checker._flights.values():
            lanes = {piece.lane for piece in wave.slices if piece.lane.stream == lane.stream}
            self.stale.setdefault(wave.id, set()).update(lanes)

    def end_of(self, lane):
        return len(self.log._lanes[TopicPartition(f"{lane.tenant}.visits", lane.partition)].rows)

    # the end

    def heal(self):
        self.fates, self.faults, self.log.down = [], [], False
        self.letters.accidents.clear()
        for name in TENANTS:
            tenant = next(each for each in self.store.tenants() if each.name == name)
            if tenant.state is State.SUSPENDED:
                self.store.set_tenant_state(name, State.ACTIVE)
            self.store.set_throttle(name, Throttle())
        for each in self.store.streams():
            if each.state is State.SUSPENDED:
                self.store.set_stream_state(each.id, State.ACTIVE)
        self.clock.move(1000.0)
        rested = 0
        for _ in range(400):
            self.turn(seconds=40.0)
            rested = rested + 1 if self.at_rest() else 0
            if rested == 5:
                return
        board = self.driver.board
        left = [str(lane) for each in board.streams.values() for lane in each.lanes.values()]
        told = f"{self.driver.committer.replays} {list(board.flights)} {left}"
        raise AssertionError(f"it does not come to rest: {told}")

    def at_rest(self):
        return self.driver.idle and not any(
            held.has_work for held in self.driver.board.streams.values()
        )

    def balance(self):
        self.look()
        stopped = {each.slice.lane: each for each in self.store.failures(only_open=True)}
        letters = {(each.slice.lane, each.error.offset) for each in self.letters.letters}
        halted = {lane.stream for lane in stopped} if self.order == "stream" else set()
        all_halt = stopped and self.use_case.bad_record == "fail"
        for lane, ways in self.ways.items():
            position = self.position(lane) or 0
            ways[-1][1] = position
            free = lane not in stopped and lane.stream not in halted and not all_halt
            assert not free or position == self.end_of(lane), f"{lane} stands still at {position}"
            self.balance_lane(lane, ways, letters)
        for each in stopped.values():
            self.decidable(each)
        assert stopped or self.store.pending_intents() == []

    def balance_lane(self, lane, ways, letters):
        whole = Slice(lane, f"{lane.tenant}.visits", 0, self.end_of(lane), 0)
        for offset, row in self.rows(whole):
            passed = sum(start <= offset < end for start, end in ways)
            done = self.counts[lane, offset]
            if self.intends:
                done = sum(
                    (lane.tenant, lane.partition, offset)
                    == (each["tenant"], each["lane"], each["place"])
                    for rows in self.sink.kept.values()
                    for each in rows
                )
            told = f"{lane} offset {offset} ({row.value}): passed {passed}, done {done}"
            aside = (lane, offset) in letters
            if self.guarantee == "at-most-once":
                assert done <= passed, told
            elif self.guarantee == "at-least-once":
                assert aside or done >= passed, told
            else:
                assert done == passed or (aside and done <= passed), told

    def decidable(self, failure):
        """A person can skip what failed, and loses nothing else by it."""
        if self.guarantee == "at-most-once":
            return
        position = self.position(failure.slice.lane)
        assert position in failure.skipped_from, f"{failure} at {position}"
        if failure.error.offset is not None:
            piece = replace(failure.slice, from_offset=position, until_offset=failure.skipped_to)
            found = self.rows(piece)
            assert [offset for offset, _ in found] == [failure.error.offset]
            assert found[0][1].value != b"good", f"an innocent was blamed: {failure}"


class Play:
    """What can happen, one method each."""

    def __init__(self, stage):
        self.stage = stage

    def lane(self, which):
        tenant, partition = which
        found = LaneId("keep", TENANTS[tenant], partition)
        return found if found in self.stage.ways else found._replace(partition=0)

    def send(self, which, values):
        lane, rows = self.lane(which), []
        for value in values:
            self.stage.stamps += 1
            rows.append(Row(value, timestamp_ms=self.stage.stamps))
        self.stage.log.append(f"{lane.tenant}.visits", lane.partition, rows)

    def records(self, which, count):
        self.send(which, [b"good"] * count)

    def trouble(self, which, kind, lasts_s):
        if kind not in NEVER_PASSES:
            lasts_s = min(lasts_s, 10.0)
        until_s = self.stage.clock.monotonic_s() + lasts_s
        self.send(which, [b"good", f"{kind}:{until_s}".encode(), b"good"])

    def gap(self, which, offsets):
        lane = self.lane(which)
        self.stage.log.append_gap(f"{lane.tenant}.visits", lane.partition, offsets)

    def turns(self, fates, seconds, count):
        self.stage.fates = [self.fate(each) for each in fates]
        for _ in range(count):
            self.stage.turn(seconds)

    def fate(self, each):
        # Worker after worker killed by the machine can not be told from a handler that kills.
        self.stage.accidents += each == "killed"
        return "lost before" if each == "killed" and self.stage.accidents > 2 else each

    def store_stumbles(self, faults):
        self.stage.faults = list(faults)

    def broker(self, down):
        self.stage.log.down = down

    def dead_letters_stumble(self, keeps):
        self.stage.letters.fail_next(BrokerUnavailable("no broker"), keeps)

    def driver_is_killed(self):
        self.stage.start()

    def zombies_write(self):
        if self.stage.transacts:
            for each in self.stage.zombies:
                each.all_at_once()
        self.stage.zombies.clear()

    def tenant_state(self, tenant, state):
        self.stage.store.set_tenant_state(tenant, state)

    def stream_state(self, tenant, state):
        self.stage.store.set_stream_state(StreamId("keep", tenant), state)

    def throttle(self, tenant, rate):
        self.stage.store.set_throttle(tenant, Throttle(records_per_s=rate))

    def seek(self, which, part):
        lane = self.lane(which)
        before, after = self.stage.position(lane), int(part * self.stage.end_of(lane))
        if before is not None and not self.stage.intends:
            self.stage.store.seek(lane.stream, {lane.partition: after})
            self.stage.sent(lane, before, after)

    def remove_and_add(self, tenant):
        if self.stage.intends:
            return
        mine = [lane for lane in self.stage.ways if lane.tenant == tenant]
        before = {lane: self.stage.position(lane) for lane in mine}
        self.stage.store.set_tenant_state(tenant, State.REMOVED)
        self.stage.store.add_tenant(Tenant(tenant))
        for lane in mine:
            self.stage.sent(lane, before[lane], 0)

    def decide(self, number, skip):
        store = self.stage.store
        found = store.failures(only_open=True)
        if not found:
            return
        failure = found[number % len(found)]
        lane = failure.slice.lane
        before = self.stage.position(lane)
        if not skip:
            store.retry_failure(failure.id)
            return
        try:
            store.skip_failure(failure.id)
        except ConfigError:
            assert self.stage.guarantee == "at-most-once", f"{failure} at {before}"
            return
        self.stage.sent(lane, before, self.stage.position(lane))


def step(name, **given):
    return st.fixed_dictionaries({"name": st.just(name), **given})


_lanes = st.tuples(st.integers(0, 2), st.integers(0, 1))
_tenants = st.sampled_from(TENANTS)
_states = st.sampled_from([State.ACTIVE, State.SUSPENDED])
_turns = step(
    "turns",
    fates=st.lists(st.sampled_from(FATES), max_size=4),
    seconds=st.sampled_from([0.01, 0.1, 1.0, 5.0]),
    count=st.integers(1, 3),
)
_work = step("records", which=_lanes, count=st.integers(1, 8))
_trouble = step(
    "trouble",
    which=_lanes,
    kind=st.sampled_from(TROUBLES),
    lasts_s=st.sampled_from([0.3, 3.0, math.inf]),
)
_accident = st.one_of(
    step("gap", which=_lanes, offsets=st.integers(1, 3)),
    step(
        "store_stumbles",
        faults=st.lists(st.sampled_from([None, None, "before", "after"]), max_size=12),
    ),
    step("broker", down=st.booleans()),
    step("dead_letters_stumble", keeps=st.integers(0, 1)),
    step("driver_is_killed"),
    step("zombies_write"),
)
_operator = st.one_of(
    step("tenant_state", tenant=_tenants, state=_states),
    step("stream_state", tenant=_tenants, state=_states),
    step("throttle", tenant=_tenants, rate=st.sampled_from([None, 0.5, 5.0])),
    step("seek", which=_lanes, part=st.floats(0, 1)),
    step("remove_and_add", tenant=_tenants),
    step("decide", number=st.integers(0, 3), skip=st.booleans()),
)
_steps = st.lists(
    st.one_of(_work, _turns, _turns, _trouble, _accident, _operator), min_size=8, max_size=50
)


@pytest.fixture
def plays(monkeypatch, empty_store):
    """Where plays are, in which everything comes in many small parts."""
    monkeypatch.setattr(task, "BATCH_RECORDS", 3)
    monkeypatch.setattr(task, "GROUP_RECORDS", 4)
    return empty_store


@pytest.fixture(scope="module")
def empty_store(tmp_path_factory):
    """A store to copy: to make one takes as long as a whole play."""
    path = tmp_path_factory.mktemp("plays") / "store.db"
    open_store(f"sqlite:///{path}").close()
    return path


@pytest.mark.parametrize("guarantee", GUARANTEES)
@given(
    order=st.sampled_from(["lane", "stream"]),
    bad_record=st.sampled_from(["suspend", "suspend", "dead-letter", "fail"]),
    counts=st.tuples(*[st.integers(1, 2)] * 3),
    steps=_steps,
)
@settings(
    max_examples=max(1, settings.default.max_examples // 8),
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
def test_whatever_happens(plays, guarantee, order, bad_record, counts, steps):
    with tempfile.TemporaryDirectory(dir=plays.parent) as folder:
        shutil.copy(plays, f"{folder}/store.db")
        stage = Stage(Path(folder), guarantee, order, bad_record, counts)
        play = Play(stage)
        try:
            for each in steps:
                given_ = dict(each)
                getattr(play, given_.pop("name"))(**given_)
            stage.heal()
            stage.balance()
        finally:
            stage.store.close()


# --- found by reading ------------------------------------------------------------------------


@pytest.fixture
def stage_of(tmp_path):
    """Makes a stage without surprises: ``stage_of("at-least-once", order="lane")``."""
    made = []

    def make(guarantee, order="lane", bad_record="suspend", lanes=(1, 1, 1)):
        folder = tmp_path / f"stage{len(made)}"
        folder.mkdir()
        made.append(Stage(folder, guarantee, order, bad_record, lanes))
        return made[-1]

    yield make
    for each in made:
        each.store.close()


def put(stage, tenant, *values, partition=0):
    Play(stage).send((TENANTS.index(tenant), partition), values)


def turns(stage, count, seconds=1.0):
    for _ in range(count):
        stage.turn(seconds)


@pytest.mark.parametrize("asked", range(4))
@pytest.mark.parametrize("fault", ["before", "after"])
def test_a_recorded_wave_is_divided_once_however_the_store_stumbles(stage_of, asked, fault):
    stage = stage_of("exactly-once, by intent")
    for name in TENANTS:
        put(stage, name, b"kills:inf" if name == "bolt" else b"good")
    turns(stage, 1)
    (flight,) = stage.driver.board.flights.values()
    assert len(list(flight.wave.slices)) == 3
    # What the driver asks then: positions, a part, another, the last; the whole is forgotten.
    stage.faults = [None] * asked + [fault]
    turns(stage, 3)
    stage.heal()
    stage.balance()
    (failure,) = stage.store.failures(only_open=True)
    assert failure.slice.lane.tenant == "bolt"


def test_a_driver_killed_while_it_divides_a_recorded_wave_runs_no_lane_twice(stage_of):
    stage = stage_of("exactly-once, by intent")
    for name in TENANTS:
        put(stage, name, b"kills:inf" if name == "bolt" else b"good")
    turns(stage, 1)
    stage.faults = [None, None, None, "before"]
    stage.driver.turn()
    assert len(stage.store.pending_intents()) > 1
    stage.start()
    turns(stage, 3)
    stage.heal()
    stage.balance()


def test_replays_that_wait_are_not_forgotten_when_the_store_stumbles(stage_of):
    stage = stage_of("exactly-once, by intent")
    put(stage, "acme", b"good")
    stage.turn()
    put(stage, "bolt", b"good")
    stage.fates = ["stays"] * 9
    turns(stage, 2, 0.1)
    first, _ = stage.store.pending_intents()
    assert {piece.lane.tenant for piece in first.slices} == {"acme"}
    # It was done, but the driver was killed before it could forget the record of it.
    stage.store.positions.advance([Move(A0, 0, 1, next(first.slices).epoch)])
    stage.start()
    stage.store.finish_intent = failing_once(stage.store.finish_intent)
    turns(stage, 12)
    assert stage.store.pending_intents() == []
    assert stage.position(LaneId("keep", "bolt", 0)) == 1


def failing_once(method, times=1):
    """A method of a store that does not answer the first times."""
    left = [None] * times

    def called(*args, **options):
        if left:
            left.pop()
            raise StoreUnavailable("the store does not answer")
        return method(*args, **options)

    return called


@pytest.mark.parametrize("guarantee", GUARANTEES[1:3])
def test_a_lane_sought_past_a_bad_record_is_not_stopped_by_a_slice_from_before(stage_of, guarantee):
    stage = stage_of(guarantee)
    put(stage, "acme", b"bad:inf", b"good", b"good")
    stage.turn()
    stage.fates = ["stays"]
    stage.store.seek(StreamId("keep", "acme"), {0: 1})
    stage.sent(A0, 0, 1)
    stage.turn()
    turns(stage, 6)
    assert stage.store.failures() == []
    assert stage.position(A0) == 3


def test_by_intent_what_passes_by_itself_leaves_no_effect_of_half_a_slice(stage_of):
    stage = stage_of("exactly-once, by intent")
    put(stage, "acme", b"good", b"good", b"raises:0.5", b"good")
    stage.turn()
    stage.fates = ["lost after"]
    stage.turn()
    stage.heal()
    stage.balance()
    assert stage.position(A0) == 4


def test_by_intent_a_handler_that_raises_stops_exactly_at_its_record(stage_of):
    stage = stage_of("exactly-once, by intent")
    put(stage, "acme", *[b"good"] * 4, b"raises:inf", b"good")
    stage.heal()
    stage.balance()
    (failure,) = stage.store.failures()
    assert (failure.error.offset, stage.position(A0), failure.attempts) == (4, 4, 4)


def test_a_failure_counts_once_however_the_store_stumbles(stage_of):
    stage = stage_of("at-least-once")
    put(stage, "acme", b"raises:inf")
    put(stage, "bolt", b"bad:inf")
    stage.turn()
    stage.store.keep_failure = failing_once(stage.store.keep_failure, times=2)
    turns(stage, 5, 0.05)
    assert len(stage.store.failures()) == 1
    lane = stage.driver.board.lane(A0)
    tried = sum(piece.lane == A0 for wave in stage.engine.started for piece in wave.slices)
    assert lane.attempts <= tried


def test_tokens_of_a_lost_wave_are_given_back(stage_of):
    stage = stage_of("at-least-once")
    stage.store.set_throttle("acme", Throttle(records_per_s=0.001, burst_s=5000.0))
    put(stage, "acme", *[b"good"] * 5)
    stage.turn(0.0)
    stage.fates = ["lost before"]
    turns(stage, 30)
    assert stage.position(A0) == 5
