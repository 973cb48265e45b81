"""When an activity happened, where Kafka does not know.

A delay is counted from a record's Kafka timestamp. Where activities come in late, by a shipper that
was offline or a queue in front, that is when Headrace could first have seen one, and not when
somebody did something. So a use case may say where in its records that moment is::

    @use_case(topic="{tenant}.visits", sink=..., event_time=json_time("/at"))

It is asked for the few records of a portion that delays are sampled from, not for each. A record
that does not tell counts from its Kafka timestamp. Nothing else changes: order, positions and lag
in seconds stay Kafka's, and nothing waits for records that are late, as windows would.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from headrace.errors import ConfigError
from headrace.model.years import FIRST_S, LAST_S
from headrace.payload.json_pointers import pointed

#: of each record of a table, in its order: seconds since 1970, or None where it does not tell
EventTime = Callable[[pa.Table], Sequence[float | None]]
#: a larger number counts milliseconds: as seconds it would be after the year 5000
_MOST_S = 1e11


def json_time(pointer: str) -> EventTime:
    """The event time of records whose value is JSON.

    Args:
        pointer: where it is, as a JSON pointer (RFC 6901), such as ``/at``. There is text by ISO
            8601 (UTC if it names no zone), or a number of seconds or milliseconds since 1970.

    Raises:
        ConfigError: this is no JSON pointer.
    """
    if not pointer.startswith("/"):
        raise ConfigError(f"event time {pointer!r} is no JSON pointer; write it like '/at'")
    return _JsonTime(pointer)


@dataclass(frozen=True, slots=True)
class _JsonTime:
    pointer: str

    def __call__(self, records: pa.Table) -> list[float | None]:
        return [self._told(value) for value in records["value"].to_pylist()]

    def _told(self, value: bytes | None) -> float | None:
        if value is None:
            return None
        try:
            return _seconds_of(pointed(json.loads(value), self.pointer))
        # Records may hold anything; one that does not tell its time is no error.
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
            return None


def _seconds_of(told: Any) -> float | None:
    if isinstance(told, str):
        moment = datetime.fromisoformat(told)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    if isinstance(told, bool):
        return None
    number = float(told)
    seconds = number / 1000 if abs(number) > _MOST_S else number
    return seconds if FIRST_S <= seconds < LAST_S + 1 else None  # nor is JSON's NaN a time
