"""Where accidents happen: a driver whose surroundings fail, and the books of what was done."""

import sqlite3
from collections import Counter
from dataclasses import dataclass, field, replace

import pyarrow as pa

from headrace.cycle.driver import Driver, DriverParts
from headrace.errors import (
    HandlerHung,
    HandlerSlow,
    SinkUnavailable,
    StoreUnavailable,
    TaskLost,
    WorkerKilled,
)
from headrace.model.lane_names import number_of
from headrace.model.plans import Limits
from headrace.model.records import Deployment
from headrace.model.streams import LaneId, Slice, State, Tenant, Throttle
from headrace.ports import Connections, WaveResult, Written
from headrace.sinks import SqlTable
from headrace.spark.slice_errors import error_of
from headrace.store import SqlPositionsFactory, open_store
from headrace.testing.at_once import at_once
from headrace.testing.clock import FakeClock
from headrace.testing.dead_letters_fake import MemoryDeadLetters
from headrace.testing.engine_fake import InProcessEngine
from headrace.testing.flight_checker import FlightChecker, OrderChecker
from headrace.testing.log_fake import MemoryLog, MemoryReaderFactory, Row
from headrace.use_cases import use_case

TOPIC = "{tenant}.visits"
TENANTS = ("acme", "bolt", "cove")
SEEN = SqlTable(
    "seen",
    columns={"tenant": "text", "lane": "bigint", "place": "bigint", "stamp": "bigint"},
)

GUARANTEES = (
    "at-most-once",
    "at-least-once",
    "exactly-once, by transaction",
    "exactly-once, by intent",
)
#: records that a handler or worker can never take, or not before some time has passed
TROUBLES = ("bad", "raises", "hangs", "kills", "slow", "down")


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
        for effect in effects:
            rows = effect.output.to_pylist() if effect.output.num_columns else []
            spans = zip(effect.slices, effect.reached, strict=True)
            name = tuple((piece.lane, piece.from_offset, upto) for piece, upto in spans)
            if rows:
                self.kept[name] = rows
                self.tell(rows)
        return [Written()] * len(effects)

    def close(self):
        pass


class Hazards(InProcessEngine):
    """Waves end when the stage says so, or not at all."""

    stage = None

    def finished(self, timeout_s):
        self.on_wait(timeout_s)
        results = []
        for wave in list(self._waiting):
            fate = self.stage.fates.pop(0) if self.stage.fates else "now"
            if fate == "stays" and wave.id not in self._cancelled:
                continue
            self._waiting.remove(wave)
            results.append(self._suffer(wave, fate))
        return results

    def _suffer(self, wave, fate):
        cancelled = wave.id in self._cancelled
        killer = self.stage.killer_in(wave)
        if not cancelled and killer:
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
        return result


def failed(wave, error):
    return WaveResult(wave, (), 0.0, error_of(error))


