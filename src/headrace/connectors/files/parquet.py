"""Parquet files in a folder of the warehouse. Guarantee: exactly-once, by intent.

A file cannot be in the store's transaction, so the second best is used: the same effect written
twice leaves the same file. Its name is made of the effect's identity, and it appears at once and
whole or not at all: written and synced as ``_unfinished/<random>.parquet``, then renamed. Spark and
others pass over names that start with ``_``. Two zombies never share an unfinished file, and the
later rename replaces a file with an equal one. What a killed process left unfinished is removed
by ``prepare`` when it is a day old.

The files of one effect are::

    <warehouse>/<folder>/tenant=<tenant>/<use case>@<topic>-<lane>-<from>-<reached>.parquet

with places of 20 digits or more, so that names sort as the log does, and the number of a lane of
that topic, or else its name; an effect of several lanes (order
``stream``) has the name of its first lane, followed by ``-and-`` and 16 digits of the SHA-256 of
its whole identity. Characters outside ``A-Z a-z 0-9 . _ -`` are percent-encoded, as Hive and Spark
do it, so that no name can leave its folder. A file system takes 255 bytes: of a longer name, what
stands before the places is cut, and followed by ``--`` and 16 digits of the SHA-256 of all of it.

Exactly-once holds when a slice that is run again reaches the same offsets, as the driver's recorded
slices do. At-least-once may leave two files whose ranges overlap; readers can tell by their names.
There is no fencing: a zombie can only write a file that is due, or was. A topic made again under
the same name starts at offset 0 again; move the old files away before it is read. An empty table
leaves no file; when a recorded slice comes to one, that of an earlier attempt goes. Small files
are not merged here. Nor is it found out here whether executors share the warehouse: the engine does
not let a worker begin that does not see the driver's.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import ClassVar, Literal
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.connectors.arrow_tables import checked, conformed
from headrace.connectors.local_files import (
    demand_below_warehouse,
    folder_at,
    passes_by,
    sync_folder,
)
from headrace.connectors.outcomes import failed, identity
from headrace.errors import (
    ConfigError,
    HeadraceError,
    SinkUnavailable,
    TargetMissing,
    WrongSchema,
)
from headrace.model.lane_names import written_name
from headrace.model.streams import original
from headrace.ports import Effect, Site, Written
from headrace.process.crash_points import reached

_UNFINISHED = "_unfinished"
#: an unfinished file older than this belongs to nobody: no write takes so long
_ABANDONED_AFTER_S = 24 * 3600.0
#: bytes of a name that file systems take
_MOST = 255
#: what is left of a percent-encoding that was cut
_CUT_WITHIN = re.compile("%[0-9A-F]?$")


@dataclass(frozen=True)
class ParquetFiles:
    """A folder of Parquet files, one sub-folder a tenant.

    Args:
        folder: path below the warehouse; each use case needs one of its own.
        schema: columns that tables must have, by name and type; None takes any table. A column
            that may not be null (``nullable=False``) takes any that has no null. For
            ``decimal128`` and ``date32`` a table may also have whole numbers, text or decimals of
            other digits: what fits exactly is written as the schema says, and all else refused.

    Raises:
        ConfigError: the folder is absolute, empty, a URL or has ``..`` in it.
    """

    folder: str
    schema: pa.Schema | None = None
    #: files on an executor's own disk would be where nobody looks
    needs_shared_folder: ClassVar[bool] = True
    keeps_newest: ClassVar[bool] = False

    def __post_init__(self) -> None:
        demand_below_warehouse(self.folder)

    @property
    def exactly_once(self) -> Literal["intent"]:
        """The same effect leaves the same file."""
        return "intent"

    def prepare(self, site: Site) -> None:
        """Make the folder; remove what was left unfinished a day ago or earlier.

        Raises:
            ConfigError: there is no warehouse, or this user may not write to it.
            SinkUnavailable: the disk is full or fails.
        """
        unfinished = folder_at(site, self.folder) / _UNFINISHED
        try:
            unfinished.mkdir(parents=True, exist_ok=True)
            sync_folder(unfinished.parent)
            for path in unfinished.iterdir():
                _remove_abandoned(path)
        except OSError as error:
            raise _translated(error, unfinished, ConfigError) from error

    def check(self, output: pa.Table) -> None:
        """See that a handler's table has the columns.

        Raises:
            WrongSchema: the message names the column.
            SinkRefused: an amount or a day does not fit; the message names column and row.
        """
        checked(conformed(output, self.schema, self.folder), self.schema, self.folder)

    def open(self, site: Site) -> ParquetWriter:
        """Open the writer of a bin; touches nothing yet.

        Raises:
            ConfigError: there is no warehouse.
        """
        return ParquetWriter(folder_at(site, self.folder), self.schema, replays=bool(site.wave_id))


class ParquetWriter:
    """Writes one file for each effect, and syncs each folder once for each call."""

    def __init__(self, root: Path, schema: pa.Schema | None, *, replays: bool) -> None:
        """Take a folder and the columns of its files; ``replays``: an attempt may have been."""
        self._root = root
        self._schema = schema
        self._replays = replays

    def write(self, effects: Sequence[Effect]) -> Sequence[Written]:
        """Write all effects that can be written; see ``SinkWriter.write``."""
        outcomes = [Written()] * len(effects)
        folders: dict[Path, list[int]] = {}
        for index, effect in enumerate(effects):
            try:
                path = self._root / file_name(effect)
                if self._leave(effect, path):
                    folders.setdefault(path.parent, []).append(index)
            except Exception as error:  # Arrow has many kinds, and the table is one tenant's
                outcomes[index] = failed(error, str(self._root))
        if folders:
            # The sub-folders' own names are in the folder above; it is synced like one of them.
            folders[self._root] = [index for indexes in folders.values() for index in indexes]
        for folder, indexes in folders.items():
            try:
                sync_folder(folder)
            except OSError as error:
                for index in indexes:
                    outcomes[index] = failed(_translated(error, folder))
        return outcomes

    def close(self) -> None:
        """Nothing to give up: no file stays open."""

    def _leave(self, effect: Effect, path: Path) -> bool:
        """Let the file be there, or not if it would be empty; whether anything was done."""
        table = conformed(effect.output, self._schema, self._root)
        if table.num_columns or table.num_rows:
            table = checked(table, self._schema, self._root)
        if table.num_rows == 0:
            return self._replays and _removed(path)
        # Such as text that is no UTF-8: it could be written, and nobody could read the file.
        table.validate(full=True)
        self._write_file(table, path, effect.slices[0].lane.use_case)
        return True

    def _write_file(self, table: pa.Table, path: Path, use_case: str) -> None:
        unfinished = self._root / _UNFINISHED / f"{uuid.uuid4().hex}.parquet"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            unfinished.parent.mkdir(exist_ok=True)
            try:
                _write_synced(table, unfinished)
                reached("mid-write", use_case)
                unfinished.replace(path)
            except BaseException:
                unfinished.unlink(missing_ok=True)
                raise
        except pa.ArrowNotImplementedError as error:
            raise WrongSchema(f"{path.parent}: Parquet cannot hold this table: {error}") from error
        except OSError as error:
            raise _translated(error, path) from error


def file_name(effect: Effect) -> PurePosixPath:
    """Name the file of an effect, below the sink's folder; nothing but its identity decides it."""
    first, reached = effect.slices[0], effect.reached[0]
    lane = first.lane
    name = (
        f"{_encoded(original(lane.use_case))}@{_encoded(first.topic)}"
        f"-{_encoded(written_name(lane.name, first.topic))}"
    )
    places = f"-{first.from_offset:020d}-{reached:020d}"
    if len(effect.slices) > 1:
        places += f"-and-{_digest(identity(effect))}"
    tenant = _fitting("tenant=" + _encoded(lane.tenant), "")
    return PurePosixPath(tenant) / _fitting(name, f"{places}.parquet")


