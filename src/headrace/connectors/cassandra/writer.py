"""Writing effects: each row a statement of its own, so many at once, in any order.

Order does not matter, since each has its timestamp. A cluster judges row by row; what becomes of
rows that it does not take is told in ``row_by_row.py``.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from typing import Any, Final

from headrace.connectors import row_by_row
from headrace.connectors.cassandra.library import is_silence, library, translated
from headrace.connectors.cassandra.rows import Rows
from headrace.connectors.cassandra.servers import Cluster
from headrace.connectors.changes import Change
from headrace.connectors.row_by_row import GivenUp
from headrace.errors import HeadraceError
from headrace.ports import Effect, Written
from headrace.process.crash_points import reached

#: statements that are on their way at once, of one writer
AT_ONCE: Final = 64


class CassandraWriter:
    """Writes the effects of a bin."""

    def __init__(self, rows: Rows, cluster: Cluster, until_s: float = math.inf) -> None:
        """Take a table and where it is; others wait until a second of the steady clock."""
        self._rows = rows
        self._cluster = cluster
        self._until_s = until_s

    def write(self, effects: Sequence[Effect]) -> Sequence[Written]:
        """Write all rows that can be written; see ``SinkWriter.write``."""
        return row_by_row.write(effects, self._changes, self._sent, self._rows.where)

    def close(self) -> None:
        """Nothing to give up: the client is kept for the next bin."""

    def _changes(self, effect: Effect) -> list[Change]:
        return self._rows.changes(effect.output, effect.version)

    def _sent(self, changes: Sequence[Change], use_case: str) -> list[HeadraceError | None]:
        """What became of each change."""
        given_up, told = GivenUp(self._rows.where), list[HeadraceError | None]()
        session = self._cluster.session()
        haste, until_s = self._haste(session)
        offered = self._offered(changes, given_up, use_case, until_s)
        try:
            for taken, result in library().concurrent.execute_concurrent(
                session,
                offered,
                AT_ONCE,
                raise_on_first_error=False,
                results_generator=True,
                **haste,
            ):
                error = None if taken else translated(result, self._rows.where)
                told.append(error)
                if error is not None:
                    given_up.look_at(error)
                    if is_silence(result):
                        # Those that are on their way would be waited for as long again.
                        break
        finally:
            given_up.stop()
        return told + [given_up.why] * (len(changes) - len(told))

    def _haste(self, session: Any) -> tuple[dict[str, Any], float]:
        """What the client is told where others wait, and until when rows are offered."""
        if self._until_s == math.inf:
            return {}, math.inf
        now_s = time.monotonic()
        # The last row that is offered has the other half.
        half_s = max(0.0, self._until_s - now_s) / 2
        profile = session.execution_profile_clone_update(
            library().cluster.EXEC_PROFILE_DEFAULT, request_timeout=half_s
        )
        return {"execution_profile": profile}, now_s + half_s

    def _offered(
        self, changes: Sequence[Change], given_up: GivenUp, use_case: str, until_s: float
    ) -> Iterator[tuple[Any, tuple[Any, ...]]]:
        """The statements, each when there is room for it; prepared before the first is taken."""
        says = self._rows.description
        put, delete = self._cluster.prepared(says.put), None
        if says.delete_by is not None:
            delete = self._cluster.prepared(says.delete)

        def each() -> Iterator[tuple[Any, tuple[Any, ...]]]:
            for number, change in enumerate(changes):
                if given_up or time.monotonic() > until_s:
                    return
                if number == min(1, len(changes) - 1):
                    # One is on its way: some there and some not is the worst that may be left.
                    reached("mid-write", use_case)
                yield (delete if change.gone else put), change.values

        return each()
