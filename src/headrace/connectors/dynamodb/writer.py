"""Writing effects: each row a put on the condition that nothing newer is there.

The service judges each put by itself. One that finds what is newer is done. One that is too much
for now is offered again after a wait that grows and that chance shortens, while others of its
tenant wait with it and other tenants go on; what is not taken when the patience is over is named,
and comes again with a later wave. What else a tenant's rows meet that concerns all of them gives
that tenant up in this call, and nobody else. Only where nobody answers, all are given up.

A put waits for its answer, so a few threads put at a time, and of one key never two. The first row
goes alone: who is away is known by it.
"""

from __future__ import annotations

import math
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from headrace.connectors import row_by_row
from headrace.connectors.changes import Change
from headrace.connectors.dynamodb.items import NEWEST, ROW_KEY, TENANT_KEY, Items
from headrace.connectors.dynamodb.library import is_answered, is_done, is_throttled, translated
from headrace.connectors.dynamodb.servers import Service
from headrace.errors import HeadraceError, SinkRefused, SinkUnavailable
from headrace.policies.retry import Backoff
from headrace.ports import Effect, Written
from headrace.process.crash_points import reached

#: threads that help, of all writers of a process: a worker's memory may be limited
HELPERS: Final = 3
#: with fewer rows nobody is asked to help
_FEW: Final = 8
#: how long what is too much is offered again: alone, and where others wait
ALONE_S, IN_COMPANY_S = 5.0, 0.5
_PAUSES: Final = Backoff(first_s=0.05, most_s=1.0)
_room = threading.BoundedSemaphore(HELPERS)

#: what is to be put into one item, one after the other
Unit = Sequence[Change]


class DynamoWriter:
    """Writes the effects of a bin."""

    def __init__(
        self,
        items: Items,
        service: Service,
        table: str,
        patience_s: float = ALONE_S,
        until_s: float = math.inf,
    ) -> None:
        """Take what items are and where; others wait until a second of the steady clock."""
        self._items, self._service, self._table = items, service, table
        self._patience_s, self._until_s = patience_s, until_s

    def write(self, effects: Sequence[Effect]) -> Sequence[Written]:
        """Write all rows that can be written; see ``SinkWriter.write``."""
        return row_by_row.write(
            effects, self._changes, self._sent, self._items.where, by_tenant=True
        )

    def close(self) -> None:
        """Nothing to give up: the client is kept for the next bin."""

    def _changes(self, effect: Effect) -> list[Change]:
        return self._items.changes(effect.output, effect.version, effect.slices[0].lane.tenant)

    def _sent(self, changes: Sequence[Change], use_case: str) -> list[HeadraceError | None]:
        """What became of each change."""
        # The last row that is offered has the other half.
        call = _Call(self._put, self._items.where, (time.monotonic() + self._until_s) / 2)
        left = _units(changes)
        call.go_on(deque([left.popleft()]))
        # One is there: some there and some not is the worst that may be left.
        reached("mid-write", use_case)
        call.round(left)
        tries, waited_s = 0, 0.0
        while call.later:
            pause_s = _PAUSES.wait_s(tries, random.random())  # noqa: S311 - it spreads what waits
            waited_s += pause_s
            if waited_s > self._patience_s or time.monotonic() + pause_s > call.offered_s:
                break
            time.sleep(pause_s)
            tries = 0 if call.again() else tries + 1
        return [call.became_of(change) for change in changes]

    def _put(self, change: Change) -> Exception | None:
        """What putting a row met; done at once where something newer is there."""
        if problem := self._items.size_problem(change):
            return problem
        (item,) = change.values
        request = {
            "TableName": self._table,
            "Item": item,
            "ConditionExpression": "attribute_not_exists(#newest) OR #newest <= :newest",
            "ExpressionAttributeNames": {"#newest": NEWEST},
            "ExpressionAttributeValues": {":newest": item[NEWEST]},
        }
        try:
            self._service.asked("put_item", request, self._until_s)
        except Exception as error:
            return None if is_done(error) else error
        return None


@dataclass(slots=True)
class _Call:
    """What became of the rows of one call so far; several threads go on with it."""

    put: Callable[[Change], Exception | None]
    where: str
    #: second of the steady clock after which no row is offered
    offered_s: float
    told: dict[int, HeadraceError | None] = field(default_factory=dict)
    #: by tenant, why none of its rows are offered any more
    given_up: dict[str, HeadraceError] = field(default_factory=dict)
    #: by tenant, why those of its rows wait that come later
    slowed: dict[str, HeadraceError] = field(default_factory=dict)
    later: deque[Unit] = field(default_factory=deque)
    #: why nobody is asked any more
    away: HeadraceError | None = None

    def round(self, left: deque[Unit]) -> None:
        """Offer all of these once, in several threads."""
        helpers = _helpers(lambda: self.go_on(left)) if len(left) > _FEW else []
        try:
            self.go_on(left)
        except BaseException:
            self.offered_s = -math.inf
            raise
        for thread in helpers:
            thread.join()

    def again(self) -> bool:
        """Offer once more what came too soon; whether any of it was taken."""
        left, done = self.later, len(self.told)
        self.later, self.slowed = deque(), {}
        self.round(left)
        return len(self.told) > done

    def go_on(self, left: deque[Unit]) -> None:
        """Offer what is left, until nothing is, or the time is over."""
        while self.away is None and time.monotonic() <= self.offered_s:
            try:
                unit = left.popleft()
            except IndexError:
                return
            self._offer(unit)

    def became_of(self, change: Change) -> HeadraceError | None:
        """What became of a row; one that was not offered is never told as written."""
        if id(change) in self.told:
            return self.told[id(change)]
        whose = change.whose
        why = self.given_up.get(whose) or self.away or self.slowed.get(whose)
        return why or SinkUnavailable(f"{self.where}: it was not offered")

    def _offer(self, unit: Unit) -> None:
        for place, change in enumerate(unit):
            if change.whose in self.given_up:
                return
            if change.whose in self.slowed or self._is_slowed(change):
                self.later.append(unit[place:])
                return

    def _is_slowed(self, change: Change) -> bool:
        """Put a row; whether it was too much for now."""
        error = self.put(change)
        if error is not None and is_throttled(error):
            self.slowed[change.whose] = translated(error, self.where)
            return True
        self._note(change, error)
        return False

    def _note(self, change: Change, error: Exception | None) -> None:
        told = None if error is None else translated(error, self.where)
        self.told[id(change)] = told
        if error is None or told is None or isinstance(told, SinkRefused):
            return
        self.given_up[change.whose] = told
        if not is_answered(error):
            self.away = told


def _units(changes: Sequence[Change]) -> deque[Unit]:
    """Rows by their items, so that of no item two are on their way."""
    found: dict[tuple[str, str], list[Change]] = {}
    for change in changes:
        (item,) = change.values
        found.setdefault((item[TENANT_KEY]["S"], item[ROW_KEY]["S"]), []).append(change)
    return deque(found.values())


def _helpers(work: Callable[[], None]) -> list[threading.Thread]:
    """Threads that do the same; fewer, or none, where others have them or memory is short."""
    started: list[threading.Thread] = []
    while len(started) < HELPERS and _room.acquire(blocking=False):
        thread = threading.Thread(target=_help, args=(work,), name="dynamodb-put", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            _room.release()
            break
        started.append(thread)
    return started


def _help(work: Callable[[], None]) -> None:
    try:
        work()
    finally:
        _room.release()
