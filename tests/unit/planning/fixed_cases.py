"""Handlers with a cost for each call, whatever they get: express, plan, run, learn, again.

The loop of a driver, with time as a number. A slice is one call of up to `CALL_RECORDS` records,
and a bin whose budget is used up yields before the next call. Records of a quick tenant come one by
one, and for each it is known how long it waited until its bin came back.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from heapq import heappop, heappush

from headrace.connectors.kafka import OFFSETS
from headrace.model.lane_names import number_of
from headrace.model.plans import Cost, LaneView, Limits, Snapshot, StreamView
from headrace.model.streams import Order, Slice, StreamId
from headrace.model.waves import Bin
from headrace.planning import check, plan, quick_only
from headrace.policies.cost import learn
from headrace.policies.express import is_long, with_express
from headrace.policies.fairness import settled

#: most records of one call, as in `spark/task.py`
CALL_RECORDS = 10_000
RECORD_BYTES = 200
TIMEOUT_S = 30.0
CREDIT_BINS = 16
#: what is done about a call that was ended, as in `policies/quarantine.py` and `cycle/failing.py`
NARROWING, GROWTH = 8, 4
IDLE_S = 0.05
#: what a bin costs its slot besides its work
OVERHEAD_S = 0.03


@dataclass
class Handler:
    """A stream with what its handler really costs."""

    name: str
    fixed_s: float
    record_s: float
    lanes: int = 1
    #: records that come each second, to all lanes together; what is there at first is `backlog`
    per_s: float = 0.0
    backlog: int = 10**7
    noise: float = 0.0
    order: Order = Order.LANE
    cost: Cost = field(default_factory=lambda: Cost(bytes_per_record=RECORD_BYTES))
    credit_s: float = 0.0
    done: int = 0
    #: records and seconds of each slice that came back, and when
    ran: list[tuple[float, int, float]] = field(default_factory=list)
    delays_s: list[float] = field(default_factory=list)
    #: calls that were ended, and the most records since
    overdue: int = 0
    most: int | None = None
    running: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        """Every lane begins at its beginning."""
        self.positions = [0] * self.lanes
        self.chance = random.Random(self.name)

    @property
    def stream(self) -> StreamId:
        """Its stream."""
        return StreamId("call", self.name)

    def end(self, now_s: float) -> int:
        """Where each lane ends."""
        return self.backlog + int(now_s * self.per_s / self.lanes)

    def view(self, now_s: float) -> StreamView:
        """What the planner is shown."""
        end = self.end(now_s)
        lanes = tuple(
            LaneView(f"calls[{number}]", position, end, end - position, number in self.running)
            for number, position in enumerate(self.positions)
        )
        return StreamView(
            self.stream,
            f"{self.name}.visits",
            lanes,
            order=self.order,
            cost=self.cost,
            credit_s=self.credit_s,
            call_limit_s=TIMEOUT_S,
            allowance_records=self.most,
        )

    def call_s(self, records: int) -> float:
        """What one call takes."""
        true_s = self.fixed_s + records * self.record_s
        return true_s * self.chance.uniform(1 - self.noise, 1 + self.noise)

    def rate(self, from_s: float, until_s: float) -> float:
        """Records for each second of a slot, of the slices that came back in a span of time."""
        found = [
            (n, took_s + OVERHEAD_S) for at_s, n, took_s in self.ran if from_s <= at_s < until_s
        ]
        return sum(n for n, _ in found) / max(OVERHEAD_S, sum(took_s for _, took_s in found))

    def best_rate(self, longest_s: float = TIMEOUT_S) -> float:
        """That of the best of all fixed sizes of a slice."""
        sizes = [2**power for power in range(14) if 2**power <= CALL_RECORDS]
        spans = ((size, self.fixed_s + size * self.record_s) for size in [*sizes, CALL_RECORDS])
        return max(size / (span_s + OVERHEAD_S) for size, span_s in spans if span_s <= longest_s)


@dataclass
class Played:
    """A slice that came back."""

    slice: Slice
    predicted_s: float
    records: int = 0
    seconds: float = 0.0


@dataclass
class Play:
    """Streams on so many slots."""

    streams: dict[StreamId, Handler]
    slots: int
    limits: Limits = field(default_factory=Limits)
    now_s: float = 0.0
    turn: int = 0
    was_long: bool = False
    flights: list[tuple[float, int, bool, list[Played]]] = field(default_factory=list)

    def run(self, until_s: float) -> None:
        """Turn until then."""
        while self.now_s < until_s:
            started = self._start()
            if len(self.flights) < self.slots and not started:
                self._end(self.now_s + IDLE_S)
            elif len(self.flights) >= self.slots:
                self._end(self.flights[0][0])

    def _start(self) -> bool:
        free = self.slots - len(self.flights)
        views = {name: handler.view(self.now_s) for name, handler in self.streams.items()}
        self.turn += 1
        whole = Snapshot(f"turn-{self.turn}", tuple(views.values()), free, self.limits)
        long_running = sum(long for _, _, long, _ in self.flights)
        asked = with_express(whole, self.slots, long_running)
        express = asked.limits.bin_budget_s < self.limits.bin_budget_s
        if express or (self.slots == 1 and self.was_long):
            asked = quick_only(asked)
        made = plan(asked, OFFSETS)
        assert check(asked, made, OFFSETS) == []
        for credit in made.credits:
            self.streams[credit.stream].credit_s = credit.credit_s
        for number, bin_made in enumerate(bin_ for wave in made.waves for bin_ in wave.bins):
            self.was_long = is_long(bin_made, views, asked.limits.express_s)
            self._fly(bin_made, number)
        return bool(made.waves)

    def _fly(self, planned: Bin, number: int) -> None:
        left_s, came_back, merged = self.limits.bin_budget_s, [], {}
        for piece in planned.slices:
            handler = self.streams[piece.lane.stream]
            handler.running.add(number_of(piece.lane.name))
            cost = handler.cost
            played = Played(piece, cost.seconds_per_slice + piece.records * cost.seconds_per_record)
            came_back.append(played)
            if handler.order is Order.STREAM:
                merged.setdefault(handler.stream, []).append(played)
                continue
            overdue = handler.overdue
            while played.records < piece.records and left_s > 0 and handler.overdue == overdue:
                records = min(CALL_RECORDS, piece.records - played.records)
                left_s -= self._call(handler, [played], records)
        for name, together in merged.items():
            self._call(self.streams[name], together, sum(tried.slice.records for tried in together))
        end_s = self.now_s + OVERHEAD_S + sum(tried.seconds for tried in came_back)
        names = {tried.slice.lane.stream for tried in came_back}
        long = is_long(
            planned,
            {name: self.streams[name].view(self.now_s) for name in names},
            self.limits.express_s,
        )
        heappush(self.flights, (end_s, self.turn * 100 + number, long, came_back))

    def _call(self, handler: Handler, together: list[Played], records: int) -> float:
        seconds = handler.call_s(records)
        if seconds > TIMEOUT_S:
            handler.overdue += 1
            handler.most = max(1, records // NARROWING)
            together[0].seconds += 2 * TIMEOUT_S  # the search for the record to blame
            return 2 * TIMEOUT_S
        if handler.most is not None:
            handler.most *= GROWTH
        for tried in together:
            part = records if len(together) == 1 else tried.slice.records
            tried.records += part
            tried.seconds += seconds * part / records
        return seconds

    def _end(self, until_s: float) -> None:
        while self.flights and self.flights[0][0] <= until_s:
            self.now_s, _, _, came_back = heappop(self.flights)
            for tried in came_back:
                self._take(tried)
            for handler in self.streams.values():
                lanes = [tried for tried in came_back if tried.slice.lane.stream == handler.stream]
                if lanes and handler.order is Order.STREAM:
                    records = sum(lane.records for lane in lanes)
                    planned = sum(lane.slice.records for lane in lanes)
                    self._learn(handler, records, sum(lane.seconds for lane in lanes), planned)
            if len(self.flights) < self.slots:
                return
        self.now_s = max(self.now_s, until_s)

    def _take(self, played: Played) -> None:
        handler = self.streams[played.slice.lane.stream]
        partition = number_of(played.slice.lane.name)
        handler.running.discard(partition)
        most_s = CREDIT_BINS * self.limits.bin_budget_s
        handler.credit_s = settled(handler.credit_s, played.predicted_s, played.seconds, most_s)
        if not played.records:
            return
        if handler.per_s:
            first = handler.positions[partition] - handler.backlog + 1
            came = (first + number for number in range(played.records))
            handler.delays_s += [self.now_s - n * handler.lanes / handler.per_s for n in came]
        handler.positions[partition] += played.records
        handler.done += played.records
        handler.ran.append((self.now_s, played.records, played.seconds))
        if handler.order is not Order.STREAM:
            self._learn(handler, played.records, played.seconds)

    def _learn(
        self, handler: Handler, records: int, seconds: float, planned: int | None = None
    ) -> None:
        bytes_ = records * RECORD_BYTES
        handler.cost = learn(handler.cost, records, bytes_, seconds, planned)


def play(*handlers: Handler, slots: int = 2, until_s: float = 120.0) -> Play:
    """Run these handlers for so long."""
    made = Play({handler.stream: handler for handler in handlers}, slots)
    made.run(until_s)
    return made
