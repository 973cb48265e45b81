"""A driver on slots where time is a number: what calls of handlers take, and what becomes of hangs.

No handler runs. What a call of a tenant takes is told by the test, and the engine makes the
receipts that a worker would make (`spark/bin_run.py`, `spark/handling.py`): a call in company has
its patience, one that hangs alone is ended, and the record is searched for. A tenant whose own
database is locked is waited for as `connectors/tenants.py` does.
"""

import heapq
import math
from dataclasses import dataclass, field, replace

from headrace.connectors.own_servers import ALL_S
from headrace.connectors.tenants import LEAST_S, MOMENT_S
from headrace.cycle.driver import Driver, DriverParts
from headrace.errors import HandlerHung, HandlerSlow, TenantsSinkSlow
from headrace.model.plans import Limits
from headrace.model.receipts import Receipt
from headrace.model.records import Deployment
from headrace.model.streams import StreamId, Tenant
from headrace.policies.watchdog import patience_s
from headrace.ports import WaveResult
from headrace.spark.slice_errors import error_of
from headrace.testing.at_once import at_once
from headrace.testing.clock import FakeClock
from headrace.testing.dead_letters_fake import MemoryDeadLetters
from headrace.testing.log_fake import MemoryLog, Row
from headrace.testing.memory_store import MemoryStore
from headrace.use_cases import use_case

TIMEOUT_S = 30.0
#: part of the timeout that each call has which searches for the record
SEARCH_PART = 8
#: what a job costs besides its work
OVERHEAD_S = 0.03
#: what a database that is locked is waited for alone
LOCK_S = 30.0
HANGS = math.inf


@dataclass
class TimedEngine:
    """Implements ``headrace.ports.Engine``: waves end when their seconds are over."""

    clock: FakeClock
    #: by tenant, and by lane where one is named: seconds of one call, and of each record of it
    costs: dict
    slots: int = 2
    executors: int = 1
    ui_url: str = ""
    #: order `stream`: the lanes of a tenant are one call
    merges: bool = False
    #: tenants whose own databases are locked
    locked: set = field(default_factory=set)
    #: tenant, records and end of each slice that came back
    ran: list = field(default_factory=list)
    #: lane, place behind it and end of each slice that came through
    passed: list = field(default_factory=list)
    _flights: list = field(default_factory=list)
    #: when each slot is free
    _free_s: list = field(default_factory=list)
    _number: int = 0

    def take(self, _use_case, _deployment):
        """There is one, and it is never called."""

    def start(self, wave):
        receipts = [
            receipt for planned in wave.bins for receipt in self._run(planned, wave.budget_s)
        ]
        seconds = OVERHEAD_S + sum(receipt.seconds for receipt in receipts)
        self._number += 1
        result = WaveResult(wave, tuple(receipts), seconds)
        if not self._free_s:
            self._free_s = [0.0] * self.slots
        # One that finds no slot free waits for the first that is.
        end_s = max(self.clock.steady_s, heapq.heappop(self._free_s)) + seconds
        heapq.heappush(self._free_s, end_s)
        heapq.heappush(self._flights, (end_s, self._number, result))

    def finished(self, timeout_s):
        until_s = self.clock.steady_s + timeout_s
        if self._flights:
            until_s = min(until_s, max(self.clock.steady_s, self._flights[0][0]))
        self.clock.move(until_s - self.clock.steady_s)
        found = []
        while self._flights and self._flights[0][0] <= self.clock.steady_s:
            _, _, result = heapq.heappop(self._flights)
            found.append(result)
            for receipt in result.receipts:
                self.ran.append((receipt.slice.lane.tenant, receipt.records, self.clock.steady_s))
                if receipt.error is None:
                    place = receipt.slice.lane.name, receipt.reached, self.clock.steady_s
                    self.passed.append(place)
        return found

    def lose_all(self):
        """As when the driver is killed."""
        self._flights, self._free_s = [], []

    def began(self, _wave_id):
        return True

    def cancel(self, wave_id):
        raise AssertionError(f"wave {wave_id} was to end by itself")

    def resize(self, slots):
        """They are fixed."""

    def close(self):
        """Nothing runs."""

    def _run(self, planned, budget_s):
        shared = planned.in_company
        most_s = patience_s(planned.predicted_s, TIMEOUT_S, shared=shared)
        used_s, slow, waited_s = 0.0, 0, 0.0
        if self.merges:
            yield from self._merged(planned.slices)
            return
        for piece in planned.slices:
            if used_s > budget_s:
                yield Receipt(piece, piece.from_offset, committed=False)
                continue
            if shared and waited_s >= ALL_S:
                yield Receipt(piece, piece.from_offset, committed=False)
                continue
            if piece.lane.tenant in self.locked:
                moment_s = max(LEAST_S, MOMENT_S / 2**slow) if shared else LOCK_S
                error = error_of(TenantsSinkSlow("locked"))
                slow, waited_s = slow + 1, waited_s + moment_s
                yield Receipt(piece, piece.from_offset, False, seconds=moment_s, error=error)
                continue
            receipt = self._called(piece, most_s, shared=shared)
            used_s += receipt.seconds
            yield receipt

    def _merged(self, slices):
        """One call for all lanes, whose seconds are spread by records."""
        call_s, record_s = self.costs[slices[0].lane.tenant]
        records = sum(piece.records for piece in slices)
        each_s = call_s / records + record_s
        for piece in slices:
            size = piece.records
            yield Receipt(
                piece, piece.until_offset, False, records=size, bytes=size, seconds=size * each_s
            )

    def _called(self, piece, most_s, *, shared):
        costs = self.costs
        call_s, record_s = costs.get(piece.lane.name) or costs[piece.lane.tenant]
        seconds = call_s + piece.records * record_s
        if seconds <= most_s:
            size = piece.records
            return Receipt(
                piece, piece.until_offset, False, records=size, bytes=size, seconds=seconds
            )
        if shared:
            error = error_of(HandlerSlow("in company"))
            return Receipt(piece, piece.from_offset, False, seconds=most_s, error=error)
        # Each prefix hangs, so the first record is found, and has its full time by itself.
        searches = math.ceil(math.log2(max(1, piece.records)))
        spent_s = most_s * (1 + searches / SEARCH_PART + (piece.records > 1))
        error = replace(error_of(HandlerHung("alone")), offset=piece.from_offset)
        return Receipt(piece, piece.from_offset, False, seconds=spent_s, error=error)


