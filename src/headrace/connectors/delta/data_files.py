"""Parquet files of a Delta table: written and made durable before a commit has them.

They are written by pyarrow and not by Delta's client, so that a commit that has to be tried again
names the same files and nothing is written twice, and so that they are durable before the log says
so. A file is of one partition. Its folder shows the values for people, without what the log
would have to escape; what counts is what the log says of it.
"""

from __future__ import annotations

import datetime as dt
import re
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyarrow.types as at

from headrace.connectors.arrow_tables import divided
from headrace.connectors.delta.homes import Home
from headrace.connectors.local_files import at_once

_MOST_TEXT = 64
_MOST_STATISTICS = 32
_SAMPLED = 1000
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9.-]")


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file, as the log is to have it."""

    #: below the table's folder
    path: str
    size: int
    partition: dict[str, str | None]
    modified_ms: int
    statistics: str


@dataclass(frozen=True, slots=True)
class _Part:
    """Rows of one partition, and the file they are to be in."""

    path: str
    partition: dict[str, str | None]
    #: which rows of the table; none: all of it
    places: pa.Array[Any] | None


def written(table: pa.Table, home: Home, partition_by: Sequence[str]) -> list[DataFile]:
    """Write a table, a file for each partition, durably; or leave nothing.

    Files are written by a few threads, which together hold one copy of the rows at most.

    Raises:
        HeadraceError: its home does not take it.
    """
    parts = [*_parts(table, partition_by)]
    rows = table.drop_columns(list(partition_by))
    repeating = _repeating(rows)
    with home.told():
        try:
            writers = home.writers(rows.nbytes)
            made = at_once(lambda part: _write(rows, home, part, repeating), parts, writers)
            home.settle([part.path for part in parts])
        except BaseException:
            home.remove(part.path for part in parts)
            raise
    return made


def paths_of(files: Iterable[DataFile]) -> list[str]:
    """Where files are."""
    return [file.path for file in files]


def _parts(table: pa.Table, by: Sequence[str]) -> Iterator[_Part]:
    """The rows of each partition, in their order."""
    for values, places in divided(table, by):
        yield _part({name: _text(value) for name, value in values.items()}, places)


def _part(partition: dict[str, str | None], places: pa.Array[Any] | None) -> _Part:
    folders = [f"{_shown(name)}={_shown(value)}" for name, value in partition.items()]
    return _Part("/".join([*folders, f"part-{uuid.uuid4().hex}.parquet"]), partition, places)


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _write(rows: pa.Table, home: Home, part: _Part, repeating: list[str]) -> DataFile:
    about = list[pq.FileMetaData]()
    mine = rows if part.places is None else rows.take(part.places)

    def fill(file: pa.NativeFile) -> None:
        pq.write_table(
            mine,
            file,
            compression="snappy",  # as the client does
            use_dictionary=repeating,  # type: ignore[arg-type]
            metadata_collector=about,
        )

    size = home.write(part.path, fill)
    made_ms = int(time.time() * 1000)
    return DataFile(part.path, size, part.partition, made_ms, _statistics(about[0]))


def _repeating(table: pa.Table) -> list[str]:
    """Columns of which a dictionary makes the file smaller; of others it costs half the time."""
    head = table.slice(0, _SAMPLED)
    plain = [field.name for field in table.schema if not at.is_nested(field.type)]
    return [name for name in plain if pc.count_distinct(head[name]).as_py() * 2 <= head.num_rows]


def _shown(value: str | None) -> str:
    """A name for people: what differs may look the same, and lies in one folder then."""
    if value is None:
        return "__HIVE_DEFAULT_PARTITION__"
    return _NOT_PLAIN.sub("_", value)[:_MOST_TEXT]


def _statistics(about: pq.FileMetaData) -> str:
    """What readers skip files by, of the first columns: ends where these are plain, and nulls."""
    least: dict[str, Any] = {}
    most: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    row_groups = [about.row_group(number) for number in range(about.num_row_groups)]
    for place in range(min(about.num_columns, _MOST_STATISTICS)):
        groups = [group.column(place) for group in row_groups]
        name = groups[0].path_in_schema if groups else "."
        found = [one for group in groups if (one := group.statistics) is not None]
        if "." in name or len(found) < len(groups):
            continue
        counts = [one.null_count for one in found]
        if None not in counts:
            nulls[name] = sum(count or 0 for count in counts)
        if not all(one.has_min_max for one in found):
            continue
        with suppress(OverflowError, ValueError, TypeError):  # days that Python has no dates for
            ends: list[Any] = [end for one in found for end in (one.min, one.max)]
            low, high = min(ends), max(ends)
            if _is_told(low) and _is_told(high):
                least[name], most[name] = _told(low), _told(high, up=True)
    told = {"numRecords": about.num_rows, "minValues": least, "maxValues": most, "nullCount": nulls}
    return orjson.dumps(told).decode()


def _is_told(value: Any) -> bool:
    if isinstance(value, str):
        return len(value) <= _MOST_TEXT
    return isinstance(value, int | dt.date) and not isinstance(value, bool)


def _told(value: Any, *, up: bool = False) -> Any:
    """As Delta has it: moments to the millisecond, the latest one rounded up."""
    if not isinstance(value, dt.datetime):
        return value.isoformat() if isinstance(value, dt.date) else value
    moment = value.replace(tzinfo=None)
    past = moment.microsecond % 1000
    moment += dt.timedelta(microseconds=1000 - past if up and past else -past)
    return moment.isoformat(timespec="milliseconds") + "Z"
