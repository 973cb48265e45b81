"""Publishing figures: a report every other second, a point of history a minute.

A driver must not wait for a store to tell it how it fares. So a turn only gathers what there is to
tell, and a thread of its own encodes it and writes it down. There is one place for a report: should
the store be slow, the newest takes the place of one that still waits. Points wait for their turn,
up to some minutes' worth of them. What the store does not take is left out and said once, in the
log: nothing exact depends on it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import structlog

from headrace.errors import HeadraceError
from headrace.model.statistics import Report
from headrace.ports import Clock, Statistics
from headrace.telemetry.figures import BoardFigures, LastMinute
from headrace.telemetry.history import FRESH_SPAN_S, began_s

log = structlog.get_logger(__name__)

EVERY_S = 2.0
#: points that wait for a store that does not answer
MOST_POINTS = 20_000


class Facts(NamedTuple):
    """What a driver is at this moment."""

    slots: int
    slots_target: int
    slots_busy: int
    executors: int
    ui_url: str
    #: records a second that a use case is held to, if it is
    paces: Mapping[str, float]


class Publisher:
    """Publishes what one driver has to tell."""

    def __init__(
        self, name: str, statistics: Statistics, figures: BoardFigures, clock: Clock
    ) -> None:
        self._name, self._figures, self._clock = name, figures, clock
        self._post = _Post(statistics)
        self._started_at_s = clock.now_s()
        self._minute_s = began_s(self._started_at_s, FRESH_SPAN_S)
        self._next_s = float("-inf")
        self._has_left = False
        self._facts: Facts | None = None

    def poll(self, facts: Callable[[], Facts]) -> None:
        """Tell, if it is time to; called after every turn. Never waits for the store."""
        steady_s = self._clock.monotonic_s()
        if steady_s < self._next_s:
            return
        self._next_s = steady_s + EVERY_S
        now_s = self._clock.now_s()
        # After the report, which notes the lags of this moment.
        self._facts = facts()
        mail = _Mail(self._report(self._facts, now_s))
        minute_s = began_s(now_s, FRESH_SPAN_S)
        if minute_s != self._minute_s:  # it may be an earlier one: clocks are set back
            mail.minutes = self._figures.minutes(minute_s - FRESH_SPAN_S)
            self._figures.forget(minute_s)
            mail.thin_at_s = now_s
            self._minute_s = minute_s
        self._post.put(mail)

    @property
    def is_busy(self) -> bool:
        """Whether something is still to be written."""
        return self._post.is_busy

    def leave(self) -> None:
        """The driver has given its streams back: its report is forgotten, nobody shall miss it."""
        self._has_left = True

    def finish(self, patience_s: float) -> bool:
        """Tell for the last time, if it ever did; whether it is written down in time."""
        if self._facts is None:
            return True
        mail = _Mail(minutes=self._figures.minutes(self._minute_s))
        if self._has_left:
            mail.forget = self._name
        else:
            # What runs the waves may be gone by now, so it is not asked any more.
            facts = self._facts._replace(slots_busy=0)
            mail.report = self._report(facts, self._clock.now_s())
        self._post.put(mail)
        return self._post.close(patience_s)

    def _report(self, facts: Facts, now_s: float) -> Report:
        reporter = self._figures.reporter
        return Report(
            driver=self._name,
            at_s=now_s,
            started_at_s=self._started_at_s,
            slots=facts.slots,
            slots_target=facts.slots_target,
            slots_busy=facts.slots_busy,
            executors=facts.executors,
            spark_ui_url=facts.ui_url,
            streams=self._figures.describe(now_s, self._clock.monotonic_s()),
            use_cases=tuple(
                meter.figures(name, facts.paces.get(name), now_s)
                for name, meter in sorted(reporter.use_cases.items())
            ),
            waves=reporter.timeline.figures(now_s),
        )


@dataclass(slots=True)
class _Mail:
    """What is to be written down."""

    report: Report | None = None
    minutes: list[LastMinute] = field(default_factory=list)
    thin_at_s: float | None = None
    #: driver whose report is to be dropped
    forget: str | None = None


class _Post:
    """Writes mail down in a thread of its own, which begins with the first."""

    def __init__(self, statistics: Statistics) -> None:
        self._statistics = statistics
        self._waiting: _Mail | None = None
        self._closed = False
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._in_trouble = False
        self._writing = False
        #: what the store did not take; touched by the thread alone
        self._left: list[LastMinute] = []

    def put(self, mail: _Mail) -> None:
        """Have it written; what still waits is taken along, but an older report is dropped."""
        with self._changed:
            self._waiting = mail if self._waiting is None else _together(self._waiting, mail)
            self._changed.notify()
            if self._thread is None:
                # With what log lines of this process are bound to, such as the driver's name.
                run = partial(copy_context().run, self._run)
                self._thread = threading.Thread(target=run, name="headrace-publisher", daemon=True)
                self._thread.start()

    @property
    def is_busy(self) -> bool:
        """Whether something waits, or is being written."""
        return self._waiting is not None or self._writing

    def close(self, patience_s: float) -> bool:
        """Wait until everything is written, but not for ever; whether it is."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(patience_s)
        return self._thread is None or not self._thread.is_alive()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting is not None or self._closed)
                mail, self._waiting = self._waiting, None
                self._writing = mail is not None
            if mail is None:
                return
            mail.minutes = [*self._left, *mail.minutes][-MOST_POINTS:]
            self._left = []
            try:
                self._write(mail)
                self._in_trouble = False
            except HeadraceError as error:
                self._trouble(mail, error)
            except Exception:  # what cannot be told is left out; the next report may be told
                log.exception("statistics could not be told, and are left out")
            self._writing = False

    def _write(self, mail: _Mail) -> None:
        if mail.report is not None:
            self._statistics.publish(mail.report)
        if mail.minutes:
            self._statistics.keep([minute.point() for minute in mail.minutes])
            mail.minutes = []
        if mail.thin_at_s is not None:
            self._statistics.thin(mail.thin_at_s)
        if mail.forget is not None:
            self._statistics.forget(mail.forget)

    def _trouble(self, mail: _Mail, error: HeadraceError) -> None:
        if not self._in_trouble:
            log.warning("statistics not written; they go on by themselves", error=str(error))
        self._in_trouble = True
        # A minute is not told again, so it waits for the next report to take it along.
        self._left = mail.minutes


def _together(older: _Mail, newer: _Mail) -> _Mail:
    return _Mail(
        newer.report or older.report,
        [*older.minutes, *newer.minutes][-MOST_POINTS:],
        newer.thin_at_s or older.thin_at_s,
        newer.forget,
    )
