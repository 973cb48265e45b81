"""Writing effects: rows of one timestamp are one request, and many requests are on their way.

Order does not matter, since HBase tells what is newer by the timestamp, cell by cell. The first row
goes alone: who is away, or lets nobody write, is known by it.

An answer tells of a request as a whole, so one that is refused for the sake of a row is sent again
in halves, down to that row. Of a table that is gone, an answer does not say so; it is asked about.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from headrace.connectors import row_by_row
from headrace.connectors.changes import Change
from headrace.connectors.hbase.cells import Cells
from headrace.connectors.hbase.fitting import families
from headrace.connectors.hbase.library import library, translated
from headrace.connectors.hbase.servers import Cluster, Request
from headrace.connectors.in_parts import in_halves, sent
from headrace.connectors.row_by_row import Key
from headrace.errors import HeadraceError, SinkRefused, SinkUnavailable, TargetMissing
from headrace.ports import Effect, Written


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

    def _changes(self, effect: Effect) -> list[list[Change]]:
        return self._cells.changes(effect.output, effect.version, effect.slices[0].lane.tenant)

    def _sent(self, keys: Sequence[Key], use_case: str) -> list[HeadraceError | None]:
        return sent(keys, use_case, self._asked, self._cells.where, self._until_s)

    def _asked(self, part: Sequence[Key]) -> list[HeadraceError | None]:
        groups: dict[int, list[Key]] = {}
        for key in part:
            groups.setdefault(key.newest.newness, []).append(key)
        told: dict[int, HeadraceError | None] = {}
        for group, error in zip(groups.values(), self._done(groups.values()), strict=True):
            answers: Sequence[HeadraceError | None] = [error] * len(group)
            if isinstance(error, SinkRefused) and len(group) > 1:
                answers = in_halves(group, self._alone)
            told.update((id(key), answer) for key, answer in zip(group, answers, strict=True))
        return [told[id(key)] for key in part]

    def _alone(self, group: Sequence[Key]) -> Sequence[HeadraceError | None]:
        [error] = self._done([group])
        if isinstance(error, SinkRefused):
            raise error
        return [error] * len(group)

    def _done(self, groups: Any) -> list[HeadraceError | None]:
        """What became of rows of one timestamp each."""
        mutations = _mutations(self._cells)
        requests = [
            Request(
                self._table.encode(),
                [mutations(key.newest) for key in group],
                group[0].newest.newness,
            )
            for group in groups
        ]
        answers = self._cluster.done(requests, self._until_s)
        told = [
            error if error is None else translated(error, self._cells.where) for error in answers
        ]
        if any(isinstance(error, SinkUnavailable) for error in told):
            self._demand_table()
        return told

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
