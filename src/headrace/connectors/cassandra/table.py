"""Rows into a table of Cassandra, of which the newest of each key stays. Exactly-once, by intent.

Each row is written under a timestamp that says how new it is (`rows.py`), so whatever comes twice,
late, or in another order leaves the same state: by the cluster's own means, and with no clock. No
effect is whole or not at all for a reader: its rows appear one by one.

Rows go after 60 days, unless it is said otherwise. What is kept for history is divided by days or
weeks, and read back by them (`history.py`).
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import pyarrow as pa

from headrace.connectors.cassandra import frames, history
from headrace.connectors.cassandra.addresses import address_of
from headrace.connectors.cassandra.description import Description
from headrace.connectors.cassandra.fitting import fit
from headrace.connectors.cassandra.problems import problem_with
from headrace.connectors.cassandra.rows import Rows
from headrace.connectors.cassandra.servers import Cluster, cluster_of
from headrace.connectors.cassandra.writer import CassandraWriter
from headrace.connectors.newest import VERSION, KeepsNewest
from headrace.connectors.own_servers import is_one_for_each_tenant
from headrace.connectors.tenants import TenantsWriter
from headrace.errors import ConfigError
from headrace.model.patterns import TENANT
from headrace.ports import Connections, Site


@dataclass(frozen=True)
class CassandraTable(KeepsNewest):
    """A table of Cassandra.

    Args:
        name: name of the table; it is made when it is not there.
        columns: name and kind of each column, as of ``SqlTable``. Tables returned by the handler
            must have exactly these.
        key: columns that identify a row; the first of them begin the partition.
        newest_by: the column that tells which row of a key is newer, and gives the row its
            timestamp: a ``bigint``, ``timestamp`` or ``date`` of the data, or of kind ``version``,
            as of ``SqlTable``.
        at: name of the cluster under ``connections`` in the YAML file. With ``{tenant}`` in it, or
            in the URL or user that it stands for, each tenant has its own.
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

    def __post_init__(self) -> None:
        self._copy_given()
        object.__setattr__(self, "partition_by", tuple(self.partition_by) or self.key[:1])
        problem = problem_with(self)
        if problem:
            raise ConfigError(f"Cassandra table {self.name!r}: {problem}")

    def prepare(self, site: Site) -> None:
        """Make the table, or see that the one there has the columns and the key.

        Where each tenant has its own, that is done by who first writes to it.

        Raises:
            ConfigError: it has not, may not be made, or the YAML file names no such connection.
            SinkUnavailable: the cluster does not answer.
        """
        if not is_one_for_each_tenant(site.connections, self.at, telling=True):
            self._fit(cluster_of(site.connections, self.at, telling=True))
        elif TENANT not in self.at:
            address_of(site.connections.server(self.at), self.at, "tenant")

    def check(self, output: pa.Table) -> None:
        """See that a handler's table has the columns, and values that fit them.

        Raises:
            WrongSchema: the message names the column.
            SinkRefused: a value does not fit; the message names column and row.
        """
        self._rows("").check(output)

    def open(self, site: Site) -> CassandraWriter | TenantsWriter[CassandraWriter]:
        """Open the writer of a bin; contacts nobody yet.

        Raises:
            ConfigError: the YAML file names no such connection.
        """
        if is_one_for_each_tenant(site.connections, self.at):
            opened = partial(self._opened_for, site.connections)
            return TenantsWriter(opened, partial(_forget, site, self.at), site.in_company)
        cluster = cluster_of(site.connections, self.at)
        return CassandraWriter(self._rows(cluster.address.keyspace), cluster)

    def _opened_for(self, connections: Connections, tenant: str, until_s: float) -> CassandraWriter:
        cluster = cluster_of(connections, self.at, tenant)
        rows = self._rows(cluster.address.keyspace)
        cluster.make_ready(rows.description, partial(self._make_ready, cluster, rows), until_s)
        return CassandraWriter(rows, cluster, until_s)

    def _make_ready(self, cluster: Cluster, rows: Rows) -> None:
        self._fit(cluster)
        cluster.prepared(rows.description.put)
        if self.delete_by is not None:
            cluster.prepared(rows.description.delete)

    def _fit(self, cluster: Cluster) -> None:
        says = self._described(cluster.address.keyspace)
        fit(cluster, says, self._where, by_version=self.columns[self.newest_by] == VERSION)

    def read(
        self,
        connections: Connections,
        *partition: object,
        since: dt.datetime,
        until: dt.datetime,
        tenant: str = "",
    ) -> Iterator[pa.Table]:
        """Read history back: what one partition has between two moments, ordered by ``by_time``.

        Args:
            connections: where the cluster is, and who one is there.
            partition: values of ``partition_by``, such as the tenant.
            since: the first moment, with a zone.
            until: the moment before which it ends.
            tenant: whose table, where each tenant has its own.

        Raises:
            ConfigError: the table has no ``by_time``, or a value or a zone is missing.
            HeadraceError: the cluster does not answer, or the table is not there.
        """
        if not tenant and is_one_for_each_tenant(connections, self.at, telling=True):
            raise ConfigError(f"{self._where}: each tenant has its own: say tenant='acme', say")
        cluster = cluster_of(connections, self.at, tenant, telling=True)
        says = self._described(cluster.address.keyspace)
        asked = history.Asked(partition, since, until, week=self.bucket == "week")
        return history.read(cluster, says, asked, self._where)

    def frame(
        self,
        spark: Any,
        connections: Connections,
        partitions: Iterable[Sequence[object]],
        *,
        since: dt.datetime,
        until: dt.datetime,
        tenant: str = "",
    ) -> Any:
        """The same as a DataFrame of Spark, in no order; each task reads days or weeks of it.

        Args:
            spark: the session.
            connections: as of ``read``; they travel to the executors, and show in no plan.
            partitions: of each, the values of ``partition_by``, such as ``[("acme",), ("bolt",)]``.
            since: as of ``read``.
            until: as of ``read``.
            tenant: as of ``read``.

        Raises:
            ConfigError: as of ``read``; what else there is, is raised when the frame is read.
        """
        asked = [
            history.Asked(tuple(one), since, until, week=self.bucket == "week")
            for one in partitions
        ]
        for one in asked:
            history.demand(self._described(""), one, self._where)
        read = partial(self.read, connections, tenant=tenant)
        return frames.frame(spark, read, asked, self._described("").read_back)

    def _rows(self, keyspace: str) -> Rows:
        says = self._described(keyspace)
        return Rows(
            self.columns,
            (*says.partition, *says.clustering),
            self.newest_by,
            self.delete_by,
            self._where,
            says,
            self.bucket == "week",
        )

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


def _forget(site: Site, at: str, tenant: str) -> None:
    cluster_of(site.connections, at, tenant).forget()
