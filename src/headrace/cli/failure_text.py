"""A failure as a person can read it on a terminal.

The record that stopped a lane came from outside, and it is shown to whoever has to decide about
it. It may be megabytes, or no text at all, or hold the characters that make a terminal do things.
So text is shown as text and bytes as hex, shortened unless asked otherwise, and control characters
are shown by their codes.

What may be done about a failure is in ``quarantine.py``.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from headrace.cycle.restarts import PASSED_OVER
from headrace.model.lane_names import spoken
from headrace.model.receipts import SliceError
from headrace.model.records import Failure

#: characters of a value that are shown unless all are asked for
MOST_CHARACTERS = 1000
_ABSENT = "none"


def when(at_s: float) -> str:
    """A time where the reader lives, to the second, with its zone; a seek takes it as it is."""
    return datetime.fromtimestamp(at_s).astimezone().isoformat(timespec="seconds")


def printable(text: str, keep: str = "") -> str:
    """The text with everything a terminal might obey replaced by its code."""
    return "".join(
        sign if sign.isprintable() or sign in keep else sign.encode("unicode_escape").decode()
        for sign in text
    )


def in_one_line(error: SliceError) -> str:
    """Class and message of an error."""
    return printable(f"{error.code}: {' '.join(error.message.split())}")


def data(raw: bytes | None, *, full: bool) -> str:
    """Bytes as text if they are UTF-8, else as hex."""
    if raw is None:
        return _ABSENT
    try:
        kind, text = "text", printable(raw.decode("utf-8"))
    except UnicodeDecodeError:
        kind, text = "hex", raw.hex(" ")
    if not full and len(text) > MOST_CHARACTERS:
        text = f"{text[:MOST_CHARACTERS]}… (shortened; --full shows all)"
    return f"{len(raw)} bytes, {kind}: {text}" if raw else "0 bytes"


def paragraphs(failure: Failure, *, full: bool) -> Iterator[tuple[str, str]]:
    """Everything about a failure, as pairs of a heading and a text of one or more lines."""
    piece, error = failure.slice, failure.error
    yield "failure", f"{failure.id}, {failure.became}, of {when(failure.at_s)}"
    yield "stream", f"{piece.lane.stream}, {spoken(piece.lane.name)} of {piece.lane_topic}"
    until = "" if piece.is_open else piece.until_offset
    yield "slice", f"offsets {piece.from_offset}..{until}, epoch {piece.epoch}"
    yield "attempts", str(failure.attempts)
    if failure.times > 1:
        yield "stops", f"{failure.times}: it was retried, and failed again"
    yield "error", f"{error.code}: {printable(error.message, keep=chr(10))}"
    if failure.unread and error.code == PASSED_OVER:
        yield "record", "none: these offsets were passed over unread, as too old"
    elif failure.unread:
        yield "record", "none: Kafka no longer has these offsets, and they were passed over"
    elif error.offset is None and piece.is_empty:
        lost = f"its records before offset {piece.from_offset} are lost"
        yield "record", f"none is named; the slice was claimed before it failed, and {lost}"
    elif error.offset is None:
        yield "record", "none is named; the whole slice failed"
    else:
        yield "record", f"offset {error.offset}"
    if error.offset is not None and failure.record_kept:
        yield "key", data(error.raw_key, full=full)
        yield "value", data(error.raw_value, full=full)
        for name, value in error.raw_headers:
            yield "header", f"{printable(name)} = {data(value, full=full)}"
    if error.traceback:
        yield "traceback", printable(error.traceback.rstrip(), keep="\n")
