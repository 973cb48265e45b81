"""The live table: one row a stream, refreshed while a driver turns.

On a terminal it redraws itself; elsewhere one summary line is printed now and then, so that a log
stays readable.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from statistics import median_high
from types import TracebackType

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from headrace.cycle.driver import Driver
from headrace.errors import plain
from headrace.model.statistics import ShownState
from headrace.telemetry.report import StreamRow

REFRESH_S = 0.5
LINE_S = 5.0
#: rows shown at once; those with the largest lag come first
MOST_ROWS = 40

_NO_TENANT = "no streams yet: 'headrace tenants add NAME' adds a tenant"
_NO_USE_CASE = (
    "no use case runs here: 'headrace use-cases list' shows what is deployed, and why it does not "
    "run; 'headrace use-cases deploy' deploys those of the file"
)

_COLOURS = {
    ShownState.ACTIVE: "green",
    ShownState.THROTTLED: "cyan",
    ShownState.RETRYING: "yellow",
    ShownState.WAITING: "yellow",
    ShownState.SUSPENDED: "red",
}


class LiveTable:
    """Shows a driver's streams."""

    def __init__(
        self,
        driver: Driver,
        console: Console | None = None,
        title: str = "",
        held: Mapping[str, str] | None = None,
    ) -> None:
        """Show ``driver`` on ``console`` (stderr without one).

        Args:
            driver: whose streams.
            console: where.
            title: of the table.
            held: tenants whose delay says nothing, since somebody made them wait, and how.
        """
        self._held = held or {}
        self._driver = driver
        self._console = console or Console(stderr=True)
        self._title = title
        self._next_s = 0.0
        self._live: Live | None = None

    def __enter__(self) -> LiveTable:
        """Begin to draw."""
        if self._console.is_terminal:
            self._live = Live(console=self._console, auto_refresh=False)
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Draw once more and leave the last table standing."""
        if self._live is not None:
            self._live.update(self._shown(), refresh=True)
            self._live.stop()

    def note(self, text: str) -> None:
        """Print a line that stays, above the table; what a terminal might obey is text in it."""
        lines = "\n".join(map(plain, text.split("\n")))
        self._console.print(lines, markup=False, highlight=False, soft_wrap=True)

    def refresh(self) -> None:
        """Draw if it is time to; called after every turn."""
        now_s = time.monotonic()
        if now_s < self._next_s:
            return
        if self._live is not None:
            self._live.update(self._shown(), refresh=True)
            self._next_s = now_s + REFRESH_S
        else:
            line = line_of(rows, self._held) if (rows := self._rows()) else self._without_streams()
            self._console.print(line, highlight=False, soft_wrap=True)
            self._next_s = now_s + LINE_S

    def _shown(self) -> Table | Text:
        rows = self._rows()
        return table_of(rows, self._title) if rows else Text(self._without_streams())

    def _without_streams(self) -> str:
        """Whom it has none of, and what to type for it."""
        return _NO_TENANT if self._driver.deployed else _NO_USE_CASE

    def _rows(self) -> list[StreamRow]:
        return [
            replace(row, note=row.note or self._held.get(row.stream.tenant, ""))
            for row in self._driver.rows()
        ]


def table_of(rows: list[StreamRow], title: str = "") -> Table:
    """The rows as a table, largest lag first when there are too many to show."""
    table = Table(title=title or None, box=None, pad_edge=False)
    # What may not wrap keeps its width, and the note, which may be long, has what is left.
    table.add_column("stream", no_wrap=True)
    table.add_column("state", no_wrap=True)
    for name in ("lag", "done", "rate/s", "p50", "p99"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("wave", no_wrap=True)
    table.add_column("note")
    shown = rows
    if len(rows) > MOST_ROWS:
        shown = sorted(rows, key=lambda row: -row.lag_records)[:MOST_ROWS]
    for shown_row in sorted(shown, key=lambda row: (row.stream.tenant, row.stream.use_case)):
        table.add_row(
            str(shown_row.stream),
            f"[{_colour(shown_row.state)}]{shown_row.state}",
            shown_row.lag_is.told(shown_row.lag_records),
            str(shown_row.records_total),
            f"{shown_row.rate_per_s:.0f}",
            _seconds(shown_row.p50_s),
            _seconds(shown_row.p99_s),
            shown_row.wave.partition("-")[2],
            Text(plain(shown_row.note), no_wrap=True, overflow="ellipsis"),
        )
    if len(rows) > len(shown):
        table.caption = f"{len(rows) - len(shown)} more with less lag"
    return table


def line_of(rows: list[StreamRow], held: Mapping[str, str] | None = None) -> str:
    """All streams in one line; what is said of delays leaves out tenants that somebody ``held``."""
    states: dict[str, int] = {}
    for row in rows:
        states[row.state] = states.get(row.state, 0) + 1
    told = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
    left_out = {row.stream.tenant for row in rows} & (held or {}).keys()
    delays = [
        row.p99_s for row in rows if row.p99_s is not None and row.stream.tenant not in left_out
    ]
    typical, worst = (median_high(delays), max(delays)) if delays else (None, None)
    lag = sum(row.lag_records for row in rows)
    done = sum(row.records_total for row in rows)
    rate = sum(row.rate_per_s for row in rows)
    streams = "1 stream" if len(rows) == 1 else f"{len(rows)} streams"
    return (
        f"{streams} ({told}): lag {lag}, done {done}, {rate:.0f}/s, "
        f"p99 delay of the last minute: typical {_seconds(typical)}, worst {_seconds(worst)}"
        + (f"; without {', '.join(sorted(left_out))}, held on purpose" if left_out else "")
    )


def _colour(state: str) -> str:
    """Of a state, which may say how many lanes it is of: ``suspended 1/4``."""
    return _COLOURS.get(ShownState.of(state), "white")


def _seconds(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.1f} s"
