"""A Delta table in a folder that driver and executors share.

A file is there after a loss of power only if it was synced, and its name only if its folder was.
Delta's client does neither, so files are synced here before they are committed, and commits after.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from headrace.connectors.delta.homes import LOG, commit_path
from headrace.connectors.delta.library import not_there, told
from headrace.connectors.local_files import sync_all

#: bytes of rows that take much longer to write than a thread to start
_WORTH_A_THREAD = 4_000_000
_MOST_WRITERS = 7


@dataclass(frozen=True)
class Folder:
    """A home on a disk; see ``Home``."""

    root: Path
    where: str

    @property
    def uri(self) -> str:
        """The table, for Delta's client."""
        return str(self.root)

    @property
    def options(self) -> dict[str, str] | None:
        """Nothing has to be said."""
        return None

    def told(self) -> AbstractContextManager[None]:
        """See ``library.told``."""
        return told(self.where)

    def make_ready(self) -> None:
        """Make the folder."""
        with self.told():
            self.root.mkdir(parents=True, exist_ok=True)

    def demand_ready(self) -> None:
        """Nothing: that it is shared is seen before a task begins (`spark/shared_folder.py`)."""

    def identity(self) -> int:
        """The log's own number."""
        try:
            return (self.root / LOG).stat().st_ino
        except (FileNotFoundError, NotADirectoryError):
            raise not_there(self.where) from None

    def write(self, path: str, fill: Callable[[pa.NativeFile], None]) -> int:
        """Write a file, by Arrow's own calls, which need not wait for Python."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        with pa.OSFile(str(file), "wb") as out:
            fill(out)
            return out.tell()

    def writers(self, size_bytes: int) -> int:
        """One, but of large files: to start a thread costs as much as to write a small one."""
        return 1 + min(size_bytes // _WORTH_A_THREAD, _MOST_WRITERS)

    def settle(self, paths: Sequence[str]) -> None:
        """Sync files, and all folders on the way to them."""
        sync_all([self.root / path for path in paths], self.root)

    def has_all(self, paths: Sequence[str]) -> bool:
        """Whether all these files are there."""
        return all((self.root / path).exists() for path in paths)

    def remove(self, paths: Iterable[str]) -> None:
        """Take away files that no commit has."""
        for path in paths:
            with suppress(OSError):
                (self.root / path).unlink()

    def left_in_doubt(self, paths: Iterable[str]) -> None:
        """There is no doubt: what a disk has not done by now it does no more."""
        self.remove(paths)

    def read(self, path: str) -> bytes | None:
        """A file, if it is there."""
        try:
            return (self.root / path).read_bytes()
        except FileNotFoundError:
            return None

    def names_in_log(self, after: str) -> Iterable[str]:
        """All of them."""
        return (path.name for path in (self.root / LOG).iterdir() if path.name > after)

    def parquet(self, path: str) -> Path:
        """Arrow reads of it what it needs."""
        return self.root / path

    def settle_commits(self, versions: range) -> None:
        """Sync commits, and a checkpoint after the last of them."""
        commits = [self.root / commit_path(version) for version in versions]
        last = commits[-1]
        after = [last.with_suffix(".checkpoint.parquet"), last.with_name("_last_checkpoint")]
        sync_all([path for path in [*commits, *after] if path.exists()], last.parent)
