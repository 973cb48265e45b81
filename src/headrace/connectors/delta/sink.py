"""Rows into a Delta table, on a disk or in an object store. Guarantee: exactly-once, by intent.

All effects of a call go in one commit, so a bin makes few of them, and readers see all of it at
once or nothing. A commit also brings the marks of its lanes (`marks.py`), so an attempt at a
recorded wave finds what an earlier one has done, and leaves it out (`writer.py`).

The table is made at deploy, and given the columns that a newer version adds. It is divided by
columns of the rows, such as tenant and day. Used at-least-once rows may come again, and nobody can
tell; at-most-once a commit of which nobody knows is not made again. Small files are merged, and
old ones removed, by `headrace tables`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import ClassVar, Literal

import pyarrow as pa

from headrace.connectors.arrow_tables import checked, conformed
from headrace.connectors.delta.fitting import Target
from headrace.connectors.delta.homes import Home
from headrace.connectors.delta.in_store import bucket_at, demand_in_store
from headrace.connectors.delta.kinds import demand_columns
from headrace.connectors.delta.making import make
from headrace.connectors.delta.on_disk import Folder
from headrace.connectors.delta.writer import DeltaWriter
from headrace.connectors.local_files import demand_below_warehouse, folder_at
from headrace.errors import CodeNotLoaded, ConfigError
from headrace.ports import Site


@dataclass(frozen=True)
class DeltaTable:
    """A Delta table in a folder below the warehouse, or in an object store.

    Args:
        folder: path below the warehouse, or below what ``at`` says; several use cases may write to
            one table.
        schema: the columns that tables returned by the handler must have, by name and type, in this
            order. A new version may add columns that may be null; all others stay as they are. For
            ``decimal128`` and ``date32`` a table may also have whole numbers or text: what fits
            exactly is written, and all else refused.
        partition_by: columns that divide the table: text, whole numbers or dates, with few values
            in one slice, since each makes a file.
        at: name of an object store under ``connections`` in the YAML file; None: the warehouse.

    Raises:
        ConfigError: the folder is none below the warehouse, Delta has no such columns, or ``at``
            is no name of one connection.
    """

    folder: str
    schema: pa.Schema
    partition_by: Sequence[str] = ()
    at: str | None = None
    keeps_newest: ClassVar[bool] = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "partition_by", tuple(self.partition_by))
        demand_below_warehouse(self.folder)
        if self.at is not None:
            demand_in_store(self.folder, self.at)
        demand_columns(self.schema, self.partition_by, self._where)

    @property
    def exactly_once(self) -> Literal["intent"]:
        """The table knows which effects of a recorded wave it has."""
        return "intent"

    @property
    def needs_shared_folder(self) -> bool:
        """Files on an executor's own disk would be where nobody looks."""
        return self.at is None

    def prepare(self, site: Site) -> None:
        """Make the table, or add the columns that it lacks.

        Raises:
            ConfigError: there is no warehouse or connection, a client library is missing, the store
                does not do what is needed of it, or the table that is there differs in more than
                columns to add.
            SinkUnavailable: the disk is full or fails, or the store does not answer.
        """
        try:
            home = self._home(site, telling=True)
        except CodeNotLoaded as error:
            raise ConfigError(str(error)) from error
        make(home, self.schema, self.partition_by)

    def check(self, output: pa.Table) -> None:
        """See that a handler's table has the columns.

        Raises:
            WrongSchema: the message names the column.
            SinkRefused: a value does not fit; the message names column and row.
        """
        checked(conformed(output, self.schema, self._where), self.schema, self._where)

    def open(self, site: Site) -> DeltaWriter:
        """Open the writer of a bin; touches nothing yet.

        Raises:
            ConfigError: there is no warehouse or connection.
            CodeNotLoaded: the client of object stores is not installed.
        """
        target = Target(self._home(site), self.schema, tuple(self.partition_by))
        return DeltaWriter(target, site)

    def _home(self, site: Site, *, telling: bool = False) -> Home:
        if self.at is None:
            return Folder(folder_at(site, self.folder), self._where)
        folder = str(PurePosixPath(self.folder))
        return bucket_at(site.connections, self.at, folder, self._where, telling=telling)

    @property
    def _where(self) -> str:
        return f"Delta table {self.folder}" + (f" at {self.at}" if self.at else "")