def _fitting(name: str, end: str) -> str:
    """A name with its end, cut and with a digest of it all if it is longer than names may be."""
    if len(name) + len(end) <= _MOST:
        return name + end
    mark = f"--{_digest(name)}"
    kept = name[: _MOST - len(mark) - len(end)]
    return _CUT_WITHIN.sub("", kept) + mark + end


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _encoded(name: str) -> str:
    # A file whose name starts with "." or "_" would be passed over by readers.
    encoded = quote(name, safe="").replace("~", "%7E")
    return f"%{ord(encoded[0]):02X}{encoded[1:]}" if encoded[:1] in {".", "_"} else encoded


def _write_synced(table: pa.Table, path: Path) -> None:
    with path.open("xb") as file:
        pq.write_table(table, file, compression="zstd")
        file.flush()
        os.fsync(file.fileno())


def _removed(path: Path) -> bool:
    """Take away what an attempt of an earlier version left; whether there was anything."""
    try:
        path.unlink()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise _translated(error, path) from error
    return True


def _remove_abandoned(path: Path) -> None:
    try:
        if time.time() - path.stat().st_mtime > _ABANDONED_AFTER_S:
            path.unlink()
    except FileNotFoundError:
        # Its writer was quicker: it was renamed or removed meanwhile.
        return


def _translated(
    error: OSError, path: Path, lasts: type[HeadraceError] = TargetMissing
) -> HeadraceError:
    """In our words; what ``lasts`` is of no record: lanes stop, whatever is done with bad ones."""
    if passes_by(error):
        return SinkUnavailable(f"{path}: cannot be written now: {error.strerror or error}")
    return lasts(
        f"{path}: cannot be written: {error.strerror}; check the folder and the rights to it"
    )
