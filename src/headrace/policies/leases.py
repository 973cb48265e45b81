"""Who plans which streams, when several drivers share one store.

No two drivers may plan one stream, and a driver that died must not leave its streams alone for
long. But clocks of machines differ and jump, and nobody can tell a dead driver from one that is
paused. So time is never compared between machines: each driver counts *beats* in the store, and
whoever sees the same count for a whole lease, by its own monotonic clock, takes it for dead. Only
the time between two looks of one's own counts, and no more of it than a look should take: somebody
who was paused himself has seen nothing in that time.

A dead driver has one heir, which takes over everything at once: streams, and the waves it wrote
down, which only make sense whole. Whoever has more than a fair share gives back what is over; what
is free is taken by those who have less. A fair share differs by one stream at most, so with a fixed
set of drivers it comes to rest. This is Kinesis Client Library's lease table, with heirs.

With 10 streams and the drivers a, b and c the shares are 3, 3 and 4. When c dies, say a inherits 4
and has 7 of its share of 5; it gives back 2, which b takes.

Exactness does not rest on this: epochs refuse whoever was wrongly taken for dead. A lease only
keeps two drivers from doing the same work for nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from headrace.model.records import Peer
from headrace.model.streams import StreamId, original

#: of the processes that were a driver, how many are known
_REMEMBERED = 8


@dataclass(frozen=True, slots=True)
class PeerSilence:
    """What one driver has seen of another one's life."""

    peer: Peer
    #: seconds of looking in which its count stayed the same
    silent_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Assignment:
    """What a driver is to take of what is free, and to give back of what it has."""

    take: frozenset[StreamId]
    give: frozenset[StreamId]


def most_held_s(lease_s: float) -> float:
    """Seconds for which a driver may be kept from its turns, and be far from given up for dead."""
    return lease_s / 3


def watched(
    before: Mapping[str, PeerSilence], peers: Iterable[Peer], passed_s: float
) -> dict[str, PeerSilence]:
    """What is known after a look.

    Args:
        before: what was known after the last one; empty at first.
        peers: the drivers as the store has them now.
        passed_s: seconds since the last look, no more than a look should take.
    """
    now: dict[str, PeerSilence] = {}
    for peer in peers:
        known = before.get(peer.name)
        same = known is not None and _life(known.peer) == _life(peer)
        now[peer.name] = PeerSilence(peer, known.silent_s + passed_s if known and same else 0.0)
    return now


def dead(me: str, seen: Mapping[str, PeerSilence], lease_s: float) -> list[Peer]:
    """Drivers that were silent for a whole lease, by name; never oneself."""
    return [
        silence.peer
        for name, silence in sorted(seen.items())
        if name != me and silence.silent_s >= lease_s
    ]


def joined(before: Sequence[str], process: str, *, again: bool) -> tuple[str, ...] | None:
    """Which processes a driver is and was, the latest one first, once this one joins as it.

    None where it may not: another one has replaced it, which the answer that it did not hear would
    have told. One that joins for the first time replaces whoever is there.

    Args:
        before: the same, before.
        process: who joins.
        again: it has heard before that it joined.

    >>> joined((), "a", again=False), joined(("a",), "b", again=False)
    (('a',), ('b', 'a'))
    >>> joined(("b", "a"), "b", again=True), joined(("b", "a"), "a", again=False)
    (('b', 'a'), None)
    """
    if not before:
        return (process,)
    is_now, *were = before
    if process in were or (again and process != is_now):
        return None
    return tuple(before) if process == is_now else (process, *before)[:_REMEMBERED]


def may_inherit(heir: Peer, of: Peer) -> bool:
    """Whether it can finish what the other one began: it has the code of all of its use cases.

    A rerun has none of its own. One that has begun the heir takes up as well, and of one that is
    over nothing is left to finish.
    """
    return set(map(original, of.use_cases)) <= set(map(original, heir.use_cases))


def share(me: str, living: Collection[Peer], holders: Mapping[StreamId, str | None]) -> Assignment:
    """Decide what to take and what to give back.

    Args:
        me: the driver that asks; one of ``living``.
        living: the drivers that are not dead.
        holders: each stream that is not removed, with the driver that holds it; None is free.
    """
    take: set[StreamId] = set()
    give: set[StreamId] = set()
    for use_case in {holder.use_case for holder in holders}:
        names = sorted(peer.name for peer in living if use_case in peer.use_cases)
        if me not in names:
            continue
        streams = sorted(holder for holder in holders if holder.use_case == use_case)
        mine = [stream for stream in streams if holders[stream] == me]
        place = names.index(me)
        fair = len(streams) * (place + 1) // len(names) - len(streams) * place // len(names)
        free = [stream for stream in streams if holders[stream] is None]
        take.update(free[: max(0, fair - len(mine))])
        give.update(mine[fair:])
    return Assignment(frozenset(take), frozenset(give))


def _life(peer: Peer) -> tuple[int, int]:
    return peer.number, peer.beats
