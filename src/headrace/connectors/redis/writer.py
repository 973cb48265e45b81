"""Writing effects: each row a call of the script, many on their way at once over one connection.

What is newer is told by the server, key by key, so order does not matter. The first row goes alone:
a server that is away, lets nobody in or takes nothing is known by it. The script is brought along
each time, since servers forget theirs when they start.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from typing import Any, Final

from headrace.connectors import row_by_row
from headrace.connectors.changes import Change
from headrace.connectors.in_parts import sent
from headrace.connectors.redis.entries import SCRIPT, Entries
from headrace.connectors.redis.servers import Cache
from headrace.errors import HeadraceError
from headrace.model.patterns import TENANT
from headrace.ports import Effect, Written

#: what a server knows the script by
_KNOWN_BY: Final = hashlib.sha1(SCRIPT.encode(), usedforsecurity=False).hexdigest()
_LOAD: Final = ("SCRIPT LOAD", SCRIPT)


class RedisWriter:
    """Writes the effects of a bin."""

    def __init__(self, entries: Entries, cache: Cache, until_s: float = math.inf) -> None:
        """Take what rows are and where; others wait until a second of the steady clock."""
        self._entries = entries
        self._cache = cache
        self._until_s = until_s

    def write(self, effects: Sequence[Effect]) -> Sequence[Written]:
        """Write all rows that can be written; see ``SinkWriter.write``."""
        entries = self._entries
        return row_by_row.write(
            effects, self._changes, self._sent, entries.where, by_tenant=TENANT in entries.name
        )

    def close(self) -> None:
        """Nothing to give up: the client is kept for the next bin."""

    def _changes(self, effect: Effect) -> list[Change]:
        return self._entries.changes(effect.output, effect.version, effect.slices[0].lane.tenant)

    def _sent(self, changes: Sequence[Change], use_case: str) -> list[HeadraceError | None]:
        return sent(changes, use_case, self._asked, self._entries.where, self._until_s)

    def _asked(self, part: Sequence[Change]) -> list[HeadraceError | None]:
        commands = [_LOAD, *map(_command, part)]
        loaded, *answers = self._cache.each(commands, self._until_s)
        if isinstance(loaded, HeadraceError):
            raise loaded
        return [answer if isinstance(answer, HeadraceError) else None for answer in answers]


def _command(change: Change) -> tuple[Any, ...]:
    key, *arguments = change.values
    return ("EVALSHA", _KNOWN_BY, 1, key, *arguments)
