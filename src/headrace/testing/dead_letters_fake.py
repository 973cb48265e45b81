"""Dead letters in memory, with accidents.

What happens around dead letters (a lane that goes on, one that must not) is tested without a
broker. So the fake keeps letters in a list, in order, and can be told to fail. It has no topics and
nothing is sent back from it.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from headrace.errors import HeadraceError
from headrace.ports import Connections, DeadLetter, DeadLetters


@dataclass(slots=True)
class MemoryDeadLetters:
    """``headrace.ports.DeadLetters`` in memory, and its factory; pickled, it is a copy.

    Attributes:
        letters: everything kept, oldest first.
        accidents: errors that the next calls of ``keep`` end with, one each.
        keeps_before_accident: how many letters of such a call are kept all the same.
        at_once: what ``ready`` says.
    """

    letters: list[DeadLetter] = field(default_factory=list)
    accidents: list[HeadraceError] = field(default_factory=list)
    keeps_before_accident: int = 0
    at_once: bool = True
    _named: set[Hashable] = field(default_factory=set)

    def open(self, connections: Connections) -> DeadLetters:
        """It is its own dead letters; ``connections`` does not matter."""
        del connections
        return self

    def fail_next(self, error: HeadraceError, keeps: int = 0) -> None:
        """Let the next call of ``keep`` fail after so many letters."""
        self.accidents.append(error)
        self.keeps_before_accident = keeps

    def keep(self, letters: Sequence[DeadLetter]) -> None:
        """Keep every letter that is not there yet, or fail as told."""
        letters = [letter for letter in letters if letter.named not in self._named]
        for letter in letters:
            assert letter.error.offset is not None, "a dead letter names its record"
        if letters and self.accidents:
            self.letters += letters[: self.keeps_before_accident]
            raise self.accidents.pop(0)
        self.letters += letters
        self._named |= {letter.named for letter in letters}

    def ready(self, topic: str) -> bool:
        """As told, for every topic."""
        del topic
        return self.at_once

    def close(self) -> None:
        """Nothing to give up."""
