"""When a registry that did not answer is asked again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from headrace.errors import RegistryUnavailable

_LEAST_S, _MOST_S = 1.0, 15.0


class Pauses:
    """Pauses that grow while nobody answers; during one, everybody is told what was the trouble."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._next_s = 0.0
        self._until_s = 0.0
        self._trouble = ""

    @contextmanager
    def between(self) -> Iterator[None]:
        """For what is asked within: not in a pause, and what gets no answer begins one.

        Raises:
            RegistryUnavailable: it does not answer, or did not a moment ago.
        """
        left_s = self._until_s - self._clock()
        if self._trouble and left_s > 0:
            raise RegistryUnavailable(self._trouble, retry_after_s=left_s)
        try:
            yield
        except RegistryUnavailable as error:
            self._begin(str(error))
            raise RegistryUnavailable(self._trouble, retry_after_s=self._next_s) from error
        except Exception:  # it answered, if not what was hoped for
            self._end()
            raise
        except BaseException:  # the time of a task was up while it was waited for
            self._begin("the schema registry did not answer while a task had time")
            raise
        self._end()

    def _begin(self, trouble: str) -> None:
        self._next_s = min(max(self._next_s * 2, _LEAST_S), _MOST_S)
        self._until_s = self._clock() + self._next_s
        self._trouble = trouble

    def _end(self) -> None:
        self._next_s, self._trouble = 0.0, ""
