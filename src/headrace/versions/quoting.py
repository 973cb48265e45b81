"""The traceback of an error in a version, with the lines of that version.

Python quotes the file that stands at a frame's path today. That may be edited and not deployed, and
on an executor it is not there at all. So while a traceback is written, the files of a version hold
what the version has. It is put in each time anew: after a roll-back a version that was loaded long
ago runs again.
"""

from __future__ import annotations

import io
import linecache
import threading
import tokenize
import traceback
from collections.abc import Iterator

from headrace.errors import words_of
from headrace.versions.code import LocalModule
from headrace.versions.loading import version_of

#: errors, and notes of one, that are quoted
_MOST = 100
#: what ``linecache`` knows is one list for the process
_quoting = threading.Lock()


def traceback_of(error: BaseException) -> str:
    """What Python prints of an error, quoting what runs and not what lies in the folder."""
    own = {file: _entry(module, file) for file, module in _modules(error)}
    with _quoting:
        before = {file: linecache.cache.pop(file, None) for file in own}
        linecache.cache.update(own)
        try:
            return "".join(_lines(error))
        finally:
            for file, entry in before.items():
                del linecache.cache[file]
                if entry is not None:
                    linecache.cache[file] = entry


def _lines(error: BaseException) -> list[str]:
    """As Python prints it; of one with very many others in it, or notes, itself alone."""
    if _is_short(error):
        return traceback.format_exception(error)
    alone = traceback.format_tb(error.__traceback__)
    left_out = "others that are in it or led to it, and its notes, are left out: they are too many"
    return [*alone, f"{words_of(error)}\n", f"{left_out}\n"]


def _is_short(error: BaseException) -> bool:
    led, places = _led_to(error)
    notes = [getattr(cause, "__notes__", ()) for cause in led]
    return places <= _MOST and all(
        not isinstance(noted, list | tuple) or len(noted) <= _MOST for noted in notes
    )


def _modules(error: BaseException) -> Iterator[tuple[str, LocalModule]]:
    """The modules of versions that an error, and what led to it, came through; with their files."""
    for cause in _led_to(error)[0]:
        for frame, _ in traceback.walk_tb(cause.__traceback__):
            name, file = str(frame.f_globals.get("__name__")), frame.f_code.co_filename
            version = version_of(name)
            if version is None or file != frame.f_globals.get("__file__"):
                continue
            for module in version[0].modules:
                if module.name == name.partition(".")[2]:
                    yield file, module


def _led_to(error: BaseException) -> tuple[list[BaseException], int]:
    """It, and what led to it, each once; and in how many places, of which one too many tells all.

    Python looks at all that is in a group, also where that is one error again and again.
    """
    found: dict[int, BaseException] = {}
    left, places = [error], 0
    while left and places <= _MOST:
        error = left.pop()
        places += 1
        if id(error) not in found:
            found[id(error)] = error
            within = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
            led = (error.__cause__, error.__context__, *within[:_MOST])
            left += [cause for cause in led if cause is not None]
    return list(found.values()), places


def _entry(module: LocalModule, file: str) -> tuple[int, None, list[str], str]:
    """As ``linecache`` keeps what no file stands behind."""
    encoding, _ = tokenize.detect_encoding(io.BytesIO(module.source).readline)
    text = io.TextIOWrapper(io.BytesIO(module.source), encoding, errors="replace").read()
    return len(module.source), None, text.splitlines(keepends=True), file
