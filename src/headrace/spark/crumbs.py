"""Knowing at which slice a Python worker died.

A handler can take its whole process with it: `os._exit`, a crash in a C library, more memory than
there is. Nobody is left to tell, Spark runs the task again, it dies again, and with it die the
thousand innocent slices of its bin. So the task leaves a crumb before each call: the number of the
slice, written to a small file mapped into memory (a store of four bytes, which outlives the
process). The next attempt of the same task on the same machine finds it, passes that slice over
with an error, and does all the others.

An attempt on another machine finds no crumb; the driver then finds the culprit by dividing the
wave (`policies/quarantine.py`).
"""

from __future__ import annotations

import hashlib
import mmap
import os
import struct
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from headrace.model.streams import Slice

_T = TypeVar("_T")

_NUMBER = struct.Struct("<i")
_NOWHERE = -1
#: what was left behind by jobs that never came back is swept after so long
_KEEP_S = 3_600.0


class Crumbs:
    """The crumbs of one bin, over all attempts of its task."""

    def __init__(self, path: Path, slices: Sequence[Slice]) -> None:
        """Read what earlier attempts left, and begin a new one."""
        self._path = path
        self._number = {each: number for number, each in enumerate(slices)}
        died = _read(path)
        with path.open("ab") as file:
            file.write(_NUMBER.pack(_NOWHERE))
            size = file.tell()
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), size)
        self._at = size - _NUMBER.size
        #: slices at which an earlier attempt died
        self.killers = frozenset(each for each, number in self._number.items() if number in died)

    def during(self, planned: Slice, call: Callable[[], _T]) -> _T:
        """Run ``call``; should the process die in it, ``planned`` is to blame."""
        _NUMBER.pack_into(self._map, self._at, self._number[planned])
        try:
            return call()
        finally:
            _NUMBER.pack_into(self._map, self._at, _NOWHERE)

    def close(self) -> None:
        """The task came to its end: nothing needs to be remembered."""
        self._map.close()
        self._path.unlink(missing_ok=True)


def crumbs_of(task: str, slices: Sequence[Slice]) -> Crumbs:
    """The crumbs of a task by its name, which is the same for all of its attempts."""
    folder = Path(tempfile.gettempdir()) / f"headrace-crumbs-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    _sweep(folder)
    return Crumbs(folder / hashlib.sha256(task.encode()).hexdigest()[:32], slices)


def _read(path: Path) -> set[int]:
    data = path.read_bytes() if path.exists() else b""
    whole = len(data) - len(data) % _NUMBER.size
    return {number for (number,) in _NUMBER.iter_unpack(data[:whole])} - {_NOWHERE}


_swept_at_s = float("-inf")


def _sweep(folder: Path) -> None:
    global _swept_at_s  # noqa: PLW0603 - once in a while for each worker, whatever it runs
    now_s = time.time()
    if now_s - _swept_at_s < _KEEP_S:
        return
    _swept_at_s = now_s
    for path in folder.iterdir():
        try:
            if now_s - path.stat().st_mtime > _KEEP_S:
                path.unlink(missing_ok=True)
        except FileNotFoundError:
            continue
