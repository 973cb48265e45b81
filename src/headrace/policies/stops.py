"""Who may let go on what somebody stopped.

A tenant and a stream can be stopped by an operator, by the tenant itself, and by Headrace, for all
tenants of a use case or because records are lost. These do not know of each other, so each stop is
kept with who made it, and none hides another: a tenant that stops what is stopped already gains
nothing by it, and when a use case goes on, who had stopped its own stream stays stopped.

What a stop means for what runs is not decided here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.errors import NotAllowed
from headrace.model.streams import State, Stopper

Stoppers = frozenset[Stopper]

#: whose stops are lifted in whose name
_LIFTED: Mapping[Stopper, Stoppers] = {
    Stopper.OPERATOR: frozenset(Stopper),
    Stopper.TENANT: frozenset({Stopper.TENANT}),
    Stopper.FAILURE: frozenset({Stopper.FAILURE}),
}
_TOLD = {
    Stopper.OPERATOR: "an operator stopped it, and only an operator resumes it; ask yours",
    Stopper.FAILURE: "a failure stopped it, and only an operator resumes it; ask yours",
}


@dataclass(frozen=True, slots=True)
class Status:
    """Whether a stream goes on, and why not."""

    state: State
    #: as people are shown it
    reason: str | None
    stopped_by: Stoppers


def stopped(before: Stoppers, by: Stopper) -> Stoppers:
    """Who has stopped it, once ``by`` does."""
    return before | {by}


def resumed(before: Stoppers, by: Stopper, what: str) -> Stoppers:
    """Who has it stopped still, once ``by`` lets it go on; nobody: it goes on.

    Args:
        before: who has stopped it.
        by: in whose name it is to go on; ``FAILURE``: what a failure stopped, and nothing else.
        what: such as ``stream acme/score``, for the refusal.

    Raises:
        NotAllowed: a tenant may not, for somebody else has stopped it.
    """
    left = before - _LIFTED[by]
    if by is Stopper.TENANT:
        for stopper in (Stopper.OPERATOR, Stopper.FAILURE):
            if stopper in left:
                raise NotAllowed(f"{what} stays suspended: {_TOLD[stopper]}")
    return left


def changed(before: Status, state: State, reason: str | None, by: Stopper, what: str) -> Status:
    """What becomes of a stream that is suspended, resumed or removed in somebody's name.

    Raises:
        NotAllowed: as ``resumed``.
    """
    if state is State.ACTIVE:
        left = resumed(before.stopped_by, by, what)
        return Status(State.SUSPENDED if left else State.ACTIVE, None, left)
    if state is State.SUSPENDED:
        # Who stops by hand what a failure has stopped does not make its reason go away.
        kept = before.reason if Stopper.FAILURE in before.stopped_by else None
        return Status(state, reason or kept, stopped(before.stopped_by, by))
    return Status(state, reason, frozenset())
