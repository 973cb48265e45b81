"""Parquet files below the warehouse or in an object store. Guarantee: exactly-once, by intent.

A file cannot be in the store's transaction, so the second best is used: the same effect written
twice leaves the same file. Its name is made of the effect's identity (`names.py`), and it appears
at once and whole or not at all, which each kind of place does in its own way: a disk by a rename
(`on_disk.py`), an object store by a write that is refused where the name is taken (`in_store.py`).

Exactly-once holds when a slice that is run again reaches the same offsets, as the driver's recorded
slices do. At-least-once may leave two files whose ranges overlap; readers can tell by their names.
A topic made again under the same name starts at offset 0 again; move the old files away before it
is read. An empty table leaves no file. Small files are not merged here: a folder has no list that
changes at once, and a late writer would bring back a name that was merged away. Nor is it found out
here whether executors share the warehouse: the engine does not let a worker begin that does not see
the driver's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import ClassVar, Literal

import pyarrow as pa

from headrace.connectors.files import in_store, on_disk
from headrace.connectors.files.names import encoded
from headrace.connectors.files.shape import Shape, demand_sequence
from headrace.connectors.local_files import demand_below_warehouse, folder_at
from headrace.connectors.own_servers import name_problem
from headrace.errors import ConfigError
from headrace.ports import SinkWriter, Site


@dataclass(frozen=True)
class ParquetFiles:
    """A folder of Parquet files, one sub-folder a tenant.

    Args:
        folder: path below the warehouse, or below what ``at`` says; each use case needs one of its
            own.
        schema: columns that tables must have, by name and type; None takes any table. A column
            that may not be null (``nullable=False``) takes any that has no null. For
            ``decimal128`` and ``date32`` a table may also have whole numbers, text or decimals of
            other digits: what fits exactly is written as the schema says, and all else refused.
        partition_by: columns whose values are folders, below that of the tenant: text, whole
            numbers or dates, with few values in one slice, since each makes a file. They must
            follow from the records alone, such as the day of a record.
        at: name of an object store under ``connections`` in the YAML file; None: the warehouse.
            With ``{tenant}`` in it, or in the URL that it stands for, each tenant has its own.

    Raises:
        ConfigError: the folder is absolute, empty, a URL or has ``..`` in it; or the columns cannot
            divide the rows, or ``at`` is no name.
    """

    folder: str
    schema: pa.Schema | None = None
    partition_by: Sequence[str] = ()
    at: str | None = None
    #: ``partition_by`` as recorded waves know it, since files divided otherwise have other names;
    #: None where nothing divides, so that waves of earlier versions still match
    divided_by: str | None = field(init=False, default=None)
    keeps_newest: ClassVar[bool] = False

    def __post_init__(self) -> None:
        by = demand_sequence(self.partition_by)
        object.__setattr__(self, "partition_by", by)
        object.__setattr__(self, "divided_by", "/".join(map(encoded, by)) or None)
        demand_below_warehouse(self.folder)
        if self.at is not None and (problem := name_problem(self.at)):
            raise ConfigError(problem)
        self._shape.demand()

    @property
    def exactly_once(self) -> Literal["intent"]:
        """The same effect leaves the same file."""
        return "intent"

    @property
    def needs_shared_folder(self) -> bool:
        """Files on an executor's own disk would be where nobody looks."""
        return self.at is None

    def prepare(self, site: Site) -> None:
        """Make the folder, or see that the object store is one where files are safe.

        Where each tenant has its own, that is done by who first writes to it.

        Raises:
            ConfigError: there is no warehouse, or this user may not write to it; the YAML file
                names no such connection, or the store does not do what is needed of it.
            SinkUnavailable: the disk is full or fails, or the store does not answer.
        """
        if self.at is None:
            on_disk.prepare(folder_at(site, self.folder))
        else:
            in_store.prepare(site, self.at, self._place)

    def check(self, output: pa.Table) -> None:
        """See that a handler's table has the columns.

        Raises:
            WrongSchema: the message names the column.
            SinkRefused: an amount or a day does not fit; the message names column and row.
        """
        self._shape.taken(output)

    def open(self, site: Site) -> SinkWriter:
        """Open the writer of a bin; touches nothing yet.

        Raises:
            ConfigError: there is no warehouse.
        """
        if self.at is None:
            root = folder_at(site, self.folder)
            return on_disk.ParquetWriter(root, self._shape, replays=bool(site.wave_id))
        return in_store.StoreWriter(site, self.at, self._place, self._shape)

    @property
    def _place(self) -> str:
        """The folder as a store is to have it, which knows no other way to write it."""
        return str(PurePosixPath(self.folder))

    @property
    def _shape(self) -> Shape:
        where = self.folder if self.at is None else f"{self.folder} at {self.at}"
        return Shape(self.schema, tuple(self.partition_by), where)
