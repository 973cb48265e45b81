"""Knowing at which slice a Python worker died.

A handler can take its whole process with it: `os._exit`, a crash in a C library, more memory than
there is. Nobody is left to tell, Spark runs the task again, it dies again, and with it die the
thousand innocent slices of its bin. So the task leaves a marker before each call: the number of the
slice, written to a small file mapped into memory (a store of four bytes, which outlives the
process). The next attempt of the same task on the same machine finds it, passes that slice over
with an error, and does all the others.

Beside it stands the process that left it. A marker file that a task of a failed job did not remove
so tells the driver, if it is on the same machine, whose end it has to wait for
(`spark/worker_ends.py`).

A handler may also leave a process that is of no use, and return; such a worker is ended here while
its marker stands (`vitals.py`).

What loads code is marked as well, since there nobody is at a slice: the import of a large library
from a slow disk may take longer than the driver waits. The driver then knows that no handler is to
blame, if it is on the same machine.

An attempt on another machine finds no marker; the driver then finds the culprit by dividing the
wave (`policies/quarantine.py`).

They are in the temporary directory, where everybody may make a folder of any name first. So the
folder is used only if it is a real one, ours, and closed to others: markers of somebody else could
blame any tenant, and what somebody else has behind a link is not ours to write to or to sweep.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import re
import stat
import struct
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol, TypeVar

import psutil

from headrace.errors import TaskLost
from headrace.model.streams import Slice
from headrace.spark.rights import rights_now
from headrace.spark.vitals import Vitals

_T = TypeVar("_T")

_NUMBER = struct.Struct("<i")
#: of an attempt: the slice that it is at, and its process
_LINE = struct.Struct("<ii")
_NOWHERE = -1
#: it loads the code of the use case
_LOADING = -2
#: status of a worker that a handler has left useless
_TAKEN_ALONG = 71
#: asked for before any code of a use case runs, which may set another one for its process
_TEMPORARY = Path(tempfile.gettempdir())
#: what was left behind by jobs that never came back is swept after so long
_KEEP_S = 3_600.0
#: how the name of the file ends that says that a job is over
_OVER = "-over"
#: names that are made here
_OURS = re.compile(rf"[0-9a-f]{{32}}(\.[0-9a-f]{{32}}|{_OVER})")


class Markers(Protocol):
    """What a bin asks of its markers."""

    @property
    def killers(self) -> frozenset[Slice]:
        """Slices at which an earlier attempt of the task died."""

    @property
    def is_first(self) -> bool:
        """Whether no earlier attempt began."""

    def during(self, planned: Slice | None, call: Callable[[], _T]) -> _T:
        """Run ``call``; should the process die in it, ``planned`` is to blame; None: nobody is."""

    def loading(self, call: Callable[[], _T]) -> _T:
        """Run ``call``, which loads code."""


class CrashMarkers:
    """The markers of one bin, over all attempts of its task."""

    def __init__(self, path: Path, slices: Sequence[Slice], vitals: Vitals | None = None) -> None:
        """Read what earlier attempts left, and begin a new one.

        Args:
            path: of the marker file.
            slices: those of the bin.
            vitals: what each call has to leave as it was, or the process ends; None is nothing.
        """
        self._path = path
        self._vitals = vitals
        self._number = {piece: number for number, piece in enumerate(slices)}
        before = _read(path)
        #: whether no earlier attempt began
        self.is_first = not before
        died = {at for at, _ in before} - {_NOWHERE, _LOADING}
        with path.open("ab") as file:
            file.write(_LINE.pack(_NOWHERE, os.getpid()))
            size = file.tell()
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), size)
        self._at = size - _LINE.size
        #: slices at which an earlier attempt died
        self.killers = frozenset(piece for piece, number in self._number.items() if number in died)

    def during(self, planned: Slice | None, call: Callable[[], _T]) -> _T:
        """Run ``call``; should the process die in it, ``planned`` is to blame; None: nobody is."""
        number = _NOWHERE if planned is None else self._number[planned]
        _NUMBER.pack_into(self._map, self._at, number)
        rights = rights_now()
        try:
            return call()
        finally:
            if self._vitals is not None and not (self._vitals.are_there() and rights.are_kept()):
                os._exit(_TAKEN_ALONG)
            _NUMBER.pack_into(self._map, self._at, _NOWHERE)

    def loading(self, call: Callable[[], _T]) -> _T:
        """Run ``call``, which loads code."""
        _NUMBER.pack_into(self._map, self._at, _LOADING)
        try:
            return call()
        finally:
            _NUMBER.pack_into(self._map, self._at, _NOWHERE)

    def close(self) -> None:
        """The task came to its end: nothing needs to be remembered."""
        self._map.close()
        self._path.unlink(missing_ok=True)


def crash_markers_of(
    job: str, task: str, slices: Sequence[Slice], vitals: Vitals | None = None
) -> CrashMarkers:
    """The markers of a task of a job, by its name, which is the same for all of its attempts.

    Raises:
        TaskLost: the job is over, and its driver waits for nobody any more; or there is no place
            for markers.
    """
    try:
        folder = _folder()
    except OSError as error:
        raise TaskLost(str(error)) from error
    _sweep(folder)
    made = CrashMarkers(folder / f"{_hashed(job)}.{_hashed(task)}", slices, vitals)
    # Looked at after the file is there: either we see that it is over, or the driver sees us.
    if (folder / f"{_hashed(job)}{_OVER}").exists():
        made.close()
        raise TaskLost(f"job {job} is over")
    return made


def processes_of(job: str) -> set[int]:
    """Processes of this machine that began a task of a job and did not come to its end.

    The job is over: none of its tasks begins after this.

    Raises:
        OSError: nobody can say.
    """
    folder, name = _folder(), _hashed(job)
    (folder / f"{name}{_OVER}").touch()
    return {pid for path in folder.glob(f"{name}.*") for _, pid in _read(path)}


def ended_at_loading(job: str) -> list[bool]:
    """Of tasks of a job that is over and did not come to their end: whether they loaded code then.

    Only those of this machine are known.
    """
    try:
        paths = list(_folder().glob(f"{_hashed(job)}.*"))
    except OSError:
        return []
    return [lines[-1][0] == _LOADING for lines in map(_read, paths) if lines]


def _folder() -> Path:
    folder = _TEMPORARY / f"headrace-markers-{os.getuid()}"
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise PermissionError(
            f"{folder} is no folder of ours; remove it, or let driver and executors have another "
            "TMPDIR"
        )
    if stat.S_IMODE(found.st_mode) != 0o700:
        folder.chmod(0o700)
    return folder


def _hashed(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()[:32]


def _read(path: Path) -> list[tuple[int, int]]:
    """The lines of all attempts; none where the last one came to its end."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return []
    whole = len(data) - len(data) % _LINE.size
    return [(number, pid) for number, pid in _LINE.iter_unpack(data[:whole])]


_swept_at_s = float("-inf")


def _sweep(folder: Path) -> None:
    global _swept_at_s  # noqa: PLW0603 - once in a while for each worker, whatever it runs
    if time.monotonic() - _swept_at_s < _KEEP_S:
        return
    _swept_at_s = time.monotonic()
    old_s = time.time() - _KEEP_S
    for path in folder.iterdir():
        with suppress(FileNotFoundError):
            is_old = _OURS.fullmatch(path.name) and _is_old_file(path.lstat(), old_s)
            if is_old and not _is_needed(path):
                path.unlink()


def _is_needed(path: Path) -> bool:
    """Whether somebody is at a slice of it still: a task may take hours, and a clock be set."""
    # What this process left is of an earlier task: it has one at a time, and begins the next.
    return any(pid != os.getpid() and psutil.pid_exists(pid) for _, pid in _read(path))


def _is_old_file(found: os.stat_result, before_s: float) -> bool:
    ours = stat.S_ISREG(found.st_mode) and found.st_uid == os.getuid()
    return ours and found.st_mtime < before_s
