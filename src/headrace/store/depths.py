"""How deep lanes are: what comes above in the versions of their records.

A stream's row has the depth of lanes that follow nothing, each position's row that of its lane.
What follows others is deeper than all of them, but for another division of a lane whose records
have numbers: those compare, whoever reads them. When something of a stream is sent back, all of its
lanes go above everything that any of them had: what is read again has to be newer than what its
descendants had before, too. Where a topic is forgotten, what comes is deeper than that was. So the
depths stay in order among each other, and none comes again; nor does one of an earlier life of the
stream, since its row outlives that. With another depth records are counted from 0 again.

A rerun has the depths of the lanes that it reads, as they were when it began, wherever it is sent:
it makes again what was, and replaces nothing that came later.

What versions are is in ``model/record_versions.py``. Callers hold the lock of the stream's row.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from sqlalchemy import Connection, case, func, select, update

from headrace.model.lineage import Lineage, depths
from headrace.model.streams import StreamId, original
from headrace.store.pairs import matching, of
from headrace.store.schema import positions, streams


class Depths(NamedTuple):
    """How deep a stream is."""

    #: of lanes that follow nothing
    base: int
    #: of those that it has
    lanes: Mapping[str, int]
    #: whether those that come are deeper than what they follow
    deeper: bool = True


def depths_of(connection: Connection, stream: StreamId, base: int) -> Depths:
    """How deep a stream is; ``base`` is in its row."""
    asked = select(positions.c.lane, positions.c.depth).where(of(positions, stream))
    return Depths(base, {row.lane: row.depth for row in connection.execute(asked)})


def deepen(connection: Connection, stream: StreamId, base: int) -> Depths:
    """Let all lanes of a stream, and those that will come, be deeper than any of it ever was.

    Those of a rerun stay as they are: what it reads again is never newer than what was read since.
    """
    known = depths_of(connection, stream, base)
    if original(stream.use_case) != stream.use_case:
        return known
    more = max([base, *known.lanes.values()]) - base + 1
    for table, anew in ((positions, {"ordinal": 0}), (streams, {})):
        deeper = {"depth": table.c.depth + more, **anew}
        connection.execute(update(table).where(of(table, stream)).values(deeper))
    return Depths(base + more, {name: depth + more for name, depth in known.lanes.items()})


def leave_behind(
    connection: Connection, stream: StreamId, base: int, names: Collection[str]
) -> None:
    """Let lanes that will come be deeper than these, which are about to be forgotten.

    The others stay as they are: none of them follows these, or is followed by what comes.
    """
    lanes = depths_of(connection, stream, base).lanes
    deeper = max((lanes[name] + 1 for name in names if name in lanes), default=base)
    if deeper > base and original(stream.use_case) == stream.use_case:
        connection.execute(update(streams).where(of(streams, stream)).values(depth=deeper))


def deepen_all(connection: Connection, wanted: Collection[StreamId]) -> None:
    """Let streams that begin anew be deeper than any of their lanes was, forgotten ones too."""
    deepest = select(func.max(positions.c.depth)).where(
        positions.c.use_case == streams.c.use_case, positions.c.tenant == streams.c.tenant
    )
    lanes = func.coalesce(deepest.scalar_subquery(), streams.c.depth)
    deeper = {"depth": case((lanes > streams.c.depth, lanes), else_=streams.c.depth) + 1}
    for some in matching(streams, wanted):
        connection.execute(update(streams).where(some).values(deeper))


def of_new(
    connection: Connection, stream: StreamId, names: Iterable[str], lineage: Lineage, known: Depths
) -> dict[str, int]:
    """How deep new lanes of a stream are; those of a rerun are as deep as what it reads."""
    found = depths(names, lineage, known.lanes, known.base, deeper=known.deeper)
    live = original(stream.use_case)
    if live != stream.use_case:
        found |= depths_of(connection, stream._replace(use_case=live), 0).lanes
    return found


def anew(connection: Connection, stream: StreamId, lineage: Lineage) -> None:
    """Find the depths of all lanes of a stream again, after it was said what they follow.

    Those of a rerun stay in the order of the lanes that it reads.
    """
    if original(stream.use_case) != stream.use_case:
        return
    base = connection.scalar(select(streams.c.depth).where(of(streams, stream))) or 0
    lanes = depths_of(connection, stream, base).lanes
    for name, depth in depths(lanes, lineage, {}, base).items():
        if lanes[name] != depth:
            lane = of(positions, stream) & (positions.c.lane == name)
            connection.execute(update(positions).where(lane).values(depth=depth))
