"""When a registry that did not answer is asked again.

It is asked once and everybody waits, so who asks decides for all. If that were always the same,
and what it asks for were all that cannot be had, nobody else would ever be heard. So whoever failed
last lets the others ask first. And what it was answered is its own: others are told less.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from headrace.errors import RegistryUnavailable

_LEAST_S, _MOST_S = 1.0, 15.0


class RegistryAwayError(RegistryUnavailable):
    """No server answers, whatever it is asked for."""

    def __init__(self, told: str, told_to_all: str) -> None:
        """Take what whoever asked is told, and what of it holds no answer to it."""
        super().__init__(told)
        self.told_to_all = told_to_all


class _Pause(NamedTuple):
    until_s: float
    lasts_s: float
    #: what failed, what whoever asks for it is told, and everybody else
    key: Hashable
    told: str
    told_to_all: str

    def trouble(self, key: Hashable, left_s: float) -> RegistryUnavailable:
        told = self.told if key == self.key else self.told_to_all
        return RegistryUnavailable(told, retry_after_s=left_s)


class Pauses:
    """Pauses that grow while nobody answers; during one, everybody is told what was the trouble."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        #: replaced as a whole, since one thread looks up and another one asks whether it may
        self._pause: _Pause | None = None
        self._others_wait = False

    def refuse(self, key: Hashable) -> None:
        """Nothing, where it may be asked for.

        Raises:
            RegistryUnavailable: nobody answered a moment ago, or others ask first.
        """
        pause = self._pause
        if pause is None:
            return
        left_s = pause.until_s - self._clock()
        if left_s > 0:
            self._others_wait = self._others_wait or key != pause.key
            raise pause.trouble(key, left_s)
        # Others that never come again are waited for during one more pause.
        left_s += pause.lasts_s
        if key == pause.key and self._others_wait and left_s > 0:
            raise pause.trouble(key, min(left_s, _LEAST_S))

    @contextmanager
    def between(self, key: Hashable) -> Iterator[None]:
        """For what is asked within: if nobody answers, a pause begins.

        Raises:
            RegistryUnavailable: nobody answers.
        """
        try:
            yield
        except RegistryAwayError as error:
            raise self._begun(key, error) from error
        except Exception:  # it answered, if not what was hoped for
            self._pause = None
            raise
        self._pause = None

    def _begun(self, key: Hashable, error: RegistryAwayError) -> RegistryUnavailable:
        before_s = 0.0 if self._pause is None else self._pause.lasts_s
        lasts_s = min(max(before_s * 2, _LEAST_S), _MOST_S)
        pause = _Pause(self._clock() + lasts_s, lasts_s, key, str(error), error.told_to_all)
        self._pause, self._others_wait = pause, False
        return pause.trouble(key, lasts_s)
