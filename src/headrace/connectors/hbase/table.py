"""Rows of a table in HBase, of which the newest of each key stays. Exactly-once, by intent.

Each cell is written at the timestamp of how new its row is, and HBase shows the newest, so whatever
comes twice, late, or in another order leaves the same state: by the server's own means, and without
reading before a write. What is gone is a delete at that timestamp, which hides what is older.

HBase drops deletes when it compacts all of a store. What is older than one that was dropped, and
comes then, is there again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import pyarrow as pa

from headrace.connectors.hbase.addresses import address_of
from headrace.connectors.hbase.cells import Cells
from headrace.connectors.hbase.fitting import fit
from headrace.connectors.hbase.servers import Cluster, cluster_of
from headrace.connectors.hbase.writer import HBaseWriter
from headrace.connectors.newest import KeepsNewest, problem_of
from headrace.connectors.newest_rows import text_key_problem
from headrace.connectors.own_servers import is_met_later, is_one_for_each_tenant, name_problem
from headrace.connectors.tenants import TenantsWriter
from headrace.errors import ConfigError
from headrace.model.patterns import TENANT, has_other_braces
from headrace.model.streams import TENANT_NAME
from headrace.ports import Site

_NAME: Final = re.compile(r"([A-Za-z0-9_]+:)?[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}")
#: HBase lists what is in it without it, so a table would have two names
_DEFAULT: Final = "default:"
_FAMILY: Final = re.compile(r"[A-Za-z0-9_]{1,100}")


@dataclass(frozen=True)
class HBaseTable(KeepsNewest):
    """A table of HBase, written to by its Thrift server.

    Args:
        name: of the table, with its namespace where it has one; it is made when it is not there.
        columns: name and kind of each column, as of ``SqlTable``; each is a cell, as text. Tables
            returned by the handler must have exactly these.
        key: columns of kind ``text``, ``bigint`` or ``date`` that the rest of the row key is made
            of.
        newest_by: the column that tells which row of a key is newer, and is the timestamp of its
            cells: a ``bigint``, ``timestamp`` or ``date`` of the data, or of kind ``version``, as
            of ``SqlTable``. It is not below 0, and not before 1970.
        at: name of the Thrift server under ``connections`` in the YAML file. With ``{tenant}`` in
            it, or in the URL that it stands for, each tenant has its own.
        delete_by: the ``boolean`` column that says that the key of a row is gone.
        key_in_one_lane: all records of a key are in one partition of its topic. Versions compare
            along one lane alone, so a column of that kind needs this said.
        prefix: what row keys begin with; ``{tenant}`` in it is the tenant of the stream. Behind it
            stands a character that no tenant's name has.
        family: the column family of all cells.

    Raises:
        ConfigError: a name is none, a kind is unknown, or the columns do not fit each other.
    """

    name: str
    columns: Mapping[str, str]
    key: tuple[str, ...]
    newest_by: str
    at: str
    # Not where effects go, but how they look: a recorded wave goes on when they are changed.
    delete_by: str | None = field(default=None, repr=False)
    key_in_one_lane: bool = field(default=False, repr=False)
    prefix: str = f"{TENANT}:"
    family: str = "d"

    def __post_init__(self) -> None:
        self._copy_given()
        problem = _problem(self)
        if problem:
            raise ConfigError(f"HBase table {self.name!r}: {problem}")

    def prepare(self, site: Site) -> None:
        """Make the table, or see that the one there has the column family.

        Where each tenant has its own, that is done by who first writes to it, and only the address
        is looked at.

        Raises:
            ConfigError: it has not, may not be made, or the YAML file names no such connection.
            SinkUnavailable: the cluster does not answer.
        """
        if not is_met_later(site.connections, self.at, address_of):
            fit(cluster_of(site.connections, self.at), self.name, self.family)

    def check(self, output: pa.Table) -> None:
        """See that a handler's table has the columns, and values that fit them.

        Raises:
            WrongSchema: the message names the column.
            SinkRefused: a value does not fit; the message names column and row.
        """
        self._cells.check(output)

    def open(self, site: Site) -> HBaseWriter | TenantsWriter[HBaseWriter]:
        """Open the writer of a bin; contacts nobody yet.

        Raises:
            ConfigError: the YAML file names no such connection.
        """
        if is_one_for_each_tenant(site.connections, self.at):
            opened, forget = partial(self._opened_for, site), partial(self._forget, site)
            return TenantsWriter(opened, forget, site.in_company)
        return HBaseWriter(self._cells, cluster_of(site.connections, self.at), self.name)

    def _opened_for(self, site: Site, tenant: str, until_s: float) -> HBaseWriter:
        cluster = self._cluster(site, tenant)
        if self.name not in cluster.fitted:
            fit(cluster, self.name, self.family, until_s)
            cluster.fitted.add(self.name)
        return HBaseWriter(self._cells, cluster, self.name, until_s)

    def _forget(self, site: Site, tenant: str) -> None:
        self._cluster(site, tenant).fitted.discard(self.name)

    def _cluster(self, site: Site, tenant: str) -> Cluster:
        return cluster_of(site.connections, self.at, tenant, in_company=site.in_company)

    @property
    def _cells(self) -> Cells:
        return Cells(
            self.columns,
            self.key,
            self.newest_by,
            self.delete_by,
            self._where,
            self.prefix,
            self.family,
        )

    @property
    def _where(self) -> str:
        return f"HBase table {self.name} at {self.at}"


def _problem(sink: HBaseTable) -> str | None:
    if not _NAME.fullmatch(sink.name):
        return (
            "the name has letters, digits, '_', '.' and '-', and may have a namespace with ':' "
            "before it; tenants are told apart by prefix"
        )
    if sink.name.startswith(_DEFAULT):
        return f"name it {sink.name.removeprefix(_DEFAULT)!r}: that namespace is the one of no name"
    if not _FAMILY.fullmatch(sink.family):
        return f"family={sink.family!r}: it has letters, digits and underscores"
    if not sink.at:
        return "at names no connection"
    return (
        _prefix_problem(sink.prefix)
        or text_key_problem(sink.columns, sink.key)
        or name_problem(sink.at)
        or problem_of(
            sink.columns, sink.newest_by, sink.delete_by, in_one_lane=sink.key_in_one_lane
        )
    )


def _prefix_problem(prefix: str) -> str | None:
    if has_other_braces(prefix):
        return f"prefix={prefix!r}: only {{tenant}} may stand in braces"
    _, tenant, behind = prefix.rpartition(TENANT)
    if tenant and (not behind or TENANT_NAME.fullmatch(f"t{behind[0]}")):
        return (
            f"prefix={prefix!r}: behind {{tenant}} stands a character that no tenant's name has, "
            "as in '{tenant}:': of a row key that is put together otherwise nobody can tell whose "
            "row it is"
        )
    return None
