"""Showing that an executor writes to the same folder as everybody else.

A path says nothing about the disk behind it. On an executor that lacks the shared file system, or
has another one at its place, every write goes well, positions move, and the files are where nobody
looks. So the driver keeps a *sentinel* below the warehouse, a small file that is named by chance
anew at each start of a driver, and a worker that does not see this very file does nothing of a bin
that writes there: it reads, claims and handles nothing, and the lanes wait. It looks at each bin,
because a file system may also go while a worker lives.

What an executor of another machine was slow to see (NFS caches folders) it sees when it opens the
folder anew, so a worker looks for a while before it gives up. A folder that is copied from machine
to machine cannot be told from a shared one.

The sentinel is ``<warehouse>/_headrace/shared-<token>``; readers pass over names that start with
``_``. What dead drivers left is removed when it is a day older than what a driver has just written:
by the times of the file system, whose clock need not be that of this machine.
"""

from __future__ import annotations

import os
import socket
import time
import uuid
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from headrace.errors import FolderNotShared

_FOLDER = "_headrace"
_PREFIX = "shared-"
#: how long a worker looks for the sentinel; a wave whose bin waits here waits no longer than this
_PATIENCE_S = 1.0
_LOOK_EVERY_S = 0.1
#: a sentinel that was not touched for so long belongs to no driver that still starts waves
_ABANDONED_AFTER_S = 24 * 3600.0


@dataclass(frozen=True, slots=True)
class Sentinel:
    """The file that the driver keeps and every worker has to see."""

    warehouse: str
    #: of this start of this driver, and nobody could guess it
    token: str

    @property
    def path(self) -> Path:
        """Where it is."""
        return Path(self.warehouse, _FOLDER, f"{_PREFIX}{self.token}")

    def keep(self) -> None:
        """On the driver, before each wave: see to it that the file is there, and young.

        Raises:
            FolderNotShared: it cannot be written.
        """
        try:
            if not self._is_there():
                self._write()
                self._remove_abandoned()
            os.utime(self.path)
        except OSError as error:
            raise FolderNotShared(
                f"{self.path} cannot be written: {error.strerror}; without it executors "
                "cannot show that they share the folder"
            ) from error

    def check(self) -> None:
        """In a worker, before anything else: see the file, or do nothing.

        Raises:
            FolderNotShared: after a second of looking it is not there, or is another one.
        """
        end_s = time.monotonic() + _PATIENCE_S
        while not self._is_there():
            if time.monotonic() > end_s:
                wanted = self.path.relative_to(self.warehouse)
                raise FolderNotShared(
                    f"executor on {socket.gethostname()}: {self.warehouse} is not the folder that "
                    f"the driver has there ({wanted} is missing or unreadable); mount the driver's "
                    "file system there, or set warehouse to the absolute path of a folder that "
                    "driver and executors share"
                )
            time.sleep(_LOOK_EVERY_S)
            for folder in (self.path.parent, self.path.parent.parent):
                # Opening a folder has an NFS client ask the server what is in it now.
                with suppress(OSError):
                    os.listdir(folder)

    def _is_there(self) -> bool:
        try:
            return self.path.read_text("ascii", "replace") == self.token
        except OSError:
            return False

    def _write(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = self.path.with_name(f"{_PREFIX}{uuid.uuid4().hex}.unfinished")
        try:
            with unfinished.open("x", encoding="ascii") as file:
                file.write(self.token)
                file.flush()
                os.fsync(file.fileno())
            unfinished.replace(self.path)
        finally:
            unfinished.unlink(missing_ok=True)

    def _remove_abandoned(self) -> None:
        written_s = self.path.stat().st_mtime
        for path in self.path.parent.glob(f"{_PREFIX}*"):
            with suppress(FileNotFoundError):  # another driver was quicker
                if written_s - path.stat().st_mtime > _ABANDONED_AFTER_S:
                    path.unlink()
