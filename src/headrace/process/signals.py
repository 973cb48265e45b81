"""How a process is asked to end, and where it hangs if it does not. Not here: what it does then."""

from __future__ import annotations

import faulthandler
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType

import structlog

log = structlog.get_logger(__name__)

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_STDERR = 2
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

    def came_up(self, drain: Callable[[], None]) -> None:
        """From now on who asks for an end asks for this."""
        self._drain = drain
        _set(self.end)  # Spark takes Ctrl-C for itself
        if self._asked:
            drain()

    def end(self) -> None:
        """Drain, or unwind what was made so far; once, since a second time would cut that short."""
        if self._drain is not None:
            self._drain()
        elif not self._asked:
            self._asked = True
            raise SystemExit(0)

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
