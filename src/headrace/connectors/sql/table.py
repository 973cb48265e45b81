"""Rows into a table: of the store's own database, or of another one that the YAML file names.

In the store's, rows and positions go in one transaction (`beside_positions.py`): exactly-once, also
for an update that must not run twice. In another one (``at``), what was written for each lane is
noted beside the rows (`elsewhere.py`): exactly-once by intent. That may be another database for
each tenant (`tenants.py`).

Used at-least-once, rows may be written again; with a ``key`` and no ``update`` that changes
nothing. Used at-most-once, a commit whose answer is lost is not made again: its rows are there or
lost. The database is SQLite or PostgreSQL, another one MariaDB or MySQL as well; this sink does not
alter a table that is there, and makes no index but the key's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

import pyarrow as pa
from sqlalchemy import Connection

from headrace.connectors.newest import VERSION, problem_of
from headrace.connectors.newest_rows import kinds_problem
from headrace.connectors.own_servers import is_one_for_each_tenant, name_problem
from headrace.connectors.sql.beside_positions import BesidePositions
from headrace.connectors.sql.elsewhere import Elsewhere, ElsewhereOnce
from headrace.connectors.sql.fitting import fit, fit_marks
from headrace.connectors.sql.guests import in_sql
from headrace.connectors.sql.rows import Rows
from headrace.connectors.sql.servers import Target, check_address, target_of
from headrace.connectors.sql.tenants import SqlTenantsWriter
from headrace.connectors.sql.writer import SqlTableWriter, told_as_sinks
from headrace.errors import ConfigError, SinkRefused, TargetMissing
from headrace.ports import Site

_IDENTIFIER = re.compile(r"[a-z_][a-z0-9_]{0,62}")


@dataclass(frozen=True)
class SqlTable:
    """A table in the store's database, or in another one.

    Args:
        name: name of the table; it is made when it is not there.
        columns: name and kind of each column: ``text``, ``bigint``, ``double``, ``boolean``,
            ``bytes``, ``timestamp`` (with a zone), ``date``, ``decimal(p, s)`` (p digits, s of
            them after the point), ``version`` (for ``newest_by``). Tables returned by the handler
            must have exactly these.
        key: columns that identify a row. Without a key every row is a new one.
        update: what to do with a row that is there: column to SQL expression, in which
            ``excluded.score`` is the new value and ``scores.score`` (by the table's name) the
            present one. Columns not named keep their present value. None overwrites them all:
            the last write wins. Rows are written in their order, so an expression may depend on
            it. Expressions go into the statement as they are: they are code, written by the
            developer of the use case, and must never be built from what a tenant sends.
        newest_by: the column that tells which row of a key is newer: a row that is there is
            replaced by one that is as new or newer, and by no older one, whenever that comes. A
            ``bigint``, ``timestamp`` or ``date`` of the data; or of kind ``version``: what
            ``context.versions`` gives, or, where the handler leaves it out or null, the version
            of the last record that the row was made with.
        delete_by: the ``boolean`` column that says that the key of a row is gone. Such a row stays
            in the table, without its data, so that an older one does not come back.
        key_in_one_lane: all records of a key are in one partition of its topic. Versions compare
            along one lane alone, so a column of that kind needs this said.
        at: name of the database under ``connections`` in the YAML file; None: the store's. With
            ``{tenant}`` in it, or in the URL that it stands for, each tenant has its own.

    Raises:
        ConfigError: a name is no plain lower-case identifier, a kind is unknown, or ``key``,
            ``update``, ``newest_by`` and ``delete_by`` do not fit the columns or each other.
    """

    name: str
    columns: Mapping[str, str]
    key: tuple[str, ...] = ()
    update: Mapping[str, str] | None = None
    at: str | None = None
    # Not where effects go, but how they look: a recorded wave goes on when they are changed.
    newest_by: str | None = field(default=None, repr=False)
    delete_by: str | None = field(default=None, repr=False)
    key_in_one_lane: bool = field(default=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", dict(self.columns))
        object.__setattr__(self, "key", tuple(self.key))
        problem = _problem(self)
        if problem:
            raise ConfigError(f"table {self.name!r}: {problem}")

    @property
    def exactly_once(self) -> Literal["transaction", "intent"]:
        """It moves the positions in its own transaction, or notes there what was written."""
        return "transaction" if self.at is None else "intent"

    @property
    def keeps_state(self) -> bool:
        """Whether what goes with the positions goes with its rows: in the store's database."""
        return self.at is None

    @property
    def keeps_newest(self) -> bool:
        """Whether an older row that comes late leaves a newer one of its key as it is."""
        return self.newest_by is not None

    @property
    def compares_lanes(self) -> bool:
        """Whether what is newer is told by versions, which compare along one lane alone."""
        return VERSION in self.columns.values()

    def prepare(self, site: Site) -> None:
        """Make the table, or see that the one there has the columns and the key.

        Where each tenant has its own, that is done by who first writes to it.

        Raises:
            ConfigError: the table is there and lacks a column or the key, may not be made, or the
                YAML file names no such connection.
            SinkUnavailable: the database does not answer.
        """
        if self.at is None:
            self._fit(in_sql(site.positions).begin())
        elif is_one_for_each_tenant(site.connections, self.at, telling=True):
            check_address(site.connections, self.at)
        else:
            self._fit(target_of(site.connections, self.at).begin())

    def check(self, output: pa.Table) -> None:
        """See that a handler's table has the columns, and values that fit them.

        Raises:
            WrongSchema: the message names the column.
            SinkRefused: a value does not fit, such as an amount with a digit too many.
        """
        self._rows.check(output)

    def open(self, site: Site) -> SqlTableWriter | SqlTenantsWriter:
        """Open the writer of a bin; contacts nobody yet.

        Raises:
            ConfigError: the YAML file names no such connection.
        """
        if self.at is None:
            return SqlTableWriter(self._rows, BesidePositions(in_sql(site.positions)))
        if is_one_for_each_tenant(site.connections, self.at):
            opened = partial(self._opened_for, site, self.at)
            return SqlTenantsWriter(opened, partial(_forget, site, self.at), site.in_company)
        return self._opened_at(site, target_of(site.connections, self.at))

    def _opened_for(self, site: Site, at: str, tenant: str, until_s: float) -> SqlTableWriter:
        target = target_of(site.connections, at, tenant).until(until_s)
        update = None if self.update is None else tuple(self.update.items())
        columns = tuple(self.columns.items())
        described = (self.name, columns, self.key, update, self.newest_by, self.delete_by)
        if described not in target.fitted:
            try:
                self._fit(target.begin())
            except ConfigError:
                # Of two that make it at once one may be refused, and finds it there then.
                self._fit(target.begin())
            target.fitted.add(described)
        return self._opened_at(site, target)

    def _opened_at(self, site: Site, target: Target) -> SqlTableWriter:
        # Only what was written down before it runs has a fence.
        once = ElsewhereOnce(target, site, self._where) if site.fence else Elsewhere(target)
        return SqlTableWriter(self._rows, once)

    def _fit(self, begun: AbstractContextManager[Connection]) -> None:
        try:
            with told_as_sinks(self._where), begun as connection:
                if self.at is not None:
                    fit_marks(connection, self._where)
                fit(connection, self._rows)
        except (SinkRefused, TargetMissing) as error:
            raise ConfigError(str(error)) from error

    @property
    def _rows(self) -> Rows:
        return Rows(
            self.name,
            self.columns,
            self.key,
            self.update,
            self._where,
            self.newest_by,
            self.delete_by,
        )

    @property
    def _where(self) -> str:
        return f"table {self.name}" + (f" at {self.at}" if self.at is not None else "")


def _forget(site: Site, at: str, tenant: str) -> None:
    target_of(site.connections, at, tenant).fitted.clear()


def _problem(sink: SqlTable) -> str | None:
    updated = sink.update or {}
    for name in (*sink.key, *updated):
        if name not in sink.columns:
            return f"key or update names {name!r}, which is no column"
    if updated and not sink.key:
        return "update needs a key: without one no row is there already"
    both = sorted(set(sink.key) & set(updated))
    if both:
        return f"{both[0]!r} is in the key and in update"
    return _newest_problem(sink) or _naming_problem(sink)


def _newest_problem(sink: SqlTable) -> str | None:
    if sink.newest_by is not None and not sink.key:
        return "newest_by needs a key: without one every row is a new one"
    if sink.newest_by is not None and sink.update is not None:
        return "newest_by and update do not go together: a row that comes late would be left out"
    for name in {sink.newest_by, sink.delete_by} & set(sink.key):
        return f"{name!r} is in the key, and newest_by and delete_by are not of it"
    return problem_of(
        sink.columns, sink.newest_by, sink.delete_by, in_one_lane=sink.key_in_one_lane
    )


def _naming_problem(sink: SqlTable) -> str | None:
    for name in (sink.name, *sink.columns):
        if not _IDENTIFIER.fullmatch(name):
            return f"{name!r} is no name: use lower-case letters, digits and underscores"
    if sink.name.startswith("headrace_"):
        return "names that start with headrace_ are the store's own"
    if problem := kinds_problem(sink.columns):
        return problem
    if sink.at is not None and (problem := name_problem(sink.at)):
        return problem
    return None if sink.columns else "it needs columns"
