"""What a driver says, in a file that does not grow for ever.

The driver writes into the file itself, not through its supervisor: a driver whose supervisor was
killed has to go on until it has drained, and must not die of a broken pipe. So the file is rotated
by copying and cutting it (the driver appends, so it goes on at the new end). A line written between
the copy and the cut is lost; that is the price.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import BinaryIO

from headrace.embedded.guarded import last_lines
from headrace.errors import ServerError

#: bytes after which a file is rotated
MOST_BYTES = 16 * 1024 * 1024
#: older files that are kept, named .1 (the newest) and so on
KEPT = 4
#: bytes from the end that are looked at for the last lines
_TAIL_BYTES = 32_768


class DriverLog:
    """The output of one driver, over all its restarts."""

    def __init__(self, path: Path, most_bytes: int = MOST_BYTES) -> None:
        """Keep it in ``path``, whose folder is made if need be."""
        self.path = path
        self._most_bytes = most_bytes
        self._began_at = 0

    def open(self) -> BinaryIO:
        """The file, for a process that starts now; the caller closes it.

        Raises:
            ServerError: it cannot be written.
        """
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            opened = self.path.open("ab")
        except OSError as exc:
            raise ServerError(f"{self.path} cannot be written: {exc.strerror}") from exc
        self._began_at = os.fstat(opened.fileno()).st_size
        return opened

    def rotate(self) -> None:
        """Begin anew if the file is too large; one that cannot be copied is left as it is."""
        try:
            if self.path.stat().st_size < self._most_bytes:
                return
            for number in range(KEPT - 1, 0, -1):
                older = self._numbered(number)
                if older.exists():
                    older.replace(self._numbered(number + 1))
            shutil.copyfile(self.path, self._numbered(1))
            os.truncate(self.path, 0)
        except OSError:
            return
        self._began_at = 0

    def tail(self) -> str:
        """The last lines that the newest process wrote; empty if there are none."""
        try:
            with self.path.open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(self._began_at, size - _TAIL_BYTES))
                return last_lines(file.read().decode("utf-8", "replace"))
        except OSError:
            return ""

    def _numbered(self, number: int) -> Path:
        return self.path.with_name(f"{self.path.name}.{number}")
