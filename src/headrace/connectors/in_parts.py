"""Sending rows a part at a time: one, then as many as may be on their way at once.

All of a part has to be answered in the time that an answer has. So where a target is slow, a part
is no more than takes half of that, by what the part before took.

Whoever is away, lets nobody in or takes nothing is known by the one, and asked no more in that
call. Where each tenant has a part of the target, such as an index, one that is closed or gone is
given up alone: rows of others go on.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final

from headrace.connectors.changes import Change
from headrace.connectors.row_by_row import GivenUp
from headrace.errors import HeadraceError, SinkRefused, TargetMissing, Temporary
from headrace.process.crash_points import reached

#: rows that are on their way at once, and their bytes, of one writer; a row can be more
AT_ONCE: Final = 1000
#: and where others wait, who hear that it takes long only when all of these are answered
_IN_COMPANY: Final = 100
_BYTES_AT_ONCE: Final = 4 * 2**20
#: what a part is to take at most; where it is alone it may take twice that
_PART_S: Final = 5.0

#: what became of each row of a part, or raises what became of all of it
Ask = Callable[[Sequence[Change]], Sequence[HeadraceError | None]]


def sent(
    changes: Sequence[Change], use_case: str, ask: Ask, where: str, until_s: float = math.inf
) -> list[HeadraceError | None]:
    """What became of each change; others wait until a second of the clock."""
    # The last rows that are offered have the other half.
    offered_s = (time.monotonic() + until_s) / 2
    given_up = defaultdict[str, GivenUp](partial(GivenUp, where))
    told: dict[int, HeadraceError | None] = {}
    left = (change for change in changes if not given_up[change.whose])
    at_once, room = AT_ONCE if until_s == math.inf else _IN_COMPANY, 1
    while (part := _part(left, room)) and (asked_s := time.monotonic()) <= offered_s:
        try:
            answers = ask(part)
        except (Temporary, TargetMissing) as error:
            return [told.get(id(change), error) for change in changes]
        for change, refused in zip(part, answers, strict=True):
            told[id(change)] = refused
            if refused is not None:
                given_up[change.whose].look_at(refused)
        took_s = max(time.monotonic() - asked_s, 1e-6)
        room = max(1, min(at_once, int(_PART_S * len(part) / took_s)))
        if len(told) == 1:
            # One is there: some there and some not is the worst that may be left.
            reached("mid-write", use_case)
    return [told.get(id(change), given_up[change.whose].why) for change in changes]


def in_halves(part: Sequence[Change], ask: Ask) -> list[HeadraceError | None]:
    """What became of each row of a part that may be refused as a whole, for the sake of one row.

    Then each half of it is asked for, down to that row.
    """
    try:
        return list(ask(part))
    except SinkRefused as error:
        if len(part) == 1:
            return [error]
    half = len(part) // 2
    return [*in_halves(part[:half], ask), *in_halves(part[half:], ask)]


def _part(changes: Iterator[Change], room: int) -> list[Change]:
    """The next rows, so many at most; none where there are no more."""
    part: list[Change] = []
    size = 0
    for change in changes:
        part.append(change)
        size += sum(len(value) for value in change.values if isinstance(value, (str, bytes)))
        if len(part) == room or size >= _BYTES_AT_ONCE:
            break
    return part
