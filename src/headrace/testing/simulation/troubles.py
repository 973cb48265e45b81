"""What records do to whoever handles or writes them: for ever, or until some second.

A record says itself what it does, as ``raises:12.5#1``: what, until when, and of which log it is.
One that does it for ever is *poison*: it never has an effect, and has to be kept aside. One that
stops doing so may be kept aside too, where the tries were used up before. One that is ``good``
never is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from random import Random

from headrace.testing.simulation.actors import Killed
from headrace.testing.simulation.odds import Odds

GOOD = "good"
#: what cannot be but for ever
_LASTING = ("bad", "refused", "unreadable")
#: what is never for ever
_PASSING = ("down",)
KINDS = ("bad", "raises", "hangs", "sticks", "kills", "refused", "down", "unreadable")
_LASTS_S = 10.0
#: what never is for ever lasts for longer: else it is over before anybody looks
_PASSES_S = 90.0


class WorkerDies(Killed):
    """A handler takes its worker along: no handler of exceptions is asked."""


class Stuck(Killed):
    """A call that does not come back, and cannot be interrupted."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """What a record does."""

    kind: str
    until_s: float
    #: which log it is of, as places name it
    log: str

    @property
    def readable(self) -> bool:
        """Whether a reader can hand it out."""
        return self.kind != "unreadable"

    @property
    def poison(self) -> bool:
        """Whether it does so for ever."""
        return self.kind != GOOD and math.isinf(self.until_s)

    def now(self, now_s: float, *, calm: bool) -> str:
        """What it does at a second; nothing that passes when all is calm."""
        does = self.poison or (not calm and now_s < self.until_s)
        return self.kind if does else GOOD


def trouble_of(value: bytes | None) -> Trouble:
    """What the record with this value does."""
    what, _, log = (value or b"good").decode().partition("#")
    kind, _, until = what.partition(":")
    return Trouble(kind, float(until or 0.0), log)


def is_poison(value: bytes | None) -> bool:
    """Whether a record can never be handled."""
    return trouble_of(value).poison


def drawn(rng: Random, odds: Odds, now_s: float) -> str:
    """What the next record does, and until when."""
    for kind in KINDS:
        often = getattr(odds, kind)
        if often and rng.random() < often:
            lasting = kind in _LASTING or (kind not in _PASSING and rng.random() < 0.5)
            most_s = _PASSES_S if kind in _PASSING else _LASTS_S
            return f"{kind}:{math.inf if lasting else now_s + rng.uniform(0, most_s)}"
    return GOOD
