"""Rows into a table of the store's own database. Guarantee: exactly-once, by transaction.

A score that is counted up twice is wrong for ever, and no key makes ``score + 1`` repeatable. But
the positions are in the same database: so the rows and the moves of the positions go in one
transaction, the moves are compare-and-set, and whatever is killed, both happen or neither. A
slice that was done before, or a zombie's, moves nothing and writes nothing. Should the answer to a
commit be lost, the same compare-and-set tells what became of it.

Many tenants' effects share one transaction, since what costs is the commit. The whole group is
tried at once: one round of moves, one ``executemany``. Only if the database refuses a row is the
group halved, under savepoints, until the bad effect is alone: it costs its own tenant only, and
the others some twenty statements, not a savepoint each.

Used at-least-once (``move_positions`` off), rows may be written again; with a ``key`` and no
``update`` that changes nothing. Used at-most-once, a commit whose answer is lost is not made again:
its rows are there or lost. The database is SQLite or PostgreSQL, the store's; this sink does
not write to another one, does not alter a table that is there, and makes no index but the key's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal

import pyarrow as pa
from sqlalchemy import Connection, inspect
from sqlalchemy.exc import DBAPIError
from sqlalchemy.schema import CreateTable

from headrace.connectors.columns import check_columns
from headrace.connectors.outcomes import failed, told
from headrace.connectors.sql.errors import translated
from headrace.connectors.sql.guests import in_sql
from headrace.connectors.sql.statement import (
    kept_upsert_sql,
    narrower_than,
    rows_of,
    table_of,
    type_of,
)
from headrace.errors import (
    ConfigError,
    OutcomeUnknown,
    SinkRefused,
    SinkUnavailable,
    StoreUnavailable,
)
from headrace.model.records import Move
from headrace.payload.exact import digits_of
from headrace.ports import Effect, HostPositions, Site, Written
from headrace.process.crash_points import reached

_SUPERSEDED = Written(superseded=True)
_IDENTIFIER = re.compile(r"[a-z_][a-z0-9_]{0,62}")


@dataclass(frozen=True)
class SqlTable:
    """A table in the store's database.

    Args:
        name: name of the table; it is made when it is not there.
        columns: name and kind of each column: ``text``, ``bigint``, ``double``, ``boolean``,
            ``bytes``, ``timestamp`` (with a zone), ``date``, ``decimal(p, s)`` (p digits, s of
            them after the point). Tables returned by the handler must have exactly these.
        key: columns that identify a row. Without a key every row is a new one.
        update: what to do with a row that is there: column to SQL expression, in which
            ``excluded.score`` is the new value and ``scores.score`` (by the table's name) the
            present one. Columns not named keep their present value. None overwrites them all:
            the last write wins. Rows are written in their order, so an expression may depend on
            it. Expressions go into the statement as they are: they are code, written by the
            developer of the use case, and must never be built from what a tenant sends.

    Raises:
        ConfigError: a name is no plain lower-case identifier, a kind is unknown, or ``key`` and
            ``update`` do not fit the columns.
    """

    name: str
    columns: Mapping[str, str]
    key: tuple[str, ...] = ()
    update: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", dict(self.columns))
        object.__setattr__(self, "key", tuple(self.key))
        problem = _problem(self)
        if problem:
            raise ConfigError(f"table {self.name!r}: {problem}")

    @property
    def exactly_once(self) -> Literal["transaction"]:
        """It moves the positions in its own transaction."""
        return "transaction"

    def prepare(self, site: Site) -> None:
        """Make the table, or see that the one there has the columns and the key.

        Raises:
            ConfigError: the table is there and lacks a column or the key.
            SinkUnavailable: the database does not answer.
        """
        table = table_of(self.name, self.columns, self.key)
        with _transaction(in_sql(site.positions), self._where) as connection:
            dialect = connection.dialect.name
            self._check_amounts(dialect)
            connection.execute(CreateTable(table, if_not_exists=True))
            found = inspect(connection)
            types = {column["name"]: column["type"] for column in found.get_columns(self.name)}
            unique = [found.get_pk_constraint(self.name)["constrained_columns"]]
            unique += [
                constraint["column_names"] for constraint in found.get_unique_constraints(self.name)
            ]
        for column, kind in self.columns.items():
            if column not in types:
                raise ConfigError(
                    f"table {self.name} is there without column {column!r}: add it, or name "
                    "another table"
                )
            narrower = narrower_than(kind, types[column], dialect)
            if narrower:
                raise ConfigError(
                    f"table {self.name} is there with column {column!r} as {narrower}, which does "
                    f"not keep every {kind}: widen it, or name another table"
                )
        if self.key and set(self.key) not in [set(columns) for columns in unique]:
            raise ConfigError(
                f"table {self.name} is there without a unique key ({', '.join(self.key)}): add it, "
                "or name another table"
            )

    def check(self, output: pa.Table) -> None:
        """See that a handler's table has the columns, and values that fit them.

        Raises:
            WrongSchema: the message names the column.
            SinkRefused: a value does not fit, such as an amount with a digit too many.
        """
        check_columns(output.schema, self.columns, self._where)
        _rows(self, [output], "postgresql")

    def _check_amounts(self, dialect: str) -> None:
        """See that no expression reckons with amounts where the database would do it in floats."""
        if dialect != "sqlite":
            return
        amounts = [name for name, kind in self.columns.items() if digits_of(kind)]
        for expression in (self.update or {}).values():
            for name in amounts:
                taken = re.fullmatch(rf"\s*excluded\.{name}\s*", expression)
                if not taken and re.search(rf"\b{name}\b", expression):
                    raise ConfigError(
                        f"table {self.name}: SQLite would reckon {expression!r} in floats, which "
                        f"are not exact: use PostgreSQL (on one machine 'headrace up --store "
                        f"postgres'), or a bigint of the smallest unit for {name!r}"
                    )

    def open(self, site: Site) -> SqlTableWriter:
        """Open the writer of a bin; contacts nobody yet."""
        return SqlTableWriter(self, in_sql(site.positions))

    @property
    def _where(self) -> str:
        return f"table {self.name}"


class SqlTableWriter:
    """Writes groups of effects, a transaction for each group."""

    def __init__(self, sink: SqlTable, positions: HostPositions[Connection]) -> None:
        self._sink = sink
        self._positions = positions
        self._where = f"table {sink.name}"

    def write(self, effects: Sequence[Effect]) -> Sequence[Written]:
        """Write all effects that can be written; see ``SinkWriter.write``."""
        outcomes = dict(self._wrong(effects))
        group = [effect for index, effect in enumerate(effects) if index not in outcomes]
        try:
            written = iter(self._write_group(group))
        except SinkUnavailable as error:
            written = iter([failed(error)] * len(group))
        return [outcomes.get(index) or next(written) for index in range(len(effects))]

    def close(self) -> None:
        """Nothing to give up: connections are the store's."""

    def _wrong(self, effects: Sequence[Effect]) -> Iterator[tuple[int, Written]]:
        right = None
        for index, effect in enumerate(effects):
            schema = effect.output.schema
            nothing = effect.output.num_columns == effect.output.num_rows == 0
            if nothing or (right is not None and schema.equals(right)):
                continue
            try:
                check_columns(schema, self._sink.columns, self._where)
                right = schema
            except Exception as error:
                yield index, failed(error, self._where)

    def _write_group(self, group: Sequence[Effect]) -> list[Written]:
        if not group:
            return []
        written: list[Written] = []
        try:
            with _transaction(self._positions, self._where) as connection:
                written = self._write_or_halve(connection, group)
                reached("mid-write", group[0].slices[0].lane.use_case)
        except SinkUnavailable as error:
            if not isinstance(error.__cause__, OutcomeUnknown):
                raise
            if not all(effect.may_repeat for effect in group):
                raise SinkUnavailable(f"{error}; not written again: at most once") from error
            return self._write_again(group, written)
        return written

    def _write_again(self, group: Sequence[Effect], before: Sequence[Written]) -> list[Written]:
        """Write a group whose commit may have happened.

        Where positions move with the rows, what it did is found, not done again: the same moves
        wait for the lost transaction to end, so they tell what became of it. One that is refused is
        ours if its lane stands where we left it: nobody else moves it there without the same rows.
        """
        with _transaction(self._positions, self._where) as connection:
            after = self._write_or_halve(connection, group)
            return [
                first
                if first.committed and again.superseded and self._is_done(connection, effect)
                else again
                for effect, first, again in zip(group, before, after, strict=True)
            ]

    def _is_done(self, connection: Connection, effect: Effect) -> bool:
        stays = [
            Move(move.lane, move.to_offset, move.to_offset, move.epoch) for move in effect.moves
        ]
        return all(self._positions.advance_in(connection, stays))

    def _write_or_halve(self, connection: Connection, group: Sequence[Effect]) -> list[Written]:
        try:
            with connection.begin_nested():
                moved = self._move(connection, group)
                self._insert(connection, [e for e, ok in zip(group, moved, strict=True) if ok])
        except (SinkRefused, _PartlyMovedError) as error:
            if len(group) == 1:
                return [failed(error) if isinstance(error, SinkRefused) else _SUPERSEDED]
        else:
            return [
                Written(committed=effect.move_positions) if ok else _SUPERSEDED
                for effect, ok in zip(group, moved, strict=True)
            ]
        half = len(group) // 2
        first = self._write_or_halve(connection, group[:half])
        return first + self._write_or_halve(connection, group[half:])

    def _move(self, connection: Connection, effects: Sequence[Effect]) -> list[bool]:
        moves = [move for effect in effects if effect.move_positions for move in effect.moves]
        answers = iter(self._positions.advance_in(connection, moves) if moves else ())
        moved = []
        for effect in effects:
            mine = list(islice(answers, len(effect.slices))) if effect.move_positions else [True]
            if any(mine) and not all(mine):
                raise _PartlyMovedError
            moved.append(all(mine))
        return moved

    def _insert(self, connection: Connection, effects: Sequence[Effect]) -> None:
        dialect = connection.dialect.name
        sink = self._sink
        statement = kept_upsert_sql(sink.name, sink.columns, sink.key, sink.update, dialect)
        tables = [effect.output for effect in effects if effect.output.num_rows]
        rows = _rows(sink, tables, dialect)
        if not rows:
            return
        try:
            connection.exec_driver_sql(statement, rows)
        except DBAPIError as error:
            raise translated(error, self._where) from error
        except Exception as error:  # a driver raises its own of a value that it cannot bind
            raise told(error, self._where) from error


def _rows(sink: SqlTable, tables: Sequence[pa.Table], dialect: str) -> list[tuple[Any, ...]]:
    try:
        return rows_of(tables, sink.columns, dialect)
    except (ValueError, OverflowError, pa.ArrowException) as error:
        # Such as a date after the year 9999; it must not stop the other tenants.
        raise SinkRefused(f"table {sink.name}: a value cannot be written: {error}") from error
    except Exception as error:
        raise told(error, f"table {sink.name}") from error


class _PartlyMovedError(Exception):
    """Some positions of an effect moved and some did not: it must be undone alone."""


@contextmanager
def _transaction(positions: HostPositions[Connection], where: str) -> Iterator[Connection]:
    try:
        with positions.begin() as connection:
            yield connection
    except StoreUnavailable as error:
        raise SinkUnavailable(f"{where}: {error}", retry_after_s=error.retry_after_s) from error
    except DBAPIError as error:
        raise translated(error, where) from error


def _problem(sink: SqlTable) -> str | None:
    updated = sink.update or {}
    for name in (*sink.key, *updated):
        if name not in sink.columns:
            return f"key or update names {name!r}, which is no column"
    if updated and not sink.key:
        return "update needs a key: without one no row is there already"
    both = sorted(set(sink.key) & set(updated))
    return f"{both[0]!r} is in the key and in update" if both else _naming_problem(sink)


def _naming_problem(sink: SqlTable) -> str | None:
    for name in (sink.name, *sink.columns):
        if not _IDENTIFIER.fullmatch(name):
            return f"{name!r} is no name: use lower-case letters, digits and underscores"
    if sink.name.startswith("headrace_"):
        return "names that start with headrace_ are the store's own"
    for name, kind in sink.columns.items():
        try:
            type_of(kind)
        except ValueError as error:
            return f"column {name!r}: {error}"
    return None if sink.columns else "it needs columns"
