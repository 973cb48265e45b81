"""How a process is asked to end, and what ends it where it hangs. Not here: what it does then.

Whoever asks a process to end waits for it, and all that it closes may hang: a client, a server that
it started, a thread of a library. Each has a time limit of its own, and what none of them foresaw
has one for all: then the process writes where its threads stand, and is gone. What it started ends
with it, as if it had been killed.
"""

from __future__ import annotations

import faulthandler
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType

import structlog

from headrace.errors import AskedToEnd
from headrace.process import watchdog

log = structlog.get_logger(__name__)

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_STDERR = 2
#: longest time, after a drain's, for all that a driver closes
CLOSE_S = 30.0
#: asks a process to say where each of its threads stands
WHERE = signal.SIGUSR1


@contextmanager
def stopping_on_signals(stop: Callable[[], None]) -> Iterator[None]:
    """SIGTERM and Ctrl-C ask for a drain; a second Ctrl-C ends at once."""
    before: Mapping[int, object] = _set(stop)
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)  # type: ignore[arg-type]


class ComingUp:
    """A process that has nothing to drain yet."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._drain: Callable[[], None] | None = None
        self._asked = False
        self._within_s = 0.0
        self._is_timed = False

    def came_up(self, drain: Callable[[], None], within_s: float) -> None:
        """From now on who asks for an end asks for this; it is ended if it is not over in time."""
        self._drain, self._within_s = drain, within_s
        _set(self.end)  # Spark takes Ctrl-C for itself
        if self._asked:
            self.end()

    def end(self) -> None:
        """Drain, or unwind what was made so far; once, since a second time would cut that short."""
        if self._drain is not None:
            self._drain()
            if not self._is_timed:
                self._is_timed = True
                # Not a thread of Python's: the hang may be one that lets none of them run.
                watchdog.end_after(self._within_s, _STDERR)
        elif not self._asked:
            self._asked = True
            raise AskedToEnd(0)

    def is_ended_by(self, error: BaseException) -> bool:
        """Whether this is its end, as somebody asked for it, and nothing that went wrong."""
        if self._drain is not None:
            return False
        return self._asked is not isinstance(error, KeyboardInterrupt)


@contextmanager
def ending_on_signals() -> Iterator[ComingUp]:
    """The same from the first moment: what comes up is unwound, with exit code 0.

    Tell it by ``came_up`` when there is something to drain. Until its end `WHERE` makes the process
    write the stacks of all threads on its error output, also when it hangs in foreign code.
    """
    coming_up = ComingUp()
    with stopping_on_signals(coming_up.end):
        faulthandler.register(WHERE, file=_STDERR)
        try:
            yield coming_up
        except BaseException as error:
            if not coming_up.is_ended_by(error):
                raise
            log.info("ended before it was up")
            # Whatever broke because it was cut short is no failure.
            raise SystemExit(0) from error


def _set(stop: Callable[[], None]) -> dict[int, object]:
    """Have signals call ``stop``; returns what they did before."""

    def handler(number: int, _: FrameType | None) -> None:
        if number == signal.SIGINT:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        stop()

    return {number: signal.signal(number, handler) for number in _SIGNALS}
