"""Items of a table in DynamoDB, of which the newest of each key stays. Exactly-once, by intent.

Each row is put on the condition that nothing newer is there, so whatever comes twice, late, or in
another order leaves the same state: by the service's own means, and in one request. What is gone
stays as an item without data. The tenant is the partition key of every table, so two tenants have
no item in common, however tables are called.

It takes the service's "too much" for what it is: rows wait a little, and then for a later wave.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import pyarrow as pa

from headrace.connectors.dynamodb.fitting import fit
from headrace.connectors.dynamodb.items import Items
from headrace.connectors.dynamodb.servers import Service, address_of, service_of
from headrace.connectors.dynamodb.writer import ALONE_S, IN_COMPANY_S, DynamoWriter
from headrace.connectors.newest import KeepsNewest, problem_of
from headrace.connectors.newest_rows import text_key_problem
from headrace.connectors.own_servers import is_met_later, is_one_for_each_tenant, name_problem
from headrace.connectors.tenants import TenantsWriter
from headrace.errors import ConfigError, TargetMissing
from headrace.model.patterns import TENANT
from headrace.ports import Site

_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{3,255}")
#: no tenant's name has a dot: what stands before the first one is the tenant, and nothing else is
_BY_TENANT: Final = f"{TENANT}."


@dataclass(frozen=True)
class DynamoTable(KeepsNewest):
    """A table of DynamoDB.

    Args:
        name: of the table; it is made when it is not there. One that begins with ``{tenant}.`` is
            a table for each tenant, made by who first writes to it.
        columns: name and kind of each column, as of ``SqlTable``; each is an attribute. Tables
            returned by the handler must have exactly these.
        key: columns of kind ``text``, ``bigint`` or ``date`` that the sort key is made of; the
            partition key is the tenant.
        newest_by: the column that tells which row of a key is newer: a ``bigint``, ``timestamp`` or
            ``date`` of the data, or of kind ``version``, as of ``SqlTable``.
        at: name of the service under ``connections`` in the YAML file. With ``{tenant}`` in it, or
            in the URL or user that it stands for, each tenant has its own.
        delete_by: the ``boolean`` column that says that the key of a row is gone. Such an item
            stays, without its data, so readers ask for those where it is false.
        key_in_one_lane: all records of a key are in one partition of its topic. Versions compare
            along one lane alone, so a column of that kind needs this said.

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

    def __post_init__(self) -> None:
        self._copy_given()
        problem = _problem(self)
        if problem:
            raise ConfigError(f"DynamoDB table {self.name!r}: {problem}")

    def prepare(self, site: Site) -> None:
        """Make the table, or see that the one there has the key.

        Where each tenant has its own, that is done by who first writes to it, and only the address
        is looked at.

        Raises:
            ConfigError: it has not, may not be made, or the YAML file names no such connection.
            SinkUnavailable: the service does not answer.
        """
        if is_met_later(site.connections, self.at, address_of):
            return
        service = service_of(site.connections, self.at)
        if TENANT not in self.name:
            fit(service, self.name, math.inf)

    def check(self, output: pa.Table) -> None:
        """See that a handler's table has the columns, and values that fit them.

        Raises:
            WrongSchema: the message names the column.
            SinkRefused: a value does not fit; the message names column and row.
        """
        self._items.check(output)

    def open(self, site: Site) -> DynamoWriter | TenantsWriter[DynamoWriter]:
        """Open the writer of a bin; contacts nobody yet.

        Raises:
            ConfigError: the YAML file names no such connection.
        """
        if TENANT in self.name or is_one_for_each_tenant(site.connections, self.at):
            opened, forget = partial(self._opened_for, site), partial(self._forget, site)
            return TenantsWriter(opened, forget, site.in_company)
        service = service_of(site.connections, self.at)
        return DynamoWriter(self._items, service, self.name, _patience_s(site))

    def _opened_for(self, site: Site, tenant: str, until_s: float) -> DynamoWriter:
        service, table = self._service(site, tenant), self.name.replace(TENANT, tenant)
        if not _NAME.fullmatch(table):
            raise TargetMissing(f"{self._where}: {table!r} is no name of a table")
        if table not in service.fitted:
            fit(service, table, until_s)
            service.fitted.add(table)
        return DynamoWriter(self._items, service, table, _patience_s(site), until_s)

    def _forget(self, site: Site, tenant: str) -> None:
        self._service(site, tenant).fitted.discard(self.name.replace(TENANT, tenant))

    def _service(self, site: Site, tenant: str) -> Service:
        return service_of(site.connections, self.at, tenant, in_company=site.in_company)

    @property
    def _items(self) -> Items:
        return Items(self.columns, self.key, self.newest_by, self.delete_by, self._where)

    @property
    def _where(self) -> str:
        return f"DynamoDB table {self.name} at {self.at}"


def _patience_s(site: Site) -> float:
    return IN_COMPANY_S if site.in_company else ALONE_S


def _problem(sink: DynamoTable) -> str | None:
    if not _NAME.fullmatch(sink.name.replace(TENANT, "tenant")):
        return "the name has 3 to 255 letters, digits, '.', '_' and '-', and {tenant}"
    if TENANT in sink.name.removeprefix(_BY_TENANT):
        return (
            "{tenant} stands at the beginning with a dot behind it, as in '{tenant}.leads': of a "
            "name that is put together otherwise nobody can tell whose table it is"
        )
    if not sink.at:
        return "at names no connection"
    return (
        text_key_problem(sink.columns, sink.key)
        or name_problem(sink.at)
        or problem_of(
            sink.columns, sink.newest_by, sink.delete_by, in_one_lane=sink.key_in_one_lane
        )
    )
