"""Positions in shards as leases, in tables that tools for the Kinesis Client Library know.

Headrace keeps positions in its own store. Whoever watches applications of that library looks at the
table in DynamoDB that each of them keeps. So each use case has one here, ``headrace.<use case>``,
with a row for each shard; it is made when there is something to show, and never believed.

Such a table is also what an application of the library goes on by: one that has a row of anybody
else, be it another installation of Headrace, is refused by name (`dynamodb/owned_tables.py`).

A row that already says what it has to is not written again: a shard in which nothing comes moves on
in time, and to the table that is nothing new. When to set which is decided in `cycle/mirror.py`;
which shards there are was told to the driver's log, so the service is not asked for it here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from headrace.connectors.dynamodb.owned_tables import Names, OwnedTables, TableGone
from headrace.connectors.dynamodb.servers import Service
from headrace.connectors.kinesis.lease_rows import (
    COUNTER,
    KEY,
    OWNER,
    Lease,
    columns_of,
    key_of,
    lease_at,
    lease_of,
    place_of,
)
from headrace.connectors.kinesis.shards import Listed, shard_of
from headrace.errors import ConfigError
from headrace.model.places import FIRST, UNKNOWN, Place

_NAMES: Final = Names(KEY, OWNER, COUNTER, "headraceForgetAt")
#: what does not move is written again after so long, so that it is not forgotten
_AGAIN_S: Final = 3_000.0


@dataclass(slots=True)
class _Shown:
    """What was done about the row of a shard."""

    #: where the shard was said to be last
    place: Place
    #: what the row says
    lease: Lease
    #: steady second at which it was written
    at_s: float


class LeaseMirror:
    """``headrace.ports.PositionsMirror`` on DynamoDB."""

    def __init__(
        self,
        service: Service,
        listed: Callable[[str], Listed | None],
        prefix: str = "headrace.",
        installation: str = "",
    ) -> None:
        """Contact nobody yet.

        Args:
            service: where the tables are.
            listed: a stream's shards as they were listed last; asks nobody.
            prefix: what the names of the tables begin with; the use case follows.
            installation: what tells rows of this store's drivers from those of others.
        """
        owner = f"headrace:{installation}" if installation else "headrace"
        self._tables = OwnedTables(service, owner, _NAMES)
        self._listed, self._prefix = listed, prefix
        #: by table and lane
        self._shown: dict[tuple[str, str], _Shown] = {}

    def __repr__(self) -> str:
        return f"LeaseMirror({self._tables.service.where})"

    def show(self, use_case: str, offsets: Mapping[str, Place]) -> None:
        """Set rows of the use case's table; a lane whose shard is not listed is passed over.

        Raises:
            HeadraceError: the first trouble, after which nothing more was tried.
        """
        table = f"{self._prefix}{use_case}"
        for lane, stream, number in self._there(offsets):
            place, before = offsets[lane], self._shown.get((table, lane))
            if place < FIRST:
                continue  # nobody knows it yet
            lease, now_s = lease_at(place, stream.shards[number]), time.monotonic()
            if before and before.lease == lease and now_s - before.at_s < _AGAIN_S:
                before.place = place
                continue
            self._write(table, stream, number, lease)
            self._shown[table, lane] = _Shown(place, lease, now_s)

    def look(self, use_case: str, lanes: Collection[str]) -> dict[str, Place]:
        """Rows of the use case's table, of lanes that have one.

        Raises:
            HeadraceError: the first trouble, after which nobody was asked.
        """
        table, found = f"{self._prefix}{use_case}", dict[str, Place]()
        keys = {lane: key_of(stream, number) for lane, stream, number in self._there(lanes)}
        try:
            rows = self._tables.read(table, keys.values())
        except TableGone:
            rows = {}
        except ConfigError:
            self._forget(table)
            raise
        for lane, key in keys.items():
            if key in rows:
                found[lane] = self._seen((table, lane), rows[key])
            else:
                self._shown.pop((table, lane), None)
        return found

    def close(self) -> None:
        """Give up connections."""
        self._tables.close()

    def _write(self, table: str, stream: Listed, number: int, lease: Lease) -> None:
        try:
            self._tables.demand(table)
            columns = columns_of(stream, number, lease)
            self._tables.write(table, key_of(stream, number), columns)
        except (TableGone, ConfigError):
            self._forget(table)
            raise

    def _forget(self, table: str) -> None:
        """It is not there any more, or not ours: all of it is to be shown anew."""
        for at in [at for at in self._shown if at[0] == table]:
            del self._shown[at]

    def _there(self, lanes: Collection[str]) -> Iterator[tuple[str, Listed, int]]:
        """Lanes whose shards are listed, each with its stream and its number."""
        for lane in lanes:
            shard = shard_of(lane)
            stream = None if shard is None else self._listed(shard.stream)
            if shard is not None and stream is not None and shard.number in stream.shards:
                yield lane, stream, shard.number

    def _seen(self, at: tuple[str, str], row: Mapping[str, Any]) -> Place:
        """Where others see a lane: where it was last said to be, if the row says just that."""
        try:
            lease = lease_of(row)
        except (KeyError, ValueError):
            lease = None
        shown = self._shown.get(at)
        if shown is not None and shown.lease == lease:
            return shown.place
        self._shown.pop(at, None)
        return UNKNOWN if lease is None else place_of(lease)
