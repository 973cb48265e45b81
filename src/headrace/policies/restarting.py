"""When a stream is taken for left alone, and what of it is passed over then.

Two moments. When a driver takes over what a dead one held, be it as its heir or under its name,
the store tells for how long nobody had committed: ``is_left``. A stream that was given back, as in
a drain, a rebalance or a rolling restart, is not asked about. Later, once all that was recorded
of the stream is over, its log is asked, and ``passed_over`` says where each lane goes on.

Nobody commits where nothing comes. So a stream whose oldest record that was not read is younger
than ``restart_after`` goes on where it is, however long ago it was committed: else what came within
the lease of a dead driver would be lost to every quiet stream.

Times are those of records as their log has them, and the clock is that of whoever asks.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from headrace.model.lineage import Lineage, followers
from headrace.model.places import OPEN, Place
from headrace.model.restarts import Restart


@dataclass(frozen=True, slots=True)
class RestartEdges:
    """What a log says of lanes; one that it cannot tell of now is left out."""

    #: the first place that is still there
    starts: Mapping[str, Place]
    #: the first place whose record has not waited for ``restart_after``
    waited: Mapping[str, Place]
    #: where they are to go on: at their ends, or the first place that is not too old
    fresh: Mapping[str, Place]


def is_left(silent_s: float | None, restart: Restart | None) -> bool:
    """Whether a stream that is taken over from a holder that did not give it back was left alone.

    Args:
        silent_s: for how long nobody had committed it; None: nobody knows.
        restart: what its use case says.
    """
    return restart is not None and silent_s is not None and silent_s >= restart.after_s


def unanswered(places: Mapping[str, Place], edges: RestartEdges) -> str | None:
    """A lane of which its log could not tell; None if it told of all."""
    told = edges.starts.keys() & edges.waited.keys() & edges.fresh.keys()
    return next((name for name in places if name not in told), None)


def passed_over(
    places: Mapping[str, Place], edges: RestartEdges, ends: Mapping[str, Place]
) -> dict[str, Place]:
    """Where lanes go on, of those that pass something over; none goes back.

    What a log has lost has no age any more: where nothing that is left has waited, it is a loss as
    any other.

    Args:
        places: where the lanes are that may be moved.
        edges: what their log says of all of them.
        ends: of lanes that others follow: where these begin. What is behind that is not theirs.
    """
    waited = {name: min(edges.waited[name], ends.get(name, OPEN)) for name in places}
    if not any(max(at, edges.starts[name]) < waited[name] for name, at in places.items()):
        return {}
    to = {name: min(edges.fresh[name], ends.get(name, OPEN)) for name in places}
    return {name: at for name, at in to.items() if places[name] < at < OPEN}


def movable(
    places: Mapping[str, Place], stopped: Collection[str], lineage: Lineage, *, merged: bool
) -> dict[str, Place]:
    """Lanes that may pass something over: one that is stopped at a record is a person's to decide.

    So is what follows it. Merged lanes go on together, so none does while one is stopped.
    """
    if merged and stopped:
        return {}
    waiting = {*stopped, *followers(stopped, lineage)}
    return {name: at for name, at in places.items() if name not in waiting}
