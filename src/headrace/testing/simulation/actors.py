"""Processes that can die or sleep at any call they make, and whom they ask when they make one.

The calls themselves are behind ``doors.py``; what happens at a call is ``world.py``'s.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Literal, Protocol

from headrace.model.records import Move
from headrace.model.waves import Wave
from headrace.ports import DeadLetter, TopicInfo
from headrace.process.crash_points import PlayedKill
from headrace.testing.simulation.left_alone import LeftAlone
from headrace.testing.simulation.odds import Odds


class Killed(PlayedKill):
    """The process ends here; nothing of it runs on."""


@dataclass(eq=False, slots=True)
class Actor:
    """A driver's process, or one attempt of a task."""

    name: str
    kind: Literal["driver", "task"]
    dead: bool = False
    #: inside how many transactions it is
    shielded: int = 0
    #: tells the world which slices a fault of it may touch
    hurt: Callable[[], None] = lambda: None


class Stage(Protocol):
    """What doors ask."""

    rng: Random
    odds: Odds
    calm: bool
    #: what happened how often
    counts: Counter[str]

    def believed_end(self, lane: str, end: int) -> int:
        """Where a log ends for whoever asks its leader, which may have been cut off."""

    def told_topics(self, who: object, known: dict[str, TopicInfo]) -> dict[str, TopicInfo]:
        """What somebody is told of topics, perhaps by a broker that has not heard of a change."""

    def told_names(self, who: object, names: Collection[str]) -> Collection[str]:
        """Which topics somebody is told of, perhaps by a broker that has not heard of one."""

    def dawdle(self, actor: Actor, what: str) -> None:
        """A call takes long, and everybody else goes on meanwhile."""

    def step(self, actor: Actor, what: str) -> None:
        """Somebody is about to do something, or has just done it; may kill it or let it sleep."""

    def store_fails(self, actor: Actor, when: Literal["before", "after"]) -> bool:
        """Whether the store does not answer now."""

    def commits_late(self, actor: Actor, commit: Callable[[], None]) -> bool:
        """Whether the answer to a claim is lost now, and its server commits it later."""

    @property
    def left_alone(self) -> LeftAlone:
        """Which streams were left alone."""

    def moved_late(self, move: Move) -> None:
        """A position was moved by a claim that nobody waits for."""

    def unkept(self, actor: Actor, letters: Sequence[DeadLetter]) -> None:
        """Dead letters are not kept, or nobody hears that they are."""

    def moved(self, move: Move) -> None:
        """A position was moved, for good."""

    def answer_lost(self, move: Move) -> None:
        """Whoever moved a position does not know."""

    def decided(self, name: str, args: Sequence[Any]) -> None:
        """A driver decided about lanes as a whole: where they begin, go on, or stop."""

    def set_aside(self, letter: DeadLetter) -> None:
        """A dead letter is kept."""

    def recorded(self, actor: Actor, wave: Wave, *, heard: bool) -> None:
        """A wave is written down, or may be, and whoever wrote does not know."""

    def replaced(self, driver: str, by: Actor) -> None:
        """A driver of this name is not the one any more, or was given up for dead."""
