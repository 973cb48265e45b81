"""What a dead letter says of itself, in headers that other tools know too.

A record that could not be handled is kept as it came, so everything about its failure has to be in
headers. Their names are those of Kafka Connect's dead letter queues, so that what shows, searches
and sends back such topics works here as well; ``headrace.*`` is what Connect has no word for.

They are one block behind the record's own headers, so taking it away gives back the record exactly,
even one that was a dead letter of somebody else before. This module talks to nobody.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from headrace.model.buckets import whole_lane
from headrace.model.lane_names import taken_apart
from headrace.model.streams import original
from headrace.ports import DeadLetter

Header = tuple[str, bytes | None]

#: opens the block of a letter's own headers
_FIRST = "__connect.errors.topic"
_USE_CASE = "__connect.errors.connector.name"
_OFFSET = "__connect.errors.offset"
#: milliseconds since 1970; a topic may stamp its messages by itself
_TIMESTAMP = "headrace.timestamp"
#: of the slice that it was in; below the tenant's generation, it is an earlier tenant's
_EPOCH = "headrace.epoch"
#: Connect's name for the step in which records are handed to somebody's code
_STAGE = "TASK_PUT"
_CLASS = "headrace.use_cases.UseCase"

#: the most that message and traceback may have, whatever there is room for
MESSAGE_BYTES = 8 * 1024
TRACEBACK_BYTES = 32 * 1024
#: what all headers of a letter need at most, beside the record's own
BLOCK_BYTES = 64 * 1024
#: what a batch of one record needs beside key, value and headers
_FRAME_BYTES = 128
#: what a header needs beside its name and value
_HEADER_FRAME_BYTES = 10
_CUT = "[...]"


class LetterHeaders(NamedTuple):
    """What the headers of a letter say, and the headers the record came with."""

    use_case: str
    #: offset of the record in its own topic; None when it cannot be read
    offset: int | None
    #: when the record was written, in milliseconds since 1970; None when it does not say
    timestamp_ms: int | None
    #: of the slice that the record was in; 0 when it does not say, as letters of old do
    epoch: int
    headers: tuple[Header, ...]


def headers_of(letter: DeadLetter, limit_bytes: int) -> list[Header]:
    """The record's headers and the letter's own, cut so that the message stays under a limit.

    Only the traceback, which keeps its end, and then the message, which keeps its beginning, are
    cut. When the record alone is too large they are left out, and the broker has to judge.
    """
    error = letter.error
    name = letter.slice.lane
    found: list[Header] = [
        *error.raw_headers,
        (_FIRST, letter.slice.lane_topic.encode()),
        _lane(name.name),
        (_OFFSET, str(error.offset).encode()),
        (_USE_CASE, original(name.use_case).encode()),
        ("__connect.errors.stage", _STAGE.encode()),
        ("__connect.errors.class.name", _CLASS.encode()),
        ("__connect.errors.exception.class.name", f"headrace.errors.{error.code}".encode()),
        ("headrace.attempts", b"%d" % letter.attempts),
        ("headrace.tenant", name.tenant.encode()),
        (_EPOCH, b"%d" % letter.slice.epoch),
    ]
    if error.timestamp_ms is not None:
        found.append((_TIMESTAMP, b"%d" % error.timestamp_ms))
    message_name = "__connect.errors.exception.message"
    trace_name = "__connect.errors.exception.stacktrace"
    names_bytes = len(message_name) + len(trace_name) + 2 * _HEADER_FRAME_BYTES
    room = limit_bytes - names_bytes - _size(error.raw_key, error.raw_value, found)
    message = _beginning(_bytes(error.message), min(room, MESSAGE_BYTES))
    trace = _end(_bytes(error.traceback), min(room - len(message), TRACEBACK_BYTES))
    texts = ((message_name, message), (trace_name, trace))
    return found + [(name, text) for name, text in texts if text]


def _lane(name: str) -> Header:
    """The number of a lane, as Connect tells it; of one that has none its name."""
    found = taken_apart(whole_lane(name))
    if found is None:
        return "headrace.lane", name.encode()
    return "__connect.errors.partition", b"%d" % found.number


def kept_in(headers: Sequence[Header]) -> LetterHeaders | None:
    """Read a letter's headers; None when it is no dead letter."""
    opening = [index for index, (name, _) in enumerate(headers) if name == _FIRST]
    if not opening:
        return None
    block = dict(headers[opening[-1] :])
    use_case = (block.get(_USE_CASE) or b"").decode(errors="replace")
    offset, stamp_ms = number(block.get(_OFFSET)), number(block.get(_TIMESTAMP))
    epoch = number(block.get(_EPOCH)) or 0
    return LetterHeaders(use_case, offset, stamp_ms, epoch, tuple(headers[: opening[-1]]))


def number(text: bytes | None) -> int | None:
    """The whole number a header holds; None when it holds none."""
    try:
        return int(text or b"")
    except ValueError:
        return None


def _size(key: bytes | None, value: bytes | None, headers: Sequence[Header]) -> int:
    inside = sum(len(name.encode()) + len(text or b"") for name, text in headers)
    framed = _FRAME_BYTES + _HEADER_FRAME_BYTES * len(headers)
    return framed + len(key or b"") + len(value or b"") + inside


def _bytes(text: str) -> bytes:
    return text.encode(errors="backslashreplace")


def _beginning(text: bytes, room: int) -> bytes:
    if len(text) <= room:
        return text
    cut = text[: max(0, room - len(_CUT))].decode(errors="ignore")
    return (cut + _CUT).encode() if cut else b""


def _end(text: bytes, room: int) -> bytes:
    if len(text) <= room:
        return text
    start = len(text) - max(0, room - len(_CUT))
    cut = text[start:].decode(errors="ignore")
    return (_CUT + cut).encode() if cut else b""
