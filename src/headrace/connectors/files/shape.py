"""Which files a handler's table comes to: its columns, and how its rows are divided.

Columns that divide stand in the folders, as Hive has them, and not in the files::

    tenant=acme/day=2026-11-26/<name>.parquet

An effect then has a file for each of their values, all of one name. They come one after the other,
so who reads meanwhile may see some of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as at

from headrace.connectors.arrow_tables import checked, conformed, divided
from headrace.connectors.files.names import MOST, encoded, file_name
from headrace.errors import ConfigError, SinkRefused, WrongSchema
from headrace.ports import Effect

#: what Hive and Spark read as a null
_NULL = "__HIVE_DEFAULT_PARTITION__"
_DIVIDING = (at.is_string, at.is_integer, at.is_date32)


class File(NamedTuple):
    """Rows, and the file that they are to be in, below the sink's folder."""

    path: PurePosixPath
    rows: pa.Table


@dataclass(frozen=True, slots=True)
class Shape:
    """Columns of the tables that are taken, and those of them that divide the rows."""

    schema: pa.Schema | None
    partition_by: tuple[str, ...]
    where: str

    def demand(self) -> None:
        """See that rows can be divided so.

        Raises:
            ConfigError: the message names the column.
        """
        by = self.partition_by
        for name in by:
            if name == "tenant" or by.count(name) > 1:
                raise ConfigError(
                    f"{self.where}: partition_by names {name!r} twice; tenants are divided anyway"
                )
        if self.schema is not None:
            self._demand_columns(self.schema, ConfigError)

    def taken(self, output: pa.Table) -> pa.Table:
        """A handler's table as it is written.

        Raises:
            WrongSchema: the message names the column.
            SinkRefused: a value does not fit; the message names column and row.
        """
        table = checked(conformed(output, self.schema, self.where), self.schema, self.where)
        self._demand_columns(table.schema, WrongSchema)
        return table

    def files(self, effect: Effect) -> list[File]:
        """The files of an effect; none if it has no rows.

        Raises:
            WrongSchema: the message names the column.
            SinkRefused: a value does not fit, or cannot be the name of a folder.
        """
        output = effect.output
        if not output.num_columns and not output.num_rows:
            return []
        table, name = self.taken(output), file_name(effect)
        # Such as text that is no UTF-8: it could be written, and nobody could read the file.
        table.validate(full=True)
        if not table.num_rows:
            return []
        rows = table.drop_columns(list(self.partition_by))
        return [
            File(
                name.parent.joinpath(*self._folders(values), name.name),
                rows if places is None else rows.take(places),
            )
            for values, places in divided(table, self.partition_by)
        ]

    def body(self, rows: pa.Table, mark: str = "") -> bytes:
        """A file of these rows; with a mark no other attempt's file is the same, byte for byte.

        Raises:
            WrongSchema: Parquet has no such column.
        """
        out = pa.BufferOutputStream()
        if mark:
            about = dict(rows.schema.metadata or {}) | {b"headrace": mark.encode()}
            rows = rows.replace_schema_metadata(about)
        try:
            pq.write_table(rows, out, compression="zstd")
        except pa.ArrowNotImplementedError as error:
            raise WrongSchema(f"{self.where}: Parquet cannot hold this table: {error}") from error
        return out.getvalue().to_pybytes()

    def _folders(self, values: dict[str, Any]) -> list[str]:
        folders = []
        for name, value in values.items():
            text = _NULL if value is None else str(value)
            folder = f"{encoded(name)}={text if value is None else encoded(text)}"
            # Readers would see a null in both.
            if (value is not None and text in ("", _NULL)) or len(folder) > MOST:
                raise SinkRefused(
                    f"{self.where}: column {name!r}: a folder cannot have this value for its name: "
                    + ("it is too long" if text else "it is empty")
                )
            folders.append(folder)
        return folders

    def _demand_columns(
        self, schema: pa.Schema, lacking: type[ConfigError] | type[WrongSchema]
    ) -> None:
        for name in self.partition_by:
            if name not in schema.names:
                raise lacking(f"{self.where}: column {name!r} of partition_by is missing")
            if not any(fits(schema.field(name).type) for fits in _DIVIDING):
                raise lacking(
                    f"{self.where}: column {name!r} of partition_by is {schema.field(name).type}; "
                    "take text, whole numbers or date32"
                )
        if self.partition_by and len(schema.names) <= len(self.partition_by):
            raise lacking(f"{self.where}: it needs a column that does not divide it")


def demand_sequence(names: Sequence[str]) -> tuple[str, ...]:
    """Names of columns, where one alone was not said as text.

    Raises:
        ConfigError: it was.
    """
    if isinstance(names, str):
        raise ConfigError(f"partition_by={names!r}: write it as ({names!r},)")
    return tuple(names)
