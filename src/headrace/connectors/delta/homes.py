"""What is asked of the home of a Delta table: a folder of a disk, or of an object store.

All paths are below the table's folder. Commits are made by Delta's client, which each home tells
how it is reached; whatever else is read or written of a table goes through here.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

import pyarrow as pa

LOG = "_delta_log"


class Home(Protocol):
    """A folder. Hashable: the same one is equal to itself in a process."""

    @property
    def where(self) -> str:
        """Names the table, in what people read."""

    @property
    def uri(self) -> str:
        """The table, for Delta's client."""

    @property
    def options(self) -> dict[str, str] | None:
        """How Delta's client reaches it."""

    def told(self) -> AbstractContextManager[None]:
        """Tell what a library or the system meets in the words of sinks; see ``library.told``."""

    def make_ready(self) -> None:
        """Let there be such a folder, and see that a table is safe in it; what a deploy does.

        Raises:
            TargetMissing: a person has to mend it.
            SinkUnavailable: it cannot be reached now.
        """

    def demand_ready(self) -> None:
        """See that it is the folder that was made ready; what a worker does.

        Raises:
            SinkUnavailable: it is not, or cannot be reached now.
        """

    def identity(self) -> Hashable | None:
        """What tells this log from that of a table which is made again in its place.

        None: nothing does but what is in it.

        Raises:
            TargetMissing: there is no log.
        """

    def write(self, path: str, fill: Callable[[pa.NativeFile], None]) -> int:
        """Let there be a file, seen by nobody before a commit has it; its size."""

    def writers(self, size_bytes: int) -> int:
        """How many files at a time are worth it, of so many bytes of rows in all; 1 at least."""

    def settle(self, paths: Sequence[str]) -> None:
        """Make files durable, with all folders on the way to them."""

    def has_all(self, paths: Sequence[str]) -> bool:
        """Whether all these files are there."""

    def remove(self, paths: Iterable[str]) -> None:
        """Take away files that no commit has; one that stays goes by `headrace tables vacuum`."""

    def left_in_doubt(self, paths: Iterable[str]) -> None:
        """The same after a commit of them came to an error, and was not there when looked for."""

    def read(self, path: str) -> bytes | None:
        """A file, if it is there."""

    def names_in_log(self, after: str) -> Iterable[str]:
        """Names in the log, at least those that sort after this one."""

    def parquet(self, path: str) -> Path | pa.NativeFile:
        """A file as Arrow reads it."""

    def settle_commits(self, versions: range) -> None:
        """Make commits durable, and what was written after the last of them."""


def commit_path(version: int) -> str:
    """Where a commit stands."""
    return f"{LOG}/{version:020d}.json"
