"""One server a folder.

Two brokers on the same files would destroy them. The lock is the kernel's (``flock``), so it goes
with the last process that holds it, however that process ends; there is no stale lock file to
delete. The file names its holder, for the message.

It does not work over a network file system, and neither do the servers.
"""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path
from types import TracebackType

import psutil

from headrace.errors import ServerError

_LOOK_EVERY_S = 0.05
_FILE = ".headrace.lock"


class FolderLock:
    """An exclusive lock on a folder; made and held from construction on.

    ``descriptor`` can be handed to a child process, which then holds the lock too.
    """

    def __init__(self, folder: Path, wait_s: float = 20.0, wait_for_living: bool = False) -> None:
        """Lock ``folder``, which is made if need be.

        A holder whose owner is gone is about to end, so it is waited for up to ``wait_s``; one
        whose owner lives only with ``wait_for_living``.

        Raises:
            ServerError: a living process holds it, or the folder cannot be written.
        """
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self.descriptor = os.open(folder / _FILE, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as exc:
            raise ServerError(f"folder {folder} cannot be written: {exc.strerror}") from exc
        try:
            self._take(folder, time.monotonic() + wait_s, wait_for_living)
        except BaseException:
            os.close(self.descriptor)
            raise

    def _take(self, folder: Path, deadline_s: float, wait_for_living: bool) -> None:
        while True:
            try:
                fcntl.flock(self.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                owner = self._owner()
                # who leaves lets go in a moment; a server that lives may hold on for days
                wait = wait_for_living or not psutil.pid_exists(owner)
                if not wait or time.monotonic() > deadline_s:
                    raise ServerError(
                        f"folder {folder} is in use by another server (process {owner}); "
                        "stop that one or choose another folder"
                    ) from None
                time.sleep(_LOOK_EVERY_S)
            else:
                os.ftruncate(self.descriptor, 0)
                os.pwrite(self.descriptor, str(os.getpid()).encode(), 0)
                return

    def _owner(self) -> int:
        return _owner(self.descriptor)

    def close(self) -> None:
        """Let go; a child that was given the descriptor still holds the folder."""
        os.close(self.descriptor)

    def __enter__(self) -> FolderLock:
        """Hold the folder for the length of a block."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Let go."""
        self.close()


def holder(folder: Path) -> int | None:
    """The living process that holds ``folder``; None if nobody does, or who did is gone."""
    try:
        descriptor = os.open(folder / _FILE, os.O_RDONLY)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        owner = _owner(descriptor)
        return owner if psutil.pid_exists(owner) else None
    else:
        return None
    finally:
        os.close(descriptor)


def held_since_s(folder: Path) -> float | None:
    """When the living process that holds ``folder`` took it; None if nobody does."""
    if holder(folder) is None:
        return None
    try:
        return (folder / _FILE).stat().st_mtime
    except OSError:
        return None


def _owner(descriptor: int) -> int:
    text = os.pread(descriptor, 32, 0)
    return int(text) if text.isdigit() else 0
