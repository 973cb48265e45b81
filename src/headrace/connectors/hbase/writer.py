"""Writing effects: rows of one timestamp are one request, and many requests are on their way.

Order does not matter, since HBase tells what is newer by the timestamp, cell by cell. The first row
goes alone: who is away, or lets nobody write, is known by it.

An answer tells of a request as a whole, so one that is refused for the sake of a row is sent again
in halves, down to that row. Of a table that is gone, an answer does not say so; it is asked about.
Of a row that is too large for a frame there is no answer at all: the server hangs up on it each
time, while it answers everything else.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from headrace.connectors import row_by_row
from headrace.connectors.changes import Change
from headrace.connectors.hbase.cells import Cells
from headrace.connectors.hbase.fitting import families
from headrace.connectors.hbase.frames import bytes_of, cut
from headrace.connectors.hbase.library import HungUp, library, translated
from headrace.connectors.hbase.servers import Cluster, Request
from headrace.connectors.in_parts import sent
from headrace.errors import HeadraceError, SinkRefused, SinkUnavailable, TargetMissing
from headrace.ports import Effect, Written

#: a line that was kept may be closed already when it is used, which says nothing of the row
_TRIES: Final = 2


class _Row(NamedTuple):
    """A change, what the server is told of it, and the bytes of that."""

    change: Change
    told: Any
    bytes: int


class HBaseWriter:
    """Writes the effects of a bin."""

    def __init__(
        self, cells: Cells, cluster: Cluster, table: str, until_s: float = math.inf
    ) -> None:
        """Take what rows are and where; others wait until a second of the steady clock."""
        self._cells, self._cluster, self._table = cells, cluster, table
        self._until_s = until_s

    def write(self, effects: Sequence[Effect]) -> Sequence[Written]:
        """Write all rows that can be written; see ``SinkWriter.write``."""
        return row_by_row.write(effects, self._changes, self._sent, self._cells.where)

    def close(self) -> None:
        """Nothing to give up: lines are kept for the next bin."""

    def _changes(self, effect: Effect) -> list[Change]:
        return self._cells.changes(effect.output, effect.version, effect.slices[0].lane.tenant)

    def _sent(self, changes: Sequence[Change], use_case: str) -> list[HeadraceError | None]:
        return sent(changes, use_case, self._asked, self._cells.where, self._until_s)

    def _asked(self, part: Sequence[Change]) -> list[HeadraceError | None]:
        told: dict[int, HeadraceError | None] = {}
        left = self._groups(part)
        while left:
            halves: list[list[_Row]] = []
            for group, error in zip(left, self._done(left), strict=True):
                if isinstance(error, SinkRefused) and len(group) > 1:
                    half = len(group) // 2
                    halves += [group[:half], group[half:]]
                else:
                    told.update((id(row.change), error) for row in group)
            left = halves
        return [told[id(change)] for change in part]

    def _groups(self, part: Sequence[Change]) -> list[list[_Row]]:
        """Rows of one timestamp each, as many as go into one request."""
        by_timestamp = defaultdict[int, list[_Row]](list)
        mutations = _mutations(self._cells)
        for change in part:
            told = mutations(change)
            by_timestamp[change.newness].append(_Row(change, told, bytes_of(told)))
        most = self._cluster.most_bytes
        return [group for rows in by_timestamp.values() for group in cut(rows, most)]

    def _done(self, groups: Sequence[list[_Row]]) -> list[HeadraceError | None]:
        """What became of each group."""
        most = self._cluster.most_bytes
        usual = [self._request(group) for group in groups if group[0].bytes <= most]
        answers = iter(self._cluster.done(usual, self._until_s))
        found = [
            next(answers) if group[0].bytes <= most else self._alone(group) for group in groups
        ]
        told = [error if error is None else translated(error, self._cells.where) for error in found]
        if any(isinstance(error, SinkUnavailable) for error in told):
            self._demand_table()
        return told

    def _alone(self, group: list[_Row]) -> Exception | None:
        """What became of a row that may be too large for a frame."""
        for _ in range(_TRIES):
            try:
                [answer] = self._cluster.done([self._request(group)], self._until_s)
            except HungUp:
                # Who is away does not answer this either.
                self._demand_table()
            else:
                return answer
        return SinkRefused(
            f"{self._cells.where}: the row has {group[0].bytes} bytes, and the Thrift server hangs "
            "up on it: it is larger than its frame "
            "(hbase.regionserver.thrift.framed.max_frame_size_in_mb)"
        )

    def _request(self, group: list[_Row]) -> Request:
        rows = [row.told for row in group]
        return Request(self._table.encode(), rows, group[0].change.newness)

    def _demand_table(self) -> None:
        found = families(self._cluster, self._table, self._until_s)
        if found is None:
            raise TargetMissing(f"{self._cells.where}: there is no such table")
        if self._cells.family not in found:
            raise TargetMissing(f"{self._cells.where}: the table has no such column family")


def _mutations(cells: Cells) -> Callable[[Change], Any]:
    """What makes of a change what the server is told of its row."""
    lib, family = library().hbase, cells.family.encode()
    columns = [b"%b:%b" % (family, name.encode()) for name in cells.names]

    def told(change: Change) -> Any:
        key, *values = change.values
        if change.gone:
            return lib.BatchMutation(key, [lib.Mutation(isDelete=True, column=family)])
        found = [
            lib.Mutation(isDelete=value is None, column=column, value=value)
            for column, value in zip(columns, values, strict=True)
        ]
        return lib.BatchMutation(key, found)

    return told
