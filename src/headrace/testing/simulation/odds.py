"""Which faults a run has, and how often.

If every run had every fault, none would ever get far, and most pairs of faults would never meet
alone. So a seed first draws which faults it has at all, and then how often each comes.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from random import Random


@dataclass(frozen=True, slots=True)
class Odds:
    """Chances of faults: of each call of an actor, or of each wave where it says so."""

    driver_killed: float = 0.0
    driver_paused: float = 0.0
    task_killed: float = 0.0
    task_paused: float = 0.0
    store_before: float = 0.0
    store_after: float = 0.0
    sink_fails: float = 0.0
    #: of a wave: nothing of it ran
    lost_before: float = 0.0
    #: of a wave: it ran, and nobody heard of it
    lost_after: float = 0.0
    #: of a bin: it yields after its first group
    yields: float = 0.0
    #: of a record: it can never be handled
    poison: float = 0.0
    #: of a record: it cannot be handled for some seconds
    stumbles: float = 0.0
    #: of a call of a handler: it takes too long
    dawdles: float = 0.0
    #: of a moment for it: somebody seeks a stream
    seeks: float = 0.0
    #: of a moment for it: a tenant or stream is removed, and one that was is added again
    comes_and_goes: float = 0.0
    #: of a moment for it: a topic is deleted; it is made again later
    deletes: float = 0.0
    #: of a moment for it: retention takes records
    expires: float = 0.0
    #: of a moment for it: a topic gets one more partition
    widens: float = 0.0


_MOST = {
    "driver_killed": 0.004,
    "driver_paused": 0.004,
    "task_killed": 0.02,
    "task_paused": 0.03,
    "store_before": 0.01,
    "store_after": 0.01,
    "sink_fails": 0.1,
    "lost_before": 0.2,
    "lost_after": 0.2,
    "yields": 0.5,
    "poison": 0.02,
    "stumbles": 0.02,
    "dawdles": 0.04,
    "seeks": 1.0,
    "comes_and_goes": 1.0,
    "deletes": 1.0,
    "expires": 1.0,
    "widens": 1.0,
}
assert set(_MOST) == {each.name for each in fields(Odds)}


def draw(rng: Random) -> Odds:
    """Draw which faults there are, each with an even chance, and how often they come."""
    return Odds(**{name: rng.choice([0.0, rng.uniform(0, most)]) for name, most in _MOST.items()})
