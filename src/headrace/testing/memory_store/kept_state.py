"""State of keys in memory: changed by who moves positions, forgotten by who forgets these."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from headrace.model.buckets import whole_lane
from headrace.model.places import Place
from headrace.model.state import (
    StateChanges,
    StateKey,
    StateLoaded,
    StateRow,
    StateSize,
    size_of,
)
from headrace.model.streams import LaneId, StreamId
from headrace.policies.state_sent import forgotten

_Part = tuple[StreamId, str]


@dataclass(slots=True)
class KeptState:
    """All state of a store. Called by who has its lock."""

    #: of a part, by table and key
    rows: dict[_Part, dict[StateKey, bytes]] = field(default_factory=dict)
    sizes: dict[LaneId, StateSize] = field(default_factory=dict)

    def load(self, lane: LaneId, table: str, keys: Sequence[bytes]) -> StateLoaded:
        """Rows of a table of a lane, and how much its stream has."""
        rows = self.rows.get((lane.stream, whole_lane(lane.name)), {})
        found = {key: rows[StateKey(table, key)] for key in keys if StateKey(table, key) in rows}
        size = StateSize()
        for of, grown in self.sizes.items():
            size = size.plus(grown) if of.stream == lane.stream else size
        return StateLoaded(found, size)

    def sample(self, use_case: str, table: str) -> tuple[bytes, bytes] | None:
        """Key and row of one of a table, of whichever stream."""
        found = (
            (key.key, row)
            for (stream, _), rows in self.rows.items()
            for key, row in rows.items()
            if (stream.use_case, key.table) == (use_case, table)
        )
        return next(found, None)

    def save(self, states: Iterable[StateChanges]) -> None:
        """Change rows."""
        for state in states:
            rows = self.rows.setdefault((state.lane.stream, state.part), {})
            for key, row in state.rows.items():
                if row is None:
                    rows.pop(key, None)
                else:
                    rows[key] = row
            if state.rows:
                had = self.sizes.get(state.lane, StateSize())
                self.sizes[state.lane] = had.plus(state.grows)

    def sent(
        self,
        stream: StreamId,
        before: Mapping[str, Place],
        offsets: Mapping[str, Place],
        other: Collection[str],
        *,
        forget: bool,
    ) -> None:
        """Forget state that a seek leaves behind, or refuse the seek."""
        parts = self.parts(stream)
        self.forget(stream, forgotten(stream, parts, before, offsets, other, forget=forget))

    def forget(self, stream: StreamId, parts: Collection[str] | None = None) -> None:
        """Forget parts of a stream's state; None: all of it."""
        for part in self.parts(stream) if parts is None else parts:
            self.rows.pop((stream, part), None)
            for lane in [lane for lane in self.sizes if lane.stream == stream]:
                if whole_lane(lane.name) == part:
                    del self.sizes[lane]

    def parts(self, stream: StreamId) -> set[str]:
        """The lanes of its log that ever had state."""
        return {whole_lane(lane.name) for lane in self.sizes if lane.stream == stream}

    def forget_gone(self, stream: StreamId, gone: Iterable[str], left: Iterable[str]) -> None:
        """Forget the state of lanes that are no more, unless another is of the same part."""
        parts = set(map(whole_lane, gone)) - set(map(whole_lane, left))
        self.forget(stream, parts & self.parts(stream))


class MemoryKeptState:
    """``headrace.ports.KeptState`` in memory."""

    def __init__(self, kept: KeptState) -> None:
        self._kept = kept

    def sizes(self, tenant: str | None = None) -> dict[StreamId, StateSize]:
        """How much each stream has."""
        found: dict[StreamId, StateSize] = {}
        for lane, size in self._kept.sizes.items():
            if tenant in (None, lane.tenant):
                found[lane.stream] = found.get(lane.stream, StateSize()).plus(size)
        in_order = sorted(found, key=lambda stream: (stream.tenant, stream.use_case))
        return {stream: found[stream] for stream in in_order if found[stream].rows > 0}

    def tables(self, stream: StreamId) -> dict[str, StateSize]:
        """How much it has in each table."""
        found: dict[str, StateSize] = {}
        for (of, _), rows in self._kept.rows.items():
            for key, row in rows.items() if of == stream else ():
                size = found.get(key.table, StateSize())
                found[key.table] = size.plus(size_of(key, row))
        return dict(sorted(found.items()))

    def parts(self, stream: StreamId) -> set[str]:
        """The lanes of its log that ever had state."""
        return self._kept.parts(stream)

    def rows(
        self,
        stream: StreamId,
        table: str,
        keys: Sequence[bytes] | None = None,
        *,
        after: tuple[str, bytes] | None = None,
        most: int = 100,
    ) -> list[StateRow]:
        """Rows of a table, by part and key."""
        found = sorted(
            StateRow(part, key.key, row)
            for (of, part), rows in self._kept.rows.items()
            for key, row in rows.items()
            if (of, key.table) == (stream, table) and (keys is None or key.key in keys)
        )
        return [row for row in found if after is None or (row.part, row.key) > after][:most]
