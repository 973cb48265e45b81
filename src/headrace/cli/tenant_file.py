"""Tenants out of a file: CSV with a header, a JSON array, or JSON lines.

A list of customers comes out of a spreadsheet or out of a program, and the first character tells
which: CSV begins with the name of a column. Each tenant is read with the line that it began in, and
whatever is wrong with one is told with that line, all of it at once. What ``headrace tenants list
--json`` prints can be read again, so tenants move from one service to another.

Whether there is such a tenant already is not known here.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from headrace.errors import ConfigError
from headrace.model.streams import State, Tenant, Throttle
from headrace.operating.adding import said_of
from headrace.settings.fields import bytes_of, seconds_of

_THROTTLE = ("records_per_s", "bytes_per_s", "burst_s")
_COLUMNS = ("name", "state", "weight", *_THROTTLE)
#: what a list shows besides; the store gives it
_GIVEN = ("stopped_by", "generation")


class Place(NamedTuple):
    """Where a tenant begins."""

    line: int
    #: of a JSON array, which may be all in one line
    entry: int = 0

    def __str__(self) -> str:
        return f"line {self.line}, entry {self.entry}" if self.entry else f"line {self.line}"


@dataclass(slots=True)
class TenantFile:
    """What was read."""

    #: as it is called in a message
    name: str
    tenants: list[Tenant] = field(default_factory=list)
    #: where each begins
    places: list[Place] = field(default_factory=list)
    #: which settings it says of each
    said: list[frozenset[str]] = field(default_factory=list)
    #: what is wrong, and where
    faults: list[tuple[Place, str]] = field(default_factory=list)

    def refuse(self, faults: Mapping[int, str]) -> None:
        """Raise ``ConfigError`` with these faults, by number of the tenant, and its own."""
        wrong = [*self.faults, *((self.places[number], why) for number, why in faults.items())]
        if wrong:
            told = "\n".join(f"{self.name}, {place}: {why}" for place, why in sorted(wrong))
            raise ConfigError(f"nothing is done:\n{told}")


def read(name: str, text: str, *, names_alone: bool = False) -> TenantFile:
    """The tenants of a text, and what is wrong in it.

    Args:
        name: of the file, to be told in messages.
        text: all of it.
        names_alone: whom it names is all that is asked; what else it says of them is not read.

    Raises:
        ConfigError: it is none of the forms, or cut off.
    """
    found = TenantFile(name)
    begin = text.lstrip()
    rows = _json_rows if begin.startswith(("[", "{")) else _csv_rows
    for place, row in rows(name, text):
        try:
            entry = _entry(row)
            tenant = Tenant(_name(entry)) if names_alone else _tenant(entry)
        except ValueError as error:
            found.faults.append((place, _of(row, str(error))))
        else:
            found.tenants.append(tenant)
            found.places.append(place)
            found.said.append(frozenset() if names_alone else said_of(entry))
    return found


def text_of(file: Path, stdin: io.TextIOBase | Any) -> tuple[str, str]:
    """The name and the text of a file; ``-`` is what is typed or piped in.

    Raises:
        ConfigError: it cannot be read.
    """
    if str(file) == "-":
        return "stdin", stdin.read()
    try:
        # A spreadsheet may write a mark in front.
        return str(file), file.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: {error}; name a file in UTF-8, or - for stdin") from error


def _csv_rows(name: str, text: str) -> Iterator[tuple[Place, Mapping[str, Any] | ValueError]]:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        header = [cell.strip() for cell in next(reader, [])]
        _check_header(name, header)
        line = reader.line_num + 1
        for cells in reader:
            if any(cell.strip() for cell in cells):
                yield Place(line), _csv_row(header, cells)
            line = reader.line_num + 1
    except csv.Error as error:
        raise ConfigError(f"{name}, line {reader.line_num}: this is no CSV: {error}") from error


def _check_header(name: str, header: list[str]) -> None:
    unknown = [column for column in header if column not in _COLUMNS]
    twice = len(set(header)) < len(header)
    if "name" not in header or unknown or twice:
        why = "it has one twice" if twice else f"{', '.join(unknown)} is none of them"
        why = "it has no column name" if "name" not in header else why
        raise ConfigError(
            f"{name}, line 1: the first line names the columns, name and, if wanted, "
            f"{', '.join(_COLUMNS[1:])}; {why}"
        )


def _csv_row(header: list[str], cells: list[str]) -> Mapping[str, Any] | ValueError:
    if len(cells) != len(header):
        return ValueError(f"it has {len(cells)} cells, the first line has {len(header)}")
    row: dict[str, Any] = {}
    for column, cell in zip(header, cells, strict=True):
        if cell.strip():
            place = row.setdefault("throttle", {}) if column in _THROTTLE else row
            place[column] = cell.strip()
    return row


def _json_rows(name: str, text: str) -> Iterator[tuple[Place, Any]]:
    """Of an array or of lines: each value with its line, which ``json.loads`` does not tell."""
    decoder, at, line, entry = json.JSONDecoder(), 0, 1, 0
    is_array = text.lstrip().startswith("[")
    separators = " \t\r\n[" if is_array else " \t\r\n"
    while True:
        begin = at
        while at < len(text) and text[at] in separators:
            at += 1
        line += text.count("\n", begin, at)
        if at == len(text) and not is_array:
            return
        if is_array and text[at : at + 1] == "]":
            if text[at + 1 :].strip():
                raise ConfigError(f"{name}, line {line}: there is more behind the end of the list")
            return
        try:
            value, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            where = getattr(error, "lineno", line)
            # Python reads no whole number of more than some thousand digits.
            why = getattr(error, "msg", "too deep, or a number is too long")
            raise ConfigError(f"{name}, line {where}: this is no JSON: {why}") from error
        entry += 1
        yield Place(line, entry if is_array else 0), value
        line += text.count("\n", at, end)
        at, separators = end, " \t\r\n," if is_array else separators


def _entry(row: Any) -> Mapping[str, Any]:
    """What a row says by name; ``ValueError`` says why it is none."""
    if isinstance(row, ValueError):
        raise row
    if not isinstance(row, Mapping):
        raise ValueError('a tenant is an object such as {"name": "acme"}')  # noqa: TRY004
    return row


def _name(row: Mapping[str, Any]) -> str:
    name = row.get("name")
    if not isinstance(name, str):
        raise ValueError("it has no name")  # noqa: TRY004
    return name


def _tenant(row: Mapping[str, Any]) -> Tenant:
    """One tenant; ``ValueError`` says what is wrong with it."""
    limit = row.get("throttle") or {}
    if not isinstance(limit, Mapping):
        raise ValueError('throttle is an object such as {"records_per_s": 100}')  # noqa: TRY004
    _check_known(row, ("name", "state", "weight", "throttle", *_GIVEN))
    _check_known(limit, _THROTTLE)
    name = _name(row)
    state = row.get("state") or State.ACTIVE.value
    if state not in (State.ACTIVE.value, State.SUSPENDED.value):  # it may be anything
        raise ValueError(f"state {state!r} is neither active nor suspended")
    weight = _number(row, "weight", None)
    throttle = _throttle(limit)
    return Tenant(name, State(state), 1.0 if weight is None else weight, throttle)


def _throttle(limit: Mapping[str, Any]) -> Throttle:
    records_per_s = _number(limit, "records_per_s", None)
    bytes_per_s = _number(limit, "bytes_per_s", bytes_of)
    burst_s = _number(limit, "burst_s", seconds_of)
    if burst_s is None:
        return Throttle(records_per_s, bytes_per_s)
    if records_per_s is None and bytes_per_s is None and burst_s != Throttle().burst_s:
        raise ValueError(
            "burst_s says how uneven a limit may be; give records_per_s or bytes_per_s too"
        )
    return Throttle(records_per_s, bytes_per_s, burst_s)


def _of(row: Any, why: str) -> str:
    name = row.get("name") if isinstance(row, Mapping) else None
    return f"tenant {name}: {why}" if isinstance(name, str) else why


def _check_known(row: Mapping[str, Any], known: Iterable[str]) -> None:
    unknown = sorted(str(key) for key in row.keys() - set(known))
    if unknown:
        raise ValueError(f"{', '.join(unknown)}: a tenant has {', '.join(_COLUMNS)}")


def _number(
    row: Mapping[str, Any], key: str, amount: Callable[[object], float] | None
) -> float | None:
    """A number, or an amount with its unit; None for nothing."""
    value = row.get(key)
    if value is None:
        return None
    if isinstance(value, bool):
        raise ValueError(f"{key} {value!r} is no number")  # noqa: TRY004
    try:
        return float(value)
    except OverflowError as error:
        raise ValueError(f"{key} is too large a number") from error
    except (TypeError, ValueError) as error:
        if amount is None or not isinstance(value, str):
            raise ValueError(f"{key} {value!r} is no number") from error
    try:
        return float(amount(value))
    except OverflowError as error:
        raise ValueError(f"{key} is too large a number") from error
    except ValueError as error:
        raise ValueError(f"{key} {value!r} is no number; {error}") from error
