"""Rows into a Delta table in a folder of the warehouse. Guarantee: exactly-once, by intent.

All effects of a call go in one commit, so a bin makes few of them, and readers see all of it at
once or nothing. A commit also brings the marks of its lanes (`marks.py`), so an attempt at a
recorded wave finds what an earlier one has done, and leaves it out (`writer.py`).

The table is made at deploy, and given the columns that a newer version adds. It is divided by
columns of the rows, such as tenant and day. Used at-least-once rows may come again, and nobody can
tell; at-most-once a commit of which nobody knows is not made again. Small files are merged, and
old ones removed, by `headrace tables`. Object stores are not spoken to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import pyarrow as pa

from headrace.connectors.arrow_tables import checked, conformed
from headrace.connectors.delta.kinds import demand_columns
from headrace.connectors.delta.making import make
from headrace.connectors.delta.writer import DeltaWriter, Target
from headrace.connectors.local_files import demand_below_warehouse, folder_at
from headrace.ports import Site


@dataclass(frozen=True)
class DeltaTable:
    """A Delta table in a folder below the warehouse.

    Args:
        folder: path below the warehouse; several use cases may write to one table.
        schema: the columns that tables returned by the handler must have, by name and type, in this
            order. A new version may add columns that may be null; all others stay as they are. For
            ``decimal128`` and ``date32`` a table may also have whole numbers or text: what fits
            exactly is written, and all else refused.
        partition_by: columns that divide the table: text, whole numbers or dates, with few values
            in one slice, since each makes a file.

    Raises:
        ConfigError: the folder is none below the warehouse, or Delta has no such columns.
    """

    folder: str
    schema: pa.Schema
    partition_by: Sequence[str] = ()
    #: files on an executor's own disk would be where nobody looks
    needs_shared_folder: ClassVar[bool] = True
    keeps_newest: ClassVar[bool] = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "partition_by", tuple(self.partition_by))
        demand_below_warehouse(self.folder)
        demand_columns(self.schema, self.partition_by, self._where)

    @property
    def exactly_once(self) -> Literal["intent"]:
        """The table knows which effects of a recorded wave it has."""
        return "intent"

    def prepare(self, site: Site) -> None:
        """Make the table, or add the columns that it lacks.

        Raises:
            ConfigError: there is no warehouse, the client library is missing, or the table that is
                there differs in more than columns to add.
            SinkUnavailable: the disk is full or fails.
        """
        make(folder_at(site, self.folder), self.schema, self.partition_by, self._where)

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
            ConfigError: there is no warehouse.
        """
        root = folder_at(site, self.folder)
        return DeltaWriter(Target(root, self.schema, tuple(self.partition_by), self._where), site)

    @property
    def _where(self) -> str:
        return f"Delta table {self.folder}"
