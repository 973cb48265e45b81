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
from headrace.model.streams import LaneId, Slice
from headrace.model.waves import Bin, Wave
from headrace.store.positions import advance
from headrace.store.schema import intents


def record(connection: Connection, wave: Wave, driver: str | None) -> None:
    """Write the wave down; doing so again, as after a lost answer, changes nothing."""
    known = connection.scalar(select(intents.c.wave).where(intents.c.wave_id == wave.id))
    if known is None:
        connection.execute(
            insert(intents).values(wave_id=wave.id, wave=to_json(wave), driver=driver)
        )
        return
    assert from_json(known) == wave, f"wave {wave.id} is written down with other slices"


def finish(connection: Connection, wave_id: str, moves: Sequence[Move]) -> list[bool]:
    """Move positions and forget the intent, if there is one."""
    connection.execute(delete(intents).where(intents.c.wave_id == wave_id))
    return advance(connection, moves)


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
    return Bin(tuple(slices), kept["predicted_s"])