class Timed:
    """A driver, its tenants, and what they send."""

    def __init__(self, costs, *, intends=False, slots=2, lag=100_000, steady=(), **chosen):
        lanes, order = chosen.get("lanes", 1), chosen.get("order", "lane")
        self.clock, self.log = FakeClock(), MemoryLog()
        self.store = MemoryStore()
        self.letters = MemoryDeadLetters()
        made = use_case(
            topic="{tenant}.visits",
            sink=_Nowhere("intent" if intends else None),
            name="call",
            order=order,
            buckets=chosen.get("buckets"),
            guarantee="exactly-once" if intends else "at-least-once",
        )(lambda *_: None)
        self.store.registry.deploy(
            Deployment(
                "call",
                "m.py",
                "0" * 64,
                "{tenant}.visits",
                order=made.order,
                buckets=made.divides_by,
                handler_timeout_s=TIMEOUT_S,
            )
        )
        self.engine = TimedEngine(self.clock, {}, slots, merges=order == "stream")
        for name, cost in costs.items():
            self.add(name, cost, lag=lag, lanes=range(name in steady, lanes))
        self.steady = steady
        self._made = made
        self.start("run")
        self._sent_s = 0.0

    def start(self, run_id):
        """A driver that knows nothing but what is in the store; what ran before is gone."""
        self.engine.lose_all()
        parts = DriverParts(self.store, self.log, self.engine, self.letters, self.clock)
        # Where seconds are a number, a thread of its own would answer hours late, or at once.
        self.driver = Driver(parts, run_id, Limits(), threads=at_once)
        self.driver.failing.chance = lambda: 0.5
        (deployment,) = self.store.registry.deployments()
        self.driver.take(self._made, deployment)

    def add(self, name, cost, *, lag, lanes=range(1)):
        """A tenant, with so much in each of these lanes."""
        self.engine.costs[name] = cost
        self.log.create_topic(f"{name}.visits", lanes.stop)
        self.store.registry.add_tenant(Tenant(name))
        for lane in lanes:
            self.log.append(f"{name}.visits", lane, self.rows(lag))

    def run(self, seconds):
        """Turn for so long; who is steady gets a record each fifth of a second."""
        until_s = self.clock.steady_s + seconds
        while self.clock.steady_s < until_s:
            while self._sent_s <= self.clock.steady_s:
                for name in self.steady:
                    stamp = int((self.clock.wall_s - self.clock.steady_s + self._sent_s) * 1000)
                    self.log.append(f"{name}.visits", 0, [Row(b"x", timestamp_ms=stamp)])
                self._sent_s += 0.2
            self.driver.turn()

    @staticmethod
    def rows(count):
        return [Row(b"x", timestamp_ms=0)] * count

    def done(self, tenant, since_s=0.0):
        return sum(n for name, n, at_s in self.engine.ran if name == tenant and at_s >= since_s)

    def held(self, tenant):
        return self.driver.board.streams[StreamId("call", tenant)]


@dataclass(frozen=True)
class _Nowhere:
    exactly_once: str | None

    def prepare(self, _site):
        pass

    def open(self, _site):
        return self
