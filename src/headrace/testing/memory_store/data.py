"""Everything that a store in memory holds, and what several of its parts do with it.

The one thing that everything exact rests on stands by itself, so that a test can plant a fault in
it: ``matches`` is the compare of the compare-and-set.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import partial, wraps
from secrets import token_bytes
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, cast

from headrace.errors import no_stream
from headrace.model.credentials import CHANGES_KEPT, Change, Key
from headrace.model.lineage import Lineage, depths, without
from headrace.model.places import Place
from headrace.model.records import Answer, Deployment, Move, Peer, ReadRange
from headrace.model.streams import LaneId, PassedRange, Position, Stream, StreamId, Tenant, original
from headrace.model.waves import Wave
from headrace.testing.memory_store.kept import KeptFailures
from headrace.testing.memory_store.kept_schemas import KeptSchemas
from headrace.testing.memory_store.kept_state import KeptState
from headrace.testing.statistics_fake import KeptReports


@dataclass(slots=True)
class Data:
    """Everything a store holds. Its methods are called by who has the lock."""

    lock: threading.RLock = field(default_factory=threading.RLock)
    revision: int = 0
    seal_key: bytes = field(default_factory=partial(token_bytes, 32))
    tenants: dict[str, Tenant] = field(default_factory=dict)
    streams: dict[StreamId, Stream] = field(default_factory=dict)
    positions: dict[StreamId, dict[str, Position]] = field(default_factory=dict)
    #: since when nobody commits a stream who is to: its lanes were moved last, it was taken while
    #: it was free, or a person let it go on
    moved_s: dict[StreamId, float] = field(default_factory=dict)
    #: streams that wait for an heir, since their driver ended in good order
    in_good_order: set[StreamId] = field(default_factory=set)
    #: what time it is, in seconds since 1970
    now_s: Callable[[], float] = time.time
    #: of lanes that follow nothing
    depths: dict[StreamId, int] = field(default_factory=dict)
    drivers: dict[str, Peer] = field(default_factory=dict)
    #: by the name of a driver: which processes it is and was, the latest one first
    processes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    #: by driver
    answers: dict[str, list[Answer]] = field(default_factory=dict)
    #: wave and driver by wave id, oldest first
    intents: dict[str, tuple[Wave, str | None]] = field(default_factory=dict)
    deployments: dict[str, Deployment] = field(default_factory=dict)
    failures: KeptFailures = field(default_factory=KeptFailures)
    #: what was read of open slices, by lane
    reads: dict[LaneId, ReadRange] = field(default_factory=dict)
    #: what use cases remember of keys
    state: KeptState = field(default_factory=KeptState)
    #: rows of guests, by table
    tables: dict[str, list[Mapping[str, Any]]] = field(default_factory=dict)
    keys: dict[str, Key] = field(default_factory=dict)
    #: the audit log, oldest first
    changes: deque[Change] = field(default_factory=lambda: deque(maxlen=CHANGES_KEPT))
    changes_total: int = 0
    told: KeptReports = field(default_factory=KeptReports)
    schemas: KeptSchemas = field(default_factory=KeptSchemas)

    def changed(self) -> None:
        """Raise the revision."""
        self.revision += 1

    def stream(self, stream: StreamId) -> Stream:
        """A stream that is known.

        Raises:
            UnknownName: it is not.
        """
        known = self.streams.get(stream)
        if known is None:
            raise no_stream(str(stream))
        return known

    def set_stream(self, stream: StreamId, **values: Any) -> None:
        """Change some of what is known of a stream."""
        self.streams[stream] = replace(self.streams[stream], **values)

    def put(
        self,
        stream: StreamId,
        offsets: Mapping[str, Place],
        lineage: Lineage | None = None,
        *,
        deeper: bool = True,
    ) -> None:
        """Let lanes of a stream stand there, under its epoch; they follow what they did."""
        lanes, epoch = self.positions[stream], self.streams[stream].epoch
        known = {name: position.depth for name, position in lanes.items()}
        deep = depths(offsets, lineage or {}, known, self.depths.get(stream, 0), deeper=deeper)
        live = self.positions.get(stream._replace(use_case=original(stream.use_case)), {})
        for name, offset in offsets.items():
            new = Position(LaneId(*stream, name), offset, epoch, (), deep[name])
            if name not in lanes and name in live:
                new = replace(new, depth=live[name].depth)
            known_at = lanes.get(name, new)
            passed = known_at.passed_range if known_at.next_offset == offset else None
            lanes[name] = replace(known_at, next_offset=offset, epoch=epoch, passed_range=passed)
        if offsets:
            self.expect(stream)

    def expect(self, stream: StreamId) -> None:
        """Let it count from now that nobody commits a stream."""
        self.moved_s[stream] = self.now_s()

    def passed_over(self, stream: StreamId, ranges: Mapping[str, PassedRange | None]) -> None:
        """Let lanes have passed these over to stand where they do."""
        lanes = self.positions[stream]
        for name, passed in ranges.items():
            lanes[name] = replace(lanes[name], passed_range=passed)

    def deepen(self, stream: StreamId) -> None:
        """Let all lanes of a stream be deeper than any of it ever was; those of a rerun stay."""
        if original(stream.use_case) != stream.use_case:
            return
        base, lanes = self.depths.get(stream, 0), self.positions.get(stream, {})
        more = max([base, *(position.depth for position in lanes.values())]) - base + 1
        self.depths[stream] = base + more
        for name, position in lanes.items():
            lanes[name] = replace(position, depth=position.depth + more, ordinal=0)

    def leave_behind(self, stream: StreamId, names: Collection[str]) -> None:
        """Let lanes that will come be deeper than these, which are about to be forgotten."""
        base, lanes = self.depths.get(stream, 0), self.positions.get(stream, {})
        if original(stream.use_case) == stream.use_case:
            deep = (lanes[name].depth + 1 for name in names if name in lanes)
            self.depths[stream] = max([base, *deep])

    def follow(self, stream: StreamId, lineage: Lineage) -> None:
        """Let lanes of a stream follow these; nobody waits for a lane that is not there."""
        lanes = self.positions[stream]
        for name, followed in lineage.items():
            if name in lanes:
                gone = {parent.lane for parent in followed} - lanes.keys()
                lanes[name] = replace(lanes[name], parents=without(followed, gone))

    def forget(self, stream: StreamId, names: Collection[str]) -> None:
        """Let lanes be no more, and nobody wait for them."""
        lanes = self.positions.get(stream, {})
        for name in names:
            lanes.pop(name, None)
            self.reads.pop(LaneId(*stream, name), None)
        self.state.forget_gone(stream, names, lanes)
        for name, position in lanes.items():
            lanes[name] = replace(position, parents=without(position.parents, names))

    def matches(self, position: Position, move: Move) -> bool:
        """Whether a move may be made: the compare of the compare-and-set."""
        return (position.next_offset, position.epoch) == (move.from_offset, move.epoch)

    def is_still(self, driver: str, number: int) -> bool:
        """Whether a driver is the one of its name."""
        known = self.drivers.get(driver)
        return known is not None and known.number == number


class _Part(Protocol):
    data: Data


_S = TypeVar("_S", bound=_Part)
_P = ParamSpec("_P")
_R = TypeVar("_R")


def alone(
    method: Callable[Concatenate[_S, _P], _R],
) -> Callable[Concatenate[_S, _P], _R]:
    """The method of a part, with nobody else inside the data meanwhile."""

    @wraps(method)
    def locked(self: _S, *args: _P.args, **options: _P.kwargs) -> _R:
        with self.data.lock:
            return method(self, *args, **options)

    return cast("Callable[Concatenate[_S, _P], _R]", locked)
