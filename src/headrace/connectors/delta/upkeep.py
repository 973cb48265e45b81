"""Keeping a Delta table fit: small files are merged, and files that nothing names are removed.

A commit a second makes a file a second in each partition, and readers pay for each of them. To
merge is to commit again what is there, in fewer files: rows, marks and whoever writes meanwhile are
left alone, since a commit that only adds rows and one that only merges do not touch each other. A
partition is a commit of its own, so who stops in the middle loses nothing.

What was merged stays on the disk until it is removed, for those who read an older version. So do
files of writers that were killed before their commit. A file that a writer is about to commit looks
the same, and only its age tells: nothing younger than an hour goes. A writer that slept longer than
that looks for its files before it commits them. This module never runs by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from headrace.connectors.delta.homes import Home
from headrace.connectors.delta.in_store import bucket_at, demand_in_store
from headrace.connectors.delta.library import BeatenError, is_half_seen, library
from headrace.connectors.delta.on_disk import Folder
from headrace.errors import ConfigError, TargetMissing
from headrace.ports import Connections

TARGET_BYTES = 100 * 1024 * 1024
#: longer than a write takes from its first file to its commit, if nobody stops it
LEAST_HOURS = 1
_TRIES = 100
_PARTITION = "partition."

Partition = Mapping[str, str | None]


class Crowd(NamedTuple):
    """A partition with small files that can be merged."""

    partition: Partition
    files: int
    bytes: int

    def __str__(self) -> str:
        told_of = ", ".join(f"{name}={value}" for name, value in self.partition.items())
        return told_of or "all rows"


class Merged(NamedTuple):
    """How many files became how many."""

    before: int
    after: int


class File(NamedTuple):
    """A file of the table."""

    partition: Partition
    bytes: int


def crowds(files: Iterable[File], target: int = TARGET_BYTES) -> list[Crowd]:
    """Partitions of which two files at least go into one; the most files first."""
    small: dict[tuple[tuple[str, str | None], ...], list[int]] = {}
    for file in files:
        if file.bytes < target:
            small.setdefault(tuple(file.partition.items()), []).append(file.bytes)
    found = [
        Crowd(dict(partition), len(sizes), sum(sizes))
        for partition, sizes in small.items()
        if len(sizes) > 1 and sum(sorted(sizes)[:2]) <= target
    ]
    return sorted(found, key=lambda crowd: -crowd.files)


class Upkeep:
    """A Delta table that is looked after.

    Raises:
        TargetMissing: there is none at home.
        CodeNotLoaded: there is no client library.
    """

    def __init__(self, home: Home) -> None:
        self._home, lib = home, library()
        with home.told():
            self._table = lib.DeltaTable(home.uri, storage_options=home.options)

    def crowds(self) -> list[Crowd]:
        """What is there to merge, as of now."""
        with self._home.told():
            self._table.update_incremental()
            adds = pa.table(self._table.get_add_actions(flatten=True))
        return crowds(_files(adds.to_pylist()))

    def merge(self, crowd: Crowd) -> Merged:
        """Merge the small files of a partition.

        Raises:
            BeatenError: somebody else merges or changes it; nothing was done.
        """
        lib = library()
        chosen = [(name, "=", value or "") for name, value in crowd.partition.items()]
        properties = lib.CommitProperties(max_commit_retries=_TRIES)
        with self._home.told(), self._beaten():
            done = self._table.optimize.compact(
                partition_filters=chosen or None,
                target_size=TARGET_BYTES,
                commit_properties=properties,
            )
        return Merged(done["numFilesRemoved"], done["numFilesAdded"])

    @contextmanager
    def _beaten(self) -> Iterator[None]:
        """Where somebody else changes the table, take note of what they did."""
        try:
            yield
        except Exception as error:
            beaten = isinstance(error, library().exceptions.CommitFailedError)
            if not beaten and not is_half_seen(error):
                raise
            with suppress(library().exceptions.DeltaError):
                self._table.update_incremental()
            raise BeatenError from error

    def vacuum(self, hours: int, *, dry_run: bool) -> list[str]:
        """Remove files that no version younger than some hours has, and name them.

        Raises:
            ConfigError: a file that is being written could go.
        """
        if hours < LEAST_HOURS:
            raise ConfigError(
                f"--retention-hours {hours}: it is {LEAST_HOURS} at least, since files that a "
                "writer is about to commit are known by their age alone"
            )
        with self._home.told():
            removed: list[str] = self._table.vacuum(
                retention_hours=hours,
                dry_run=dry_run,
                enforce_retention_duration=False,
                full=True,
            )
        return sorted(removed)


def kept_in(warehouse: Path, name: str) -> Upkeep:
    """The table of this name in a warehouse.

    Raises:
        ConfigError: there is none; told is which there are.
        CodeNotLoaded: there is no client library.
    """
    root = warehouse / name
    if not library().DeltaTable.is_deltatable(str(root)):
        known = ", ".join(tables_in(warehouse)) or "none"
        raise ConfigError(f"there is no Delta table {name!r} in {warehouse}; there is {known}")
    return Upkeep(Folder(root, f"Delta table {name}"))


def kept_at(connections: Connections, at: str, name: str) -> Upkeep:
    """The table of this name in an object store.

    Raises:
        ConfigError: there is no such connection, or no table.
        SinkUnavailable: the store cannot be read now.
        CodeNotLoaded: there is no client library.
    """
    demand_in_store(name, at)
    home = bucket_at(connections, at, name, f"Delta table {name} at {at}", telling=True)
    try:
        return Upkeep(home)
    except TargetMissing as error:
        raise ConfigError(str(error)) from error


def tables_in(warehouse: Path) -> list[str]:
    """Delta tables in a warehouse, and in the folders of it."""
    found = [*warehouse.glob("*/_delta_log"), *warehouse.glob("*/*/_delta_log")]
    return sorted(str(log.parent.relative_to(warehouse)) for log in found)


def _files(adds: Iterable[Mapping[str, Any]]) -> Iterable[File]:
    for add in adds:
        partition = {
            name.removeprefix(_PARTITION): None if value is None else str(value)
            for name, value in add.items()
            if name.startswith(_PARTITION)
        }
        yield File(partition, add["size_bytes"])
