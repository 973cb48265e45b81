"""Places of requests: who keeps many open has a part of them, and the others are answered.

A door answers only so many requests at once. Whoever sends no body, or reads no answer, keeps a
place for half a minute, so some hundred connections would keep everybody else out, and for that
nobody needs a key. So requests that wait for their client before anybody knows who that is have
half of all places, and of those one address has a quarter of what the others leave; a tenant has a
quarter of what all others leave (``policies/holding``), and so has a key for some subjects alone.
Operators and viewers have what is left.

A request of a stranger that waits for nothing takes no part: most are refused at once, and those
that show a credential are a stranger's for no longer than it takes to look at it.
"""

from __future__ import annotations

from collections import Counter

from fastapi import Request

from headrace.doors.attempts import network_of
from headrace.doors.problems import Problem
from headrace.model.credentials import Caller
from headrace.policies.holding import may_hold

#: where ``bounds`` puts the place of a request
PLACE = "headrace.place"
_STRANGERS = 2  # one of so many places


class Places:
    """The places of a door. For one event loop."""

    def __init__(self, most: int) -> None:
        """Take how many there are."""
        self._most = most
        self._most_of_strangers = max(1, most // _STRANGERS)
        self._taken = 0
        #: how many places each network of strangers, and each tenant or key like one, holds
        self.of_strangers: Counter[str] = Counter()
        self.of_tenants: Counter[str] = Counter()

    @property
    def are_taken(self) -> bool:
        """Whether there is none left."""
        return self._taken >= self._most

    def take(self, address: str) -> Place:
        """A place for a request from an address; ``leave`` it."""
        self._taken += 1
        return Place(self, network_of(address))

    def leave(self, held: tuple[Counter[str], str] | None) -> None:
        """Give a place back, and the part of it that was held for a name."""
        self._taken -= 1
        if held is not None:
            holders, name = held
            holders[name] -= 1
            if not holders[name]:
                del holders[name]

    def may_stranger(self, network: str) -> bool:
        """Whether a stranger from this network may keep one more."""
        strangers = self.of_strangers
        return may_hold(self._most_of_strangers, strangers.total(), strangers[network], 1)

    def may_tenant(self, tenant: str) -> bool:
        """Whether this tenant may keep one more."""
        return may_hold(self._most, self._taken - 1, self.of_tenants[tenant], 1)


class Place:
    """The place of one request."""

    def __init__(self, places: Places, network: str) -> None:
        self._places = places
        self._network = network
        self._is_known = False
        self._held: tuple[Counter[str], str] | None = None

    def known(self, caller: Caller) -> None:
        """It is known who calls; once more changes nothing.

        Raises:
            Problem: 503, the tenant has its part.
        """
        if self._is_known:
            return
        name = caller.held_as
        if name is not None:
            if not self._places.may_tenant(name):
                raise _busy(f"as many requests of {name} as may run at once do")
            self._hold(self._places.of_tenants, name)
        self._is_known = True

    def waits(self) -> Problem | None:
        """It waits for its client; the refusal of a stranger whose address has its part."""
        if self._is_known or self._held is not None:
            return None
        if not self._places.may_stranger(self._network):
            return _busy("as many requests without a credential as may wait do")
        self._hold(self._places.of_strangers, self._network)
        return None

    def leave(self) -> None:
        """The request is over."""
        self._places.leave(self._held)

    def _hold(self, holders: Counter[str], name: str) -> None:
        if self._held is None:
            holders[name] += 1
            self._held = (holders, name)


def let_in(request: Request, caller: Caller) -> None:
    """Say who sends a request; ``request.state.caller`` from then on.

    Raises:
        Problem: 503, its tenant has as many requests under way as it may have.
    """
    place: Place | None = request.scope.get(PLACE)
    if place is not None:
        place.known(caller)
    request.state.caller = caller


def _busy(why: str) -> Problem:
    headers = {"Retry-After": "1", "Connection": "close"}
    return Problem(503, "busy", f"{why}; try again", headers=headers)
