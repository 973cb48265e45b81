"""Parquet files of a Delta table: written and synced here, seen by nobody before a commit has them.

They are written by pyarrow and not by Delta's client, so that a commit that has to be tried again
names the same files and nothing is written twice, and so that they are on the disk before the log
says so. A file is of one partition. Its folder shows the values for people, without what the log
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
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyarrow.types as at

from headrace.connectors.local_files import sync_all

_MOST_TEXT = 64
_MOST_STATISTICS = 32
_SAMPLED = 1000
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9.-]")
Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file, as the log is to have it."""

    #: below the table's folder
    path: str
    size: int
    partition: dict[str, str | None]
    modified_ms: int
    statistics: str


def written(table: pa.Table, root: Path, partition_by: Sequence[str]) -> list[DataFile]:
    """Write a table, a file for each partition, and sync all of it; or leave nothing.

    Raises:
        OSError: the disk or the folder does not take it.
    """
    made: list[DataFile] = []
    try:
        for values, part in _parts(table, partition_by):
            partition = dict(zip(partition_by, map(_text, values), strict=True))
            made.append(_write(part.drop_columns(list(partition_by)), root, partition))
        sync_all([root / file.path for file in made], root)
    except BaseException:
        removed(root, made)
        raise
    return made


def all_there(root: Path, files: Iterable[DataFile]) -> bool:
    """Whether none of these was taken away meanwhile, as vacuum does with what seems left over."""
    return all((root / file.path).exists() for file in files)


def removed(root: Path, files: Iterable[DataFile]) -> None:
    """Take away files that no commit has; one that stays goes by `headrace tables vacuum`."""
    for file in files:
        with suppress(OSError):
            (root / file.path).unlink()


def _parts(table: pa.Table, by: Sequence[str]) -> Iterator[tuple[Row, pa.Table]]:
    """The rows of each partition, in their order."""
    if not by:
        yield (), table
        return
    rows = pa.array(range(table.num_rows), pa.int64())
    numbered = pa.table([*(table[name] for name in by), rows], names=[*by, " row"])
    groups = numbered.group_by(list(by), use_threads=False).aggregate([(" row", "list")])
    places = groups[" row_list"].combine_chunks()
    for group, values in enumerate(groups.select(list(by)).to_pylist()):
        yield tuple(values[name] for name in by), table.take(places[group].values)


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _write(table: pa.Table, root: Path, partition: dict[str, str | None]) -> DataFile:
    folder = Path(*(f"{_shown(name)}={_shown(value)}" for name, value in partition.items()))
    path = folder / f"part-{uuid.uuid4().hex}.parquet"
    (root / folder).mkdir(parents=True, exist_ok=True)
    about: list[pq.FileMetaData] = []
    try:
        with (root / path).open("xb") as file:
            pq.write_table(
                table,
                file,
                compression="zstd",
                use_dictionary=_repeating(table),  # type: ignore[arg-type]
                metadata_collector=about,
            )
    except BaseException:
        with suppress(OSError):
            (root / path).unlink(missing_ok=True)
        raise
    size = (root / path).stat().st_size
    return DataFile(str(path), size, partition, int(time.time() * 1000), _statistics(about[0]))


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
    for place in range(min(about.num_columns, _MOST_STATISTICS)):
        groups = [about.row_group(number).column(place) for number in range(about.num_row_groups)]
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
