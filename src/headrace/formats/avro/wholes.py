"""Numbers, and times, which Avro keeps as numbers: their bounds, and what they are in a column."""

from __future__ import annotations

import pyarrow as pa

from headrace.formats.avro.schema_text import AvroType
from headrace.formats.avro.steps import Whole
from headrace.model.years import DAY_US, FIRST_DAY, FIRST_US, LAST_DAY, LAST_US

_WIDTHS = {
    "int": (-(2**31), 2**31 - 1, "a number of more than 32 bits"),
    "long": (-(2**63), 2**63 - 1, "a number of more than 64 bits"),
}
_YEARS = "a time that is in no year from 1 to 9999"
_YEARS_US = (FIRST_US, LAST_US, _YEARS)
_DAY = (0, DAY_US - 1, "a time that no day has")
#: logical type -> factor to its column's unit; lowest and highest there, what is said beyond
_TIMES: dict[str, tuple[int, int, int, str]] = {
    "date": (1, FIRST_DAY, LAST_DAY, _YEARS),
    "time-millis": (1000, *_DAY),
    "time-micros": (1, *_DAY),
    "timestamp-millis": (1000, *_YEARS_US),
    "timestamp-micros": (1, *_YEARS_US),
    "local-timestamp-millis": (1000, *_YEARS_US),
    "local-timestamp-micros": (1, *_YEARS_US),
}
#: times that no column holds exactly: as the reader's they are numbers
_FINER = frozenset({"timestamp-nanos", "local-timestamp-nanos"})


def is_time(logical: str) -> bool:
    """Whether numbers of that logical type are times, of one unit and no other."""
    return logical in _TIMES or logical in _FINER


def whole_of(width: str, reader: AvroType, kind: pa.DataType) -> Whole:
    """How an int or long, as a writer has it, is read."""
    lowest, highest, beyond = _WIDTHS[width]
    if reader.logical not in _TIMES:
        return Whole(kind, lowest, highest, 1, beyond)
    factor, first, last, beyond = _TIMES[reader.logical]
    return Whole(
        kind, max(lowest, -(-first // factor)), min(highest, last // factor), factor, beyond
    )
