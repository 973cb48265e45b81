"""Reading back what a table has of a partition between two moments, for reruns, batch and people.

Buckets are read one after the other, each in pages, so that of years no more is in memory than a
page. What is written meanwhile may be read or not.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa

from headrace.connectors.cassandra.description import Description, listed
from headrace.connectors.cassandra.library import library, translated
from headrace.connectors.cassandra.servers import Cluster
from headrace.errors import ConfigError
from headrace.payload.exact import digits_of

_EPOCH: Final = dt.datetime.fromtimestamp(0, dt.UTC)
#: rows of a page
PAGE: Final = 5_000
_ARROW: Final[Mapping[str, pa.DataType]] = {
    "text": pa.string(),
    "bigint": pa.int64(),
    "version": pa.int64(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "bytes": pa.binary(),
    "timestamp": pa.timestamp("ms", "UTC"),
    "date": pa.date32(),
}


@dataclass(frozen=True, slots=True)
class Asked:
    """Which rows."""

    partition: tuple[object, ...]
    since: dt.datetime
    until: dt.datetime
    week: bool

    @property
    def buckets(self) -> Iterator[dt.date]:
        """The days, or the Mondays, that have some of it, in UTC."""
        day = self.since.astimezone(dt.UTC).date()
        if self.week:
            day -= dt.timedelta(days=day.weekday())
        while dt.datetime.combine(day, dt.time(), dt.UTC) < self.until:
            yield day
            day += self._length

    @property
    def apart(self) -> Iterator[Asked]:
        """The same by buckets, each from and until where it is asked for."""
        for day in self.buckets:
            begins = dt.datetime.combine(day, dt.time(), dt.UTC)
            since, until = max(begins, self.since), min(begins + self._length, self.until)
            yield replace(self, since=since, until=until)

    @property
    def _length(self) -> dt.timedelta:
        return dt.timedelta(days=7 if self.week else 1)


def read(cluster: Cluster, says: Description, asked: Asked, where: str) -> Iterator[pa.Table]:
    """The rows, in the order of their time, a page at a time.

    Raises:
        ConfigError: the table has no time to ask for, or what is asked for is not complete.
        HeadraceError: the cluster does not answer, or the table is not there.
    """
    demand(says, asked, where)
    return _pages(cluster, says, asked, where)


def demand(says: Description, asked: Asked, where: str) -> None:
    """See that this can be asked.

    Raises:
        ConfigError: the table has no time to ask for, or what is asked for is not complete.
    """
    if says.by_time is None:
        raise ConfigError(f"{where} has no by_time: without one there is no history to read")
    if len(asked.partition) != len(says.partition):
        raise ConfigError(f"{where}: say {', '.join(says.partition)}")
    if asked.since.tzinfo is None or asked.until.tzinfo is None:
        raise ConfigError(f"{where}: since and until need a time zone, such as datetime.UTC")


def _pages(cluster: Cluster, says: Description, asked: Asked, where: str) -> Iterator[pa.Table]:
    names = list(says.read_back)
    schema = pa.schema([(name, _arrow(kind)) for name, kind in says.read_back.items()])
    partition = " AND ".join(f'"{name}" = ?' for name in says.partition_key)
    statement = cluster.prepared(
        f"SELECT {listed(names)} FROM {says.full_name} "  # noqa: S608 - names that were checked
        f'WHERE {partition} AND "{says.by_time}" >= ? AND "{says.by_time}" < ? '
        f'ORDER BY "{says.by_time}"'
    )
    for bucket in asked.buckets:
        bound = statement.bind((*asked.partition, bucket, _ms(asked.since), _ms(asked.until)))
        bound.fetch_size = PAGE
        for rows in _fetched(cluster, bound, where):
            yield _table(rows, schema)


def _ms(moment: dt.datetime) -> int:
    """The first millisecond that is not before a moment."""
    return -((_EPOCH - moment) // dt.timedelta(milliseconds=1))


def _fetched(cluster: Cluster, bound: Any, where: str) -> Iterator[list[tuple[Any, ...]]]:
    state = None
    while True:
        try:
            found = cluster.session().execute(bound, paging_state=state)
        except Exception as error:
            raise translated(error, where) from error
        if found.current_rows:
            yield found.current_rows
        state = found.paging_state
        if not state:
            return


def _table(rows: list[tuple[Any, ...]], schema: pa.Schema) -> pa.Table:
    columns = zip(*rows, strict=True)
    made = [
        pa.array([_plain(value) for value in column], kind)
        for column, kind in zip(columns, schema.types, strict=True)
    ]
    return pa.Table.from_arrays(made, schema=schema)


def _plain(value: Any) -> Any:
    """A value as Python has it: the client's own dates go beyond its years."""
    return value.date() if isinstance(value, library().util.Date) else value


def _arrow(kind: str) -> pa.DataType:
    digits = digits_of(kind)
    return _ARROW[kind] if digits is None else digits.arrow
