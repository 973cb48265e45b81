"""Which faults a run has, and how often.

If every run had every fault, none would ever get far, and most pairs of faults would never meet
alone. So a seed first draws which faults it has at all, and then how often each comes.
"""

from __future__ import annotations

from collections.abc import Mapping
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
    #: of a write: it was done, and its answer is lost
    sink_unsure: float = 0.0
    #: of a call that keeps dead letters: it fails, and some may be kept all the same
    letters_fail: float = 0.0
    #: of a call of the dead letters: it takes long
    letters_slow: float = 0.0
    #: of a question whether a letter can be kept at once: it cannot
    letters_unready: float = 0.0
    #: of what a driver does beside its turns: it begins later
    beside_late: float = 0.0
    #: of a question to the log: no broker answers
    log_fails: float = 0.0
    #: of a question to the log: it takes long
    log_slow: float = 0.0
    #: of a partition in an answer of the log: it is left out
    log_partial: float = 0.0
    #: of a batch that is read: its broker goes before all of it came
    reads_end: float = 0.0
    #: of a moment for it: a leader is cut off, and tells an end of a while ago
    log_stale: float = 0.0
    #: of a moment for it: a log loses its youngest records
    cuts: float = 0.0
    #: of a moment for it: a range is to be read once more
    reruns: float = 0.0
    #: of a driver's question for results: its engine has ended
    engine_stops: float = 0.0
    #: of a deployment: a driver cannot load it yet
    loads_late: float = 0.0
    #: of a deployment: it has other terms (guarantee, order, sink)
    other_terms: float = 0.0
    #: of a wave: nothing of it ran
    lost_before: float = 0.0
    #: of a wave: it ran, and nobody heard of it
    lost_after: float = 0.0
    #: of a DataFrame wave: what was kept of its records is lost, and they are read again
    read_again: float = 0.0
    #: of a bin: it yields after its first group
    yields: float = 0.0
    #: of a record: the handler calls it bad
    bad: float = 0.0
    #: of a record: no reader can hand it out
    unreadable: float = 0.0
    #: of a record: the handler raises, for ever or for some seconds
    raises: float = 0.0
    #: of a record: the handler hangs, and can be interrupted
    hangs: float = 0.0
    #: of a record: the handler hangs, and cannot be interrupted
    sticks: float = 0.0
    #: of a record: the handler kills its worker
    kills: float = 0.0
    #: of a record: the sink refuses what comes of it
    refused: float = 0.0
    #: of a record: what its handler calls is down for some seconds
    down: float = 0.0
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
    #: of records that are sent: first a lane becomes two, or two become one
    splits: float = 0.0
    #: of records that are sent: first retention takes a lane that became others, read or not
    drops: float = 0.0
    #: of a claim: its answer is lost, and the server goes on with its commit later
    commits_late: float = 0.0
    #: of a lane that is made: only reading tells where it ends
    hides: float = 0.0
    #: of a batch of a slice whose end only reading tells: less comes than is there
    reads_less: float = 0.0
    #: of a lane that becomes two, or of two that become one: those are listed later, one by one
    lists_late: float = 0.0
    #: of a topic in an answer of the log: its broker has not heard what became of it
    unheard: float = 0.0
    #: of an effect: its tenant's own database is locked, or others left it no time to be tried
    locks: float = 0.0
    #: of a moment for what keeps a driver's dead letters: not yet
    letters_late: float = 0.0
    #: of a use case: it reads one topic for all tenants
    for_all: float = 0.0
    #: of a use case: its streams begin at the end; and of a tenant: its topic is made later
    at_end: float = 0.0
    #: of a use case: its streams pass over what is too old, if they were left alone
    restarts: float = 0.0
    #: of a use case: it reads a list of topics
    lists: float = 0.0
    #: of one that reads no list: what a pattern matches, of which some come later
    patterns: float = 0.0
    #: of a driver that is killed: it drained for too long, and gives back first what it can
    drains_cut: float = 0.0
    #: of a use case that could have buckets, in tenths: it has, by key
    divided: float = 0.4
    #: of one with buckets, in tenths: they are by place
    by_place: float = 0.3


_MOST = {
    "driver_killed": 0.004,
    "driver_paused": 0.004,
    "task_killed": 0.02,
    "task_paused": 0.05,
    "store_before": 0.01,
    "store_after": 0.01,
    "sink_fails": 0.1,
    "sink_unsure": 0.1,
    "letters_fail": 0.3,
    "letters_slow": 0.2,
    "letters_unready": 0.5,
    "beside_late": 0.3,
    "log_fails": 0.02,
    "log_slow": 0.01,
    "log_partial": 0.03,
    "reads_end": 0.05,
    "log_stale": 1.0,
    "cuts": 1.0,
    "reruns": 1.0,
    "engine_stops": 0.005,
    "loads_late": 0.5,
    "other_terms": 1.0,
    "lost_before": 0.2,
    "lost_after": 0.2,
    "yields": 0.5,
    "bad": 0.02,
    "unreadable": 0.01,
    "raises": 0.01,
    "hangs": 0.005,
    "sticks": 0.003,
    "kills": 0.005,
    "refused": 0.01,
    "down": 0.1,
    "dawdles": 0.04,
    "seeks": 1.0,
    "comes_and_goes": 1.0,
    "deletes": 1.0,
    "expires": 1.0,
    "widens": 1.0,
}
#: faults that came later: a seed in which they are not plays what it played before
_MOST_LATER = {
    "read_again": 1.0,
    "splits": 0.6,
    "drops": 0.3,
    "commits_late": 0.3,
    "hides": 1.0,
    "reads_less": 0.5,
    "lists_late": 0.8,
    "unheard": 0.2,
    "locks": 0.5,
}
#: what no seed draws: it is as it stands above, or as it is asked for
_ASKED = (
    "letters_late",
    "for_all",
    "at_end",
    "restarts",
    "lists",
    "patterns",
    "drains_cut",
    "divided",
    "by_place",
)
_NAMES = {*_MOST, *_MOST_LATER, *_ASKED}
assert {field.name for field in fields(Odds)} == _NAMES


#: what part of all faults a run has: mostly few, so that single ones meet single others
_PARTS = (0.1, 0.2, 0.5)


def draw(rng: Random) -> Odds:
    """Draw which faults there are, and how often they come."""
    part = rng.choice(_PARTS)
    drawn = _drawn(rng, part, _MOST)
    drawn |= _drawn(Random(str(drawn)), part, _MOST_LATER)  # noqa: S311 - chance, not secrecy
    return Odds(**{name: often if there else 0.0 for name, (there, often) in drawn.items()})


def read_odds(text: str) -> dict[str, float]:
    """Odds as they are written: ``hides=0.7,reads_less=0.3``.

    Raises:
        ValueError: there is no such fault, or it is no chance.
    """
    found = {}
    for part in filter(None, text.split(",")):
        name, _, often = part.partition("=")
        if name not in _NAMES or not 0 <= float(often) <= 1:
            raise ValueError(f"{part!r} is no fault and how often it comes")
        found[name] = float(often)
    return found


def odds_text(odds: Mapping[str, float]) -> str:
    """What ``read_odds`` reads."""
    return ",".join(f"{name}={often:g}" for name, often in odds.items())


def _drawn(rng: Random, part: float, most: Mapping[str, float]) -> dict[str, tuple[bool, float]]:
    return {name: (rng.random() < part, rng.uniform(0, often)) for name, often in most.items()}
