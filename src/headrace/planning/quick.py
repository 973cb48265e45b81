"""The part of a snapshot that should not wait for the rest.

Groups take turns by what they are owed, and that is fair, but not quick: beside fifty slow streams
that are each owed a little, a tenant with two records is the fifty-first. The host may therefore
give some turns to quick streams alone: those of the express slot, and with one slot every turn
after a long bin. A quick stream then waits for one bin, and the others lose next to nothing, since
all that is quick is soon done.

When such a turn is due is the host's matter: it knows what runs and what ran last.
"""

from __future__ import annotations

from dataclasses import replace

from headrace.model.plans import Snapshot
from headrace.planning.demand import find_demands
from headrace.planning.kinds import Kind


def quick_only(snapshot: Snapshot) -> Snapshot:
    """The snapshot with its quick streams alone; as it is if none of them could use anything."""
    quick = {demand.view.id for demand in find_demands(snapshot) if demand.group.kind is Kind.QUICK}
    if not quick:
        return snapshot
    return replace(
        snapshot, streams=tuple(stream for stream in snapshot.streams if stream.id in quick)
    )
