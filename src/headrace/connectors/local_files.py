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
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
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

#: what is done at a time where each waits for somebody else
AT_ONCE = 16
#: what is synced at a time
_SYNCED_AT_ONCE = 8
_MOST_KNOWN = 10_000
#: threads of a process that wait for its disks: to start them costs more than many a disk does
_waiting: dict[int, ThreadPoolExecutor] = {}
#: folders whose names this process has synced, and the number that tells each from a later one
_known: dict[Path, int] = {}


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

    At once, since a disk that flushes for one does so for all that wait. A folder whose name this
    process has made durable needs it no more.
    """
    folders = {file.parent for file in files}
    new = {made for folder in folders for made in _unknown(folder, root)}
    pool = _waiting.get(os.getpid())
    if pool is None:  # who was forked has no threads of its parent's
        pool = _waiting[os.getpid()] = ThreadPoolExecutor(_SYNCED_AT_ONCE, "sync")
    asked = [pool.submit(_sync, file) for file in files]
    asked += [pool.submit(_sync, folder, os.O_DIRECTORY) for folder in folders | _above(new)]
    wait(asked)
    for one in asked:
        one.result()
    if len(_known) > _MOST_KNOWN:
        _known.clear()
    _known.update(new)


def at_once(
    do: Callable[[Given], Made], given: Sequence[Given], threads: int = AT_ONCE
) -> list[Made]:
    """Do something with each in a few threads; what ends by an error leaves none running.

    Threads of the call alone, since a process that is forked has none of its parent's.
    """
    if threads == 1 or len(given) == 1:
        return [do(one) for one in given]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(do, given))


def _unknown(folder: Path, root: Path) -> Iterator[tuple[Path, int]]:
    """A folder and those on the way to it, as far as their names may not be durable yet."""
    while folder != root and _known.get(folder) != (number := folder.stat().st_ino):
        yield folder, number
        folder = folder.parent


def _above(folders: Iterable[tuple[Path, int]]) -> set[Path]:
    return {folder.parent for folder, _ in folders}


def _sync(path: Path, kind: int = 0) -> None:
    descriptor = os.open(path, os.O_RDONLY | kind)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
