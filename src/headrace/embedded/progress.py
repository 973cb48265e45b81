"""Showing that something slow goes on.

Someone who waits wants to see a bar; a log file wants a few plain lines. Both go to standard error,
so that a program's output stays its own.
"""

from __future__ import annotations

import sys
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar


class Progress:
    """Steps towards a total, shown for the length of a ``with`` block."""

    def __init__(self, title: str, total: int | None = None) -> None:
        """Name what goes on; ``total`` is the number of steps, if it is known."""
        self._title = title
        self._total = total
        self._done = 0
        console = Console(stderr=True)
        self._bar = (
            Bar(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                console=console,
            )
            if console.is_terminal
            else None
        )

    def step(self, _: str) -> None:
        """One more is done."""
        self._done += 1
        if self._bar is not None:
            self._bar.advance(self._task)
        elif self._done % 15 == 0:
            self._say(f"{self._title}: {self._done}" + (f"/{self._total}" if self._total else ""))

    def __enter__(self) -> Progress:
        """Begin to show it."""
        if self._bar is None:
            self._say(f"{self._title} ...")
        else:
            self._bar.start()
            self._task = self._bar.add_task(self._title, total=self._total)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop showing it."""
        if self._bar is not None:
            self._bar.stop()
        elif error is None:
            self._say(f"{self._title}: done")

    def _say(self, line: str) -> None:
        sys.stderr.write(line + "\n")
        sys.stderr.flush()
