"""Folders in which judges write, and what becomes of them when nobody is left to remove them.

A judge writes what ``protoc`` reads. Its registry removes that with it, but one that is killed
removes nothing. So a registry that starts removes what such ones left. It must not take the folder
of one that lives: who makes a folder holds a lock on it, and the kernel opens that when its process
is gone, however it went. In a place where everybody may write, only a folder of one's own counts,
and no link is followed.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

PREFIX = "headrace-judge-"


@dataclass(frozen=True, slots=True)
class JudgeFolder:
    """A folder of this process."""

    path: str
    #: holds the lock
    held: int

    def remove(self) -> None:
        """Remove it with all that is in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self.held)


def made_folder() -> JudgeFolder:
    """A folder of one's own."""
    while True:
        path = tempfile.mkdtemp(prefix=PREFIX)
        held = _locked(path)
        if held is not None:
            return JudgeFolder(path, held)
        # One that starts at the same time took it for left behind, before the lock was there.


def remove_left_folders() -> None:
    """Remove the folders of registries that are gone."""
    for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        held = _locked(str(path))
        if held is not None:
            JudgeFolder(str(path), held).remove()


def _locked(path: str) -> int | None:
    """A hold on a folder of ours that nobody else has one on, and that is still there."""
    try:
        held = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    with suppress(OSError):
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        there, found = os.fstat(held), os.lstat(path)
        is_same = (there.st_dev, there.st_ino) == (found.st_dev, found.st_ino)
        is_ours = there.st_uid == os.geteuid() and not there.st_mode & (stat.S_IRWXG | stat.S_IRWXO)
        if is_same and is_ours:
            return held
    os.close(held)
    return None
