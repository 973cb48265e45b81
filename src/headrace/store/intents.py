"""Waves written down before they run.

A sink without transactions can still do exactly-once if the same slices are run again after a
crash. So the wave is kept exactly as it was planned, and a replay reads it back equal. It is kept
as JSON of its slices: nobody asks for parts of it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from sqlalchemy import Connection, delete, insert, select, true

from headrace.model.records import Move
from headrace.model.streams import LaneId, Slice, StreamId
from headrace.model.waves import Bin, Wave
from headrace.store.pairs import matching
from headrace.store.positions import advance
from headrace.store.schema import intents, streams


def record(connection: Connection, wave: Wave, driver: str | None) -> bool:
    """Write the wave down; doing so again, as after a lost answer, changes nothing.

    A driver that slept wakes up with a plan for streams that another one has by now; it is told so
    under the locks of the streams, before anything of its plan can run.
    """
    if driver is not None and not _holds(connection, driver, wave):
        return False
    known = connection.scalar(select(intents.c.wave).where(intents.c.wave_id == wave.id))
    if known is None:
        connection.execute(
            insert(intents).values(wave_id=wave.id, wave=to_json(wave), driver=driver)
        )
        return True
    assert from_json(known) == wave, f"wave {wave.id} is written down with other slices"
    return True


def finish(
    connection: Connection, wave_id: str, moves: Sequence[Move], driver: str | None
) -> list[bool]:
    """Move positions, and forget the intent if all of them moved and it is this driver's."""
    moved = advance(connection, moves)
    if all(moved):
        ours = true() if driver is None else intents.c.driver == driver
        connection.execute(delete(intents).where(intents.c.wave_id == wave_id, ours))
    return moved


def _holds(connection: Connection, driver: str, wave: Wave) -> bool:
    """Whether it holds all streams of a wave, which stays so until the transaction ends."""
    wanted = {(piece.lane.stream, piece.epoch) for piece in wave.slices}
    held: set[tuple[StreamId, int]] = set()
    for some in matching(streams, {stream for stream, _ in wanted}):
        asked = select(streams.c.use_case, streams.c.tenant, streams.c.epoch).where(
            some, streams.c.holder == driver
        )
        rows = connection.execute(asked.order_by(streams.c.tenant).with_for_update())
        held |= {(StreamId(row.use_case, row.tenant), row.epoch) for row in rows}
    return wanted <= held


def pending(connection: Connection, driver: str | None) -> list[Wave]:
    """Waves written down and not finished, of one driver or of all, oldest first."""
    ours = true() if driver is None else intents.c.driver == driver
    waves = connection.scalars(select(intents.c.wave).where(ours).order_by(intents.c.id))
    return [from_json(wave) for wave in waves]


def to_json(wave: Wave) -> str:
    """The wave as one JSON object with the names of its fields."""
    return json.dumps(asdict(wave), separators=(",", ":"))


def from_json(text: str) -> Wave:
    """The wave that ``to_json`` wrote, equal to it."""
    kept = json.loads(text)
    kept["bins"] = tuple(_bin(each) for each in kept["bins"])
    return Wave(**kept)


def _bin(kept: dict[str, Any]) -> Bin:
    slices = (Slice(**{**each, "lane": LaneId(*each["lane"])}) for each in kept["slices"])
    # What an earlier version wrote down has no fence.
    return Bin(tuple(slices), kept["predicted_s"], kept.get("fence", ""))
