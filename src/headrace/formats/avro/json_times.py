"""Days, times and moments of JSON as the numbers that Avro has for them.

A text is as RFC 3339 has it, and one of a moment has its zone, but where the schema wants none. It
has no more places behind the second than are kept. A number counts as the schema does. Of both, it
is a time of a day, or in a year to 9999: no reader takes others.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, datetime
from typing import Any

from headrace.formats.avro.columns import kind_of
from headrace.formats.avro.json_values import (
    NUMBERS,
    Misfit,
    Payload,
    Put,
    integer_of,
    put_long,
    unlike,
)
from headrace.formats.avro.schema_text import AvroType
from headrace.formats.avro.wholes import whole_of

_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIME = re.compile(r"([0-9]{2}):([0-5][0-9]):([0-5][0-9])(?:\.([0-9]{1,9}))?")
_MOMENT = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[Tt]([0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.([0-9]{1,9}))?"
    r"([Zz]|[+-][0-9]{2}:[0-5][0-9])?"
)
_EPOCH, _EPOCH_DAY = datetime(1970, 1, 1), date(1970, 1, 1)
#: unit -> its digits behind the second
_DIGITS = {"millis": 3, "micros": 6, "nanos": 9}


def time_of(kind: AvroType) -> Put:
    """A text as RFC 3339 has it, or a number that a day, or a year to 9999, has."""
    name, _, unit = kind.logical.rpartition("-")
    digits = _DIGITS.get(unit, 0)
    whole = whole_of(kind.name, kind, kind_of("", kind))
    read: Callable[[str], int | None]
    if not name:
        read, expected = _day, "a date such as 2026-11-30"
    elif name == "time":
        read, expected = lambda text: _of_day(text, digits), "a time such as 08:15:00"
    else:
        zone = "Z" if name == "timestamp" else ""
        expected = f"a time such as 2026-11-30T08:15:00{zone}"
        read = lambda text: _moment(text, digits, with_zone=bool(zone))  # noqa: E731
    places = f", with at most {digits} places," if digits else ""
    wanted = f"{expected}{places} or a whole number that counts as {kind.logical} does"

    def put(value: Any, out: Payload) -> None:
        number = read(value) if type(value) is str else integer_of(value)
        if number is None:
            fits = type(value) is str or type(value) in NUMBERS
            raise Misfit(f"{wanted} is expected") if fits else unlike(wanted, value)
        if not whole.lowest <= number <= whole.highest:
            raise Misfit(f"{wanted} is expected, and this is {whole.beyond}")
        put_long(number, out)

    return put


def _day(text: str) -> int | None:
    try:
        return (date.fromisoformat(text) - _EPOCH_DAY).days if _DATE.fullmatch(text) else None
    except ValueError:
        return None


def _of_day(text: str, digits: int) -> int | None:
    found = _TIME.fullmatch(text)
    if found is None:
        return None
    seconds = int(found[1]) * 3600 + int(found[2]) * 60 + int(found[3])
    return _with_parts(seconds, found[4], digits)


def _moment(text: str, digits: int, *, with_zone: bool) -> int | None:
    found = _MOMENT.fullmatch(text)
    if found is None or (found[4] is not None) is not with_zone:
        return None
    try:
        since = datetime.fromisoformat(f"{found[1]}T{found[2]}") - _EPOCH
    except ValueError:
        return None
    seconds, zone = since.days * 86_400 + since.seconds, found[4]
    if zone is not None and len(zone) > 1:
        if int(zone[1:3]) > 23:
            return None
        off_s = int(zone[1:3]) * 3600 + int(zone[4:6]) * 60
        seconds -= off_s if zone[0] == "+" else -off_s
    return _with_parts(seconds, found[3], digits)


def _with_parts(seconds: int, parts: str | None, digits: int) -> int | None:
    """Seconds and what is behind their point, in the unit of so many digits; None: it has more."""
    unit: int = 10**digits
    if parts is None:
        return seconds * unit
    if parts[digits:].strip("0"):
        return None
    return seconds * unit + int(parts[:digits].ljust(digits, "0"))
