"""What all sinks share that write files by the operating system's own calls.

``s3a://bucket/files`` is a fine relative path: a folder ``s3a:`` is made, on each machine its own,
and nobody notices before something is missing. What reads and writes by the operating system's own
calls cannot follow a URL, so a URL is refused where it is said. What is no URL may still be a
folder that executors do not share; that only they can tell (`spark/shared_folder.py`).

A file is there after a loss of power only if it was synced, and its name only if its folder was.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath
from typing import TypeVar

from headrace.errors import ConfigError
from headrace.ports import Site

Given = TypeVar("Given")
Made = TypeVar("Made")

_URL = re.compile(r"\s*([A-Za-z][A-Za-z0-9+.-]*:[/\\]|file:)", re.IGNORECASE)
#: of a disk, of this process, and of a network that a file system is on
_TEMPORARY = {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EMFILE, errno.ENFILE}
_TEMPORARY |= {errno.ESTALE, errno.ENOTCONN, errno.ETIMEDOUT, errno.EHOSTDOWN, errno.EHOSTUNREACH}
#: what was made a moment ago was removed, as by a driver whose clock is days ahead
_TEMPORARY |= {errno.ENOENT}


_AT_ONCE = 16


def is_url(path: str) -> bool:
    """Whether ``path`` names a place by a scheme: ``s3a://x``, ``hdfs:/x``, ``file:x``."""
    return _URL.match(path) is not None


def demand_below_warehouse(folder: str) -> None:
    """See that a sink's folder is one below the warehouse.

    Raises:
        ConfigError: it is absolute, empty, a URL or has ``..`` in it.
    """
    parts = PurePosixPath(folder).parts
    if not parts or folder.startswith("/") or ".." in parts or is_url(folder):
        raise ConfigError(f"folder {folder!r} must be a path below the warehouse, such as 'visits'")


def folder_at(site: Site, folder: str) -> Path:
    """A sink's folder where it works.

    Raises:
        ConfigError: there is no warehouse.
    """
    if site.connections.warehouse is None:
        raise ConfigError(f"folder {folder!r}: set the warehouse it is to be in")
    return Path(site.connections.warehouse) / folder


def passes_by(error: OSError) -> bool:
    """Whether what the system refused may be granted later, without anybody's doing."""
    # Arrow raises OSError without an errno for what the system said in words only.
    return error.errno is None or error.errno in _TEMPORARY


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    _sync(folder, os.O_DIRECTORY)


def sync_all(files: Collection[Path], root: Path) -> None:
    """Make files below a folder durable, and all names on the way to them.

    At once, since a disk that flushes for one does so for all that wait.
    """
    folders = {folder for file in files for folder in file.parents if folder.is_relative_to(root)}
    at_once(_sync, [*files, *folders])


def at_once(do: Callable[[Given], Made], given: Sequence[Given]) -> list[Made]:
    """Do something with each in a few threads; what ends by an error leaves none running.

    Threads of the call alone, since a process that is forked has none of its parent's.
    """
    if len(given) == 1:
        return [do(given[0])]
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        return list(threads.map(do, given))


def _sync(path: Path, kind: int = 0) -> None:
    descriptor = os.open(path, os.O_RDONLY | kind)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
