"""What one looked for and was of no use, and when it is looked for again.

All of it is about one id or one subject: whoever asks for another one does not wait for it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

from headrace.connectors.schema_registry.config import URL
from headrace.errors import RegistryUnavailable, SchemaUnknown

Key = TypeVar("Key")

#: for so long an id may yet become known
_PATIENCE_S = 60.0
#: between two questions for what is not known: doubled each time
_LEAST_WAIT_S, _MOST_WAIT_S = 1.0, 15.0
#: an id that is unknown is asked for anew after this
_UNKNOWN_S = 10.0
#: of what is not known, the last so many are remembered
_MOST = 10_000


class _Miss(NamedTuple):
    #: when the registry first said that it is not there; None: it never did
    first_s: float | None
    #: how long was waited before the last time, and when it is looked for again
    wait_s: float
    next_s: float
    told: str
    #: it is waited for no more
    unknown: bool


class Missed(Generic[Key]):
    """What was of no use when it was looked for."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._misses: OrderedDict[Key, _Miss] = OrderedDict()

    def refuse(self, key: Key) -> None:
        """Nothing, where it may be looked for.

        Raises:
            RegistryUnavailable: it was of no use a moment ago.
            SchemaUnknown: it is waited for no more.
        """
        miss = self._misses.get(key)
        if miss is not None and self._clock() < miss.next_s:
            raise self._verdict(miss)

    def forget(self, key: Key) -> None:
        """It was found."""
        self._misses.pop(key, None)

    def unanswered(self, key: Key, told: str) -> RegistryUnavailable | SchemaUnknown:
        """What is said of what the registry did not give out, though it answers: never unknown."""
        first_s, wait_s = self._before(key)
        return self._remember(key, _Miss(first_s, wait_s, self._clock() + wait_s, told, False))

    def missing(self, key: Key, told: str) -> RegistryUnavailable | SchemaUnknown:
        """What is said of what the registry did not know just now."""
        now_s = self._clock()
        first_s, wait_s = self._before(key)
        first_s = now_s if first_s is None else first_s
        left_s = first_s + _PATIENCE_S - now_s
        if left_s > 0:
            told += f"; it is asked for again, for {_PATIENCE_S:g} s"
            next_s = now_s + min(wait_s, left_s)
            return self._remember(key, _Miss(first_s, wait_s, next_s, told, False))
        told += (
            f"; it was asked for during {_PATIENCE_S:g} s. See that {URL} names the registry of "
            "whoever wrote the record, and that its bytes are framed as the format says"
        )
        return self._remember(key, _Miss(first_s, wait_s, now_s + _UNKNOWN_S, told, True))

    def unusable(self, key: Key, told: str) -> RegistryUnavailable | SchemaUnknown:
        """What is said of what is there, and is none that can be used."""
        now_s = self._clock()
        return self._remember(key, _Miss(now_s, _MOST_WAIT_S, now_s + _UNKNOWN_S, told, True))

    def _before(self, key: Key) -> tuple[float | None, float]:
        """When it was first not there, and how long is waited now."""
        before = self._misses.get(key)
        if before is None:
            return None, _LEAST_WAIT_S
        return before.first_s, min(before.wait_s * 2, _MOST_WAIT_S)

    def _remember(self, key: Key, miss: _Miss) -> RegistryUnavailable | SchemaUnknown:
        self._misses.pop(key, None)
        self._misses[key] = miss
        if len(self._misses) > _MOST:
            self._misses.popitem(last=False)
        return self._verdict(miss)

    def _verdict(self, miss: _Miss) -> RegistryUnavailable | SchemaUnknown:
        if miss.unknown:
            return SchemaUnknown(miss.told)
        left_s = max(miss.next_s - self._clock(), 0.0)
        return RegistryUnavailable(miss.told, retry_after_s=left_s)
