"""Keeping dead letters beside the turns.

A lane may pass over a bad record only when that is safe in the dead letters, and brokers that hang
say so after half a minute. A turn that waited for them would wait for each such lane, and beat no
more. So letters are handed to a thread, and the lane stands still until its letter is acknowledged.

A lane has one letter under way at most. Those of tenants whose last letter was taken come first,
then those whose trouble is longest ago, and a letter that brokers did not take ends its round: what
hangs for one tenant, in however many lanes, holds another up once at most. What waits is bounded in
number and bytes, and of that a tenant has a quarter of what the others leave; where there is no
room the record is tried again later, as if its letter had not been kept.

A driver that stood still for longer than its lease may have been replaced meanwhile, and the record
be handled by its heir. So right before a letter is kept, the store is asked whether its lane still
stands there under the same epoch. That is a look and no commit, and a lane that moved holds up no
other. Between that look and the broker's answer a process can stand still as well; that moment is
left.

What a lane does when its letter is kept, or is not, is `failing.py`'s.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Executor, Future
from contextvars import copy_context
from dataclasses import dataclass, field
from typing import NamedTuple

from headrace.cycle.beside import ended
from headrace.errors import HeadraceError, Permanent, Temporary, words_of
from headrace.model.records import Move
from headrace.model.streams import LaneId
from headrace.policies.holding import may_hold
from headrace.ports import DeadLetter, DeadLetters, Positions

#: letters, and bytes of their records, that may wait for brokers
MOST_WAITING = 1_000
MOST_BYTES = 64 * 2**20
#: letters after which the turn hears of what is done
_ROUND = 100


@dataclass(frozen=True, slots=True)
class PendingLetter:
    """A record that is to be set aside, and what its lane does then."""

    letter: DeadLetter
    #: over the record, from where the lane stands
    move: Move
    #: temporary troubles of its lane in a row
    tries: int = 0
    #: dead letters in a row that its handler gave up, this one included
    letters: int = 0

    @property
    def bytes(self) -> int:
        """What it keeps in memory, nearly."""
        error = self.letter.error
        return len(error.raw_key or b"") + len(error.raw_value or b"")


class LetterOutcome(NamedTuple):
    """What became of a letter."""

    aside: PendingLetter
    #: why it is not kept; None if it is
    error: HeadraceError | None


@dataclass(slots=True)
class PendingLetters:
    """Keeps letters in a thread."""

    dead_letters: DeadLetters
    positions: Positions
    thread: Executor
    #: everything that is not answered yet, in the order it came
    _waiting: dict[LaneId, PendingLetter] = field(default_factory=dict)
    #: tenants whose last letter brokers did not take, longest ago first
    _troubled: dict[str, None] = field(default_factory=dict)
    _running: Future[list[LetterOutcome]] | None = None
    _closing: threading.Event = field(default_factory=threading.Event)

    @property
    def is_busy(self) -> bool:
        """Whether a letter waits, or is being kept."""
        return bool(self._waiting)

    def take(self, aside: PendingLetter) -> bool:
        """Have a letter kept; False if there is no room, or its lane has one under way."""
        if aside.move.lane in self._waiting or not self._has_room(aside):
            return False
        self._waiting[aside.move.lane] = aside
        return True

    def _has_room(self, aside: PendingLetter) -> bool:
        """Whether its tenant may have one more wait."""
        taken = [aside.bytes for aside in self._waiting.values()]
        tenant = aside.move.lane.tenant
        own = [letter.bytes for lane, letter in self._waiting.items() if lane.tenant == tenant]
        return may_hold(MOST_WAITING, len(taken), len(own), 1) and may_hold(
            MOST_BYTES, sum(taken), sum(own), aside.bytes
        )

    def poll(self) -> list[LetterOutcome]:
        """What became of letters since the last look; what waits is begun. Never waits."""
        found: list[LetterOutcome] = []
        while self._running is not None or self._waiting:
            if self._running is None:
                self._running = self._begun()
            if not self._running.done():
                break
            running, self._running = self._running, None
            came = running.result()
            for kept in came:
                self._heed(kept)
            found += came
        return found

    def _heed(self, kept: LetterOutcome) -> None:
        """It waits no more; whether brokers took it decides when its tenant's next one is due."""
        lane = kept.aside.move.lane
        del self._waiting[lane]
        self._troubled.pop(lane.tenant, None)
        if isinstance(kept.error, Temporary):
            self._troubled[lane.tenant] = None

    def _begun(self) -> Future[list[LetterOutcome]]:
        turn = {tenant: number for number, tenant in enumerate(self._troubled)}

        def due(letter: PendingLetter) -> tuple[int, int]:
            return turn.get(letter.move.lane.tenant, -1), letter.tries

        some = sorted(self._waiting.values(), key=due)[:_ROUND]
        # With what log lines of this process are bound to, such as the driver's name.
        context = copy_context()
        return self.thread.submit(
            lambda: context.run(_keep, self.dead_letters, self.positions, some, self._closing)
        )

    def close(self, until_s: float) -> bool:
        """Begin no letter any more, and wait for the one that is being kept; whether that is over.

        One that is kept later, or never, does no harm: its lane stands where it stood, and whoever
        runs it next sets the record aside again.
        """
        self._closing.set()
        return ended(self.thread, [self._running], until_s)


def _keep(
    dead_letters: DeadLetters,
    positions: Positions,
    some: Sequence[PendingLetter],
    closing: threading.Event,
) -> list[LetterOutcome]:
    """Keep letters one by one, as one that is refused says nothing of the others.

    After one that brokers did not take, or of which the store did not answer, the rest is left for
    another round.
    """
    came: list[LetterOutcome] = []
    for aside in some:
        if closing.is_set():
            break
        came.append(LetterOutcome(aside, _trouble_with(aside, dead_letters, positions)))
        if isinstance(came[-1].error, Temporary):
            break
    return came


def _trouble_with(
    aside: PendingLetter, dead_letters: DeadLetters, positions: Positions
) -> HeadraceError | None:
    """Keep a letter; why it is not kept, if it is not.

    Whatever a client raises is its lane's trouble, and not the turn's, where all lanes would stop.
    """
    try:
        if not all(positions.stand([aside.move])):
            return Permanent("its lane has moved meanwhile, or is under another epoch")
        dead_letters.keep([aside.letter])
    except AssertionError:  # an invariant of our own
        raise
    except HeadraceError as error:
        return error
    except Exception as fault:
        return Temporary(f"the dead letters failed: {words_of(fault)}")
    return None