class Unsteady:
    """A store that at times does not answer, before or after it did what was asked."""

    def __init__(self, whole, stage):
        self._whole, self._stage = whole, stage

    def __getattr__(self, name):
        method = getattr(self._whole, name)
        if not callable(method):
            return Unsteady(method, self._stage)

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
    """Everything that an accident needs, and the books that must balance at its end."""

    def __init__(self, folder, guarantee, order, bad_record, lanes):
        self.connections = Connections({}, f"sqlite:///{folder}/store.db", warehouse=str(folder))
        self.folder, self.guarantee, self.order = folder, guarantee, order
        self.log, self.clock, self.letters = MemoryLog(), FakeClock(), MemoryDeadLetters()
        self.store = open_store(self.connections.database_url)
        self.fates, self.faults = [], []
        self.order_checker, self.counts = OrderChecker(), Counter()
        self.lives, self.stamps, self.rowid = 0, 0, 0
        #: ranges that a lane was sent over, each to be done; the last one is still open
        self.ways: dict[LaneId, list[list[int]]] = {}
        #: lanes sent elsewhere while a wave of them ran
        self.stale: dict[str, set[LaneId]] = {}
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
        self.store.registry.deploy(
            Deployment(
                "keep", "m.py", "0" * 64, TOPIC, order=made.order, bad_record=made.bad_record
            )
        )
        for name, count in zip(TENANTS, lanes, strict=True):
            self.log.create_topic(f"{name}.visits", count)
            self.store.registry.add_tenant(Tenant(name))
            for partition in range(count):
                self.ways[LaneId("keep", name, f"{name}.visits[{partition}]")] = [[0, -1]]
        self.start()

    # what the driver is made of

    def start(self):
        """A new driver, as after a kill."""
        self.lives += 1
        self.engine = Hazards(
            self.connections,
            MemoryReaderFactory(self.log),
            SqlPositionsFactory(),
            self.letters,
            slots=3,
        )
        self.engine.stage = self
        self.checker = FlightChecker(self.engine)
        self.stale = {}
        store = Unsteady(self.store, self)
        parts = DriverParts(store, self.log, self.checker, self.letters, self.clock)
        limits = Limits(slice_records=6, bins_per_wave=2, min_bin_s=0.001)
        self.driver = Driver(parts, f"run{self.lives}", limits, threads=at_once)
        self.driver.failing.chance = lambda: 0.5
        (deployment,) = self.store.registry.deployments()
        self.checker.take(self.use_case, deployment)
        self.driver.take(self.use_case, deployment)

    def send(self, tenant, *values, partition=0):
        rows = []
        for value in values:
            self.stamps += 1
            rows.append(Row(value, timestamp_ms=self.stamps))
        self.log.append(f"{tenant}.visits", partition, rows)

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
        lane = self.log._lanes[piece.lane.name]
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
        for row in rows:
            lane = LaneId("keep", row["tenant"], f"{row['tenant']}.visits[{row['lane']}]")
            self.counts[lane, row["place"]] += 1
            if lane in self.astray:
                continue
            self.order_checker.happened(lane, [row["place"]])
            if self.order == "stream":
                self.order_checker.happened(lane.stream, [row["stamp"]])

    @property
    def astray(self):
        """Lanes of which something runs that was planned before they were sent elsewhere."""
        running = {wave.id for wave in self.engine.started} & set(self.checker._flights)
        return {lane for wave in running for lane in self.stale.get(wave, ())}

    # what people do

    def position(self, lane):
        found = {
            position.lane: position.next_offset
            for position in self.store.progress.load_positions([lane.stream])
        }
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
        return len(self.log._lanes[lane.name].rows)

    # the end

    def heal(self):
        self.fates, self.faults, self.log.down = [], [], False
        self.letters.accidents.clear()
        for name in TENANTS:
            tenant = next(tenant for tenant in self.store.registry.tenants() if tenant.name == name)
            if tenant.state is State.SUSPENDED:
                self.store.registry.set_tenant_state(name, State.ACTIVE)
            self.store.registry.set_throttle(name, Throttle())
        for stream in self.store.registry.streams():
            if stream.state is State.SUSPENDED:
                self.store.registry.set_stream_state(stream.id, State.ACTIVE)
        self.clock.move(1000.0)
        rested = 0
        for _ in range(400):
            self.turn(seconds=40.0)
            rested = rested + 1 if self.at_rest() else 0
            if rested == 5:
                return
        board = self.driver.board
        left = [str(lane) for stream in board.streams.values() for lane in stream.lanes.values()]
        told = f"{self.driver.recorded.waiting} {list(board.flights)} {left}"
        raise AssertionError(f"it does not come to rest: {told}")

    def at_rest(self):
        return self.driver.idle and not any(
            held.has_work for held in self.driver.board.streams.values()
        )

    def balance(self):
        self.look()
        stopped = {
            failure.slice.lane: failure for failure in self.store.failures.every(only_open=True)
        }
        letters = {(letter.slice.lane, letter.error.offset) for letter in self.letters.letters}
        halted = {lane.stream for lane in stopped} if self.order == "stream" else set()
        all_halt = stopped and self.use_case.bad_record == "fail"
        for lane, ways in self.ways.items():
            position = self.position(lane) or 0
            ways[-1][1] = position
            free = lane not in stopped and lane.stream not in halted and not all_halt
            assert not free or position == self.end_of(lane), f"{lane} stands still at {position}"
            self.balance_lane(lane, ways, letters)
        for failure in stopped.values():
            self.decidable(failure)
        assert stopped or self.store.progress.pending_intents() == []

    def balance_lane(self, lane, ways, letters):
        whole = Slice(lane, f"{lane.tenant}.visits", 0, self.end_of(lane), 0)
        for offset, row in self.rows(whole):
            passed = sum(start <= offset < end for start, end in ways)
            done = self.counts[lane, offset]
            if self.intends:
                done = sum(
                    (lane.tenant, number_of(lane.name), offset)
                    == (row["tenant"], row["lane"], row["place"])
                    for rows in self.sink.kept.values()
                    for row in rows
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
