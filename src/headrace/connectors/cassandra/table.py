"""Rows into a table of Cassandra, of which the newest of each key stays. Exactly-once, by intent.

Each row is written under a timestamp that says how new it is (`rows.py`), so whatever comes twice,
late, or in another order leaves the same state: by the cluster's own means, and with no clock. No
effect is whole or not at all for a reader: its rows appear one by one.

Rows go after 60 days, unless it is said otherwise. What is kept for history is divided by days or
weeks, and read back by them (`history.py`).
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import pyarrow as pa

from headrace.connectors.cassandra import history
from headrace.connectors.cassandra.description import BUCKET, Description, types_of
from headrace.connectors.cassandra.fitting import fit
from headrace.connectors.cassandra.rows import Rows
from headrace.connectors.cassandra.servers import cluster_of
from headrace.connectors.cassandra.writer import CassandraWriter
from headrace.connectors.newest import VERSION, problem_of
from headrace.errors import ConfigError
from headrace.ports import Connections, Site

_NAME = re.compile(r"[a-z][a-z0-9_]{0,47}")
#: what Cassandra takes
_LONGEST = dt.timedelta(days=20 * 365)


@dataclass(frozen=True)
class CassandraTable:
    """A table of Cassandra.

    Args:
        name: name of the table; it is made when it is not there.
        columns: name and kind of each column, as of ``SqlTable``. Tables returned by the handler
            must have exactly these.
        key: columns that identify a row; the first of them begin the partition.
        newest_by: the column that tells which row of a key is newer, and gives the row its
            timestamp: a ``bigint``, ``timestamp`` or ``date`` of the data, or of kind ``version``,
            as of ``SqlTable``.
        at: name of the cluster under ``connections`` in the YAML file.
        partition_by: the columns of the key that make a partition, the first ones; one if not said.
        by_time: the ``timestamp`` of the key whose day or week is a part of the partition. Rows of
            a partition are in its order, and can be read back by it.
        bucket: whether that is the ``day`` or the ``week``.
        delete_by: the ``boolean`` column that says that the key of a row is gone. The row is taken
            away; the column is not in the table.
        key_in_one_lane: all records of a key are in one partition of its topic. Versions compare
            along one lane alone, so a column of that kind needs this said.
        ttl: how long a row stays after it was written; None: as the table says, for ever if it
            says nothing.

    Raises:
        ConfigError: a name is no plain lower-case identifier, a kind is unknown, or the columns do
            not fit each other.
    """

    name: str
    columns: Mapping[str, str]
    key: tuple[str, ...]
    newest_by: str
    at: str
    partition_by: tuple[str, ...] = ()
    by_time: str | None = None
    bucket: Literal["day", "week"] = "day"
    # Not where effects go, but how they look: a recorded wave goes on when they are changed.
    delete_by: str | None = field(default=None, repr=False)
    key_in_one_lane: bool = field(default=False, repr=False)
    ttl: dt.timedelta | None = field(default=dt.timedelta(days=60), repr=False)
    keeps_newest: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", dict(self.columns))
        object.__setattr__(self, "key", tuple(self.key))
        object.__setattr__(self, "partition_by", tuple(self.partition_by) or self.key[:1])
        problem = _problem(self)
        if problem:
            raise ConfigError(f"Cassandra table {self.name!r}: {problem}")

    @property
    def exactly_once(self) -> Literal["intent"]:
        """The same rows under the same timestamps leave the same state."""
        return "intent"

    @property
    def compares_lanes(self) -> bool:
        """Whether what is newer is told by versions, which compare along one lane alone."""
        return VERSION in self.columns.values()

    def prepare(self, site: Site) -> None:
        """Make the table, or see that the one there has the columns and the key.

        Raises:
            ConfigError: it has not, may not be made, or the YAML file names no such connection.
            SinkUnavailable: the cluster does not answer.
        """
        cluster = cluster_of(site.connections, self.at, telling=True)
        says = self._described(cluster.address.keyspace)
        fit(cluster, says, self._where, by_version=self.columns[self.newest_by] == VERSION)

    def check(self, output: pa.Table) -> None:
        """See that a handler's table has the columns, and values that fit them.

        Raises:
            WrongSchema: the message names the column.
            SinkRefused: a value does not fit; the message names column and row.
        """
        self._rows("").check(output)

    def open(self, site: Site) -> CassandraWriter:
        """Open the writer of a bin; contacts nobody yet.

        Raises:
            ConfigError: the YAML file names no such connection.
        """
        cluster = cluster_of(site.connections, self.at)
        return CassandraWriter(self._rows(cluster.address.keyspace), cluster)

    def read(
        self,
        connections: Connections,
        *partition: object,
        since: dt.datetime,
        until: dt.datetime,
    ) -> Iterator[pa.Table]:
        """Read history back: what one partition has between two moments, ordered by ``by_time``.

        Args:
            connections: where the cluster is, and who one is there.
            partition: values of ``partition_by``, such as the tenant.
            since: the first moment, with a zone.
            until: the moment before which it ends.

        Raises:
            ConfigError: the table has no ``by_time``, or a value or a zone is missing.
            HeadraceError: the cluster does not answer, or the table is not there.
        """
        cluster = cluster_of(connections, self.at, telling=True)
        says = self._described(cluster.address.keyspace)
        asked = history.Asked(partition, since, until, week=self.bucket == "week")
        return history.read(cluster, says, asked, self._where)

    def _rows(self, keyspace: str) -> Rows:
        described = self._described(keyspace)
        return Rows(described, self.newest_by, self.bucket == "week", self._where)

    def _described(self, keyspace: str) -> Description:
        rest = [name for name in self.key if name not in (*self.partition_by, self.by_time)]
        clustering = (*([self.by_time] if self.by_time is not None else []), *rest)
        ttl_s = None if self.ttl is None else int(self.ttl.total_seconds())
        return Description(
            self.name,
            keyspace,
            self.columns,
            self.partition_by,
            clustering,
            self.by_time,
            self.delete_by,
            ttl_s,
        )

    @property
    def _where(self) -> str:
        return f"Cassandra table {self.name} at {self.at}"


def _problem(sink: CassandraTable) -> str | None:
    if not sink.key:
        return "it needs a key"
    for name in (sink.name, *sink.columns):
        if not _NAME.fullmatch(name):
            return f"{name!r} is no name: use lower-case letters, digits and underscores"
    for name, kind in sink.columns.items():
        try:
            types_of(kind)
        except ValueError as error:
            return f"column {name!r}: {error}"
    return _key_problem(sink) or problem_of(
        sink.columns, sink.newest_by, sink.delete_by, in_one_lane=sink.key_in_one_lane
    )


def _key_problem(sink: CassandraTable) -> str | None:
    for name in sink.key:
        if sink.columns.get(name) in (None, VERSION) or name == sink.delete_by:
            return f"key names {name!r}, which is no column that can be of it"
    if sink.key[: len(sink.partition_by)] != sink.partition_by:
        return "partition_by has to be the first columns of key"
    return _time_problem(sink) or (None if sink.at else "at names no connection")


def _time_problem(sink: CassandraTable) -> str | None:
    if sink.by_time is not None:
        if sink.by_time not in sink.key or sink.by_time in sink.partition_by:
            return f"by_time names {sink.by_time!r}, which has to be of the key behind partition_by"
        if sink.columns[sink.by_time] != "timestamp" or BUCKET in sink.columns:
            return f"by_time needs a timestamp, and no other column is called {BUCKET!r}"
    if sink.bucket not in ("day", "week"):
        return "bucket is 'day' or 'week'"
    if sink.ttl is not None and not dt.timedelta(seconds=1) <= sink.ttl <= _LONGEST:
        return "ttl is from a second to 20 years, or None"
    return None
