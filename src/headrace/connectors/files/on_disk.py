"""Files on a disk that all share: whole and synced under their name, or not there.

A file is written and synced as ``_unfinished/<random>.parquet``, then renamed. Spark and others
pass over names that start with ``_``. Two zombies never share an unfinished file, and the later
rename replaces a file with an equal one. What a killed process left unfinished is removed at a
deploy when it is a day old.

There is no fencing: a zombie can only write a file that is due, or was.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.connectors.files.names import file_name
from headrace.connectors.files.shape import Shape
from headrace.connectors.local_files import passes_by, sync_folder
from headrace.connectors.outcomes import failed
from headrace.errors import (
    ConfigError,
    HeadraceError,
    SinkUnavailable,
    TargetMissing,
    WrongSchema,
)
from headrace.ports import Effect, Written
from headrace.process.crash_points import reached

_UNFINISHED = "_unfinished"
#: an unfinished file older than this belongs to nobody: no write takes so long
_ABANDONED_AFTER_S = 24 * 3600.0


def prepare(root: Path) -> None:
    """Make the folder; remove what was left unfinished a day ago or earlier.

    Raises:
        ConfigError: this user may not write to it.
        SinkUnavailable: the disk is full or fails.
    """
    unfinished = root / _UNFINISHED
    try:
        unfinished.mkdir(parents=True, exist_ok=True)
        sync_folder(unfinished.parent)
        for path in unfinished.iterdir():
            _remove_abandoned(path)
    except OSError as error:
        raise _translated(error, unfinished, ConfigError) from error


class ParquetWriter:
    """Writes the files of each effect, and syncs each folder once for each call."""

    def __init__(self, root: Path, shape: Shape, *, replays: bool) -> None:
        """Take a folder and what its files are like; ``replays``: an attempt may have been."""
        self._root = root
        self._shape = shape
        self._replays = replays

    def write(self, effects: Sequence[Effect]) -> Sequence[Written]:
        """Write all effects that can be written; see ``SinkWriter.write``."""
        outcomes = [Written()] * len(effects)
        folders: dict[Path, list[int]] = {}
        for index, effect in enumerate(effects):
            try:
                for path in self._left(effect):
                    # The sub-folders' own names are in the folders above, which are synced as well.
                    for folder in self._folders_to(path):
                        folders.setdefault(folder, []).append(index)
            except Exception as error:  # Arrow has many kinds, and the table is one tenant's
                outcomes[index] = failed(error, str(self._root))
        for folder in sorted(folders, key=lambda folder: -len(folder.parts)):
            try:
                sync_folder(folder)
            except OSError as error:
                for index in folders[folder]:
                    outcomes[index] = failed(_translated(error, folder))
        return outcomes

    def close(self) -> None:
        """Nothing to give up: no file stays open."""

    def _left(self, effect: Effect) -> list[Path]:
        """Let the files be there, or not those that would be empty; what was done."""
        files = self._shape.files(effect)
        if not files:
            empty = self._root / file_name(effect)
            return [empty] if self._replays and _removed(empty) else []
        use_case = effect.slices[0].lane.use_case
        for path, rows in files:
            self._write_file(rows, self._root / path, use_case)
        return [self._root / path for path, _ in files]

    def _folders_to(self, path: Path) -> list[Path]:
        return [folder for folder in path.parents if folder.is_relative_to(self._root)]

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
