"""This driver among those that share the store.

Several drivers on one store divide its streams, and when one dies another inherits what it held.
Here is the part that acts: join under a name, beat now and then, look at the others' beats, and
take over from the dead. What these mean is decided in `policies/leases.py`; taking single streams
and giving them back is `observe.py`'s, which knows what is in flight.

A driver that cannot turn does not beat. If another one then does its work that is as it should be,
and when it comes back it finds itself given up, joins again, and begins with what is free. Nothing
is lost by it: whatever it did meanwhile stands under epochs that are refused by now.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection
from dataclasses import dataclass, field

import structlog

from headrace.errors import OutcomeUnknown
from headrace.model.streams import State, Stream, StreamId
from headrace.policies.leases import Assignment, PeerSilence, dead, may_inherit, share, watched
from headrace.ports import Membership

log = structlog.get_logger(__name__)

#: beats in a lease
BEATS = 5


@dataclass(slots=True)
class Leases:
    """A driver's membership."""

    membership: Membership
    #: unique among the drivers of a store; the next one of this name replaces this one
    name: str
    #: silence after which a driver is taken for dead
    lease_s: float
    #: tells this process from the next one of its name, also where the store's answer is lost
    _process: str = field(default_factory=lambda: str(uuid.uuid4()))
    _number: int | None = None
    #: before, as this process
    _has_joined: bool = False
    _loaded: frozenset[str] = frozenset()
    _seen: dict[str, PeerSilence] = field(default_factory=dict)
    #: names of the dead that this driver cannot inherit from, once told
    _orphans: set[str] = field(default_factory=set)
    _beat_at_s: float = float("-inf")
    #: it was given up for dead, and what it ran is others' by now
    given_up: bool = False
    #: streams may have to change hands, and ``look`` has not said so yet
    _news: bool = False

    def poll(self, loaded: Collection[str], now_s: float) -> bool:
        """Beat if it is time to; True if streams may have to change hands.

        Args:
            loaded: the use cases that this driver can run.
            now_s: monotonic.

        Raises:
            Fenced: another driver of this name was started.
            StoreUnavailable: nothing was learned; it is done in the next turn.
        """
        if self._number is None or self._loaded != frozenset(loaded):
            self._join(frozenset(loaded), now_s)
        elif self._is_time(now_s):
            self.confirm(now_s)
        news, self._news = self._news, False
        return news

    def stay(self, now_s: float) -> None:
        """Beat if it is time to, and take nothing over; for a driver that drains.

        Raises:
            Fenced: another driver of this name was started.
            StoreUnavailable: it is done in the next turn.
        """
        if self._number is not None and self._is_time(now_s):
            self.membership.beat(self.name, self._number)
            self._beat_at_s = now_s

    def _is_time(self, now_s: float) -> bool:
        return now_s - self._beat_at_s >= self.lease_s / BEATS

    def confirm(self, now_s: float) -> None:
        """Beat at once, and look at the others; what that tells, the next ``look`` says."""
        peers = self.membership.beat(self.name, self.number)
        if not peers:
            log.warning("this driver was given up for dead; it joins again", driver=self.name)
            self._number, self._seen, self.given_up = None, {}, True
            self._join(self._loaded, now_s)
            return
        passed_s = min(now_s - self._beat_at_s, 2 * self.lease_s / BEATS)
        before, self._beat_at_s = self._living(), now_s
        self._seen = watched(self._seen, peers, passed_s)
        self._inherit()
        self._news |= self._living() != before

    def _join(self, loaded: frozenset[str], now_s: float) -> None:
        self._news = True
        # It may have been given up for dead, of which the answer to a join says nothing.
        if self._has_joined and not self._is_known():
            self._seen, self.given_up = {}, True
        try:
            self._number = self.membership.join(
                self.name, loaded, process=self._process, again=self._has_joined
            )
        except OutcomeUnknown:
            self._number = None  # it may be another one by now
            raise
        self._has_joined = True
        self._loaded = loaded
        self.confirm(now_s)

    def _is_known(self) -> bool:
        if self._number is not None:
            return bool(self.membership.beat(self.name, self._number))
        # The answer to a join was lost, and with it the number.
        return any(peer.name == self.name for peer in self.membership.drivers())

    @property
    def number(self) -> int:
        """What it was given when it joined."""
        assert self._number is not None, "it has joined"
        return self._number

    @property
    def joined_as(self) -> int | None:
        """The same, or None before it has joined and after it has left. Safe in any thread."""
        return self._number

    def share(self, streams: Collection[Stream]) -> Assignment:
        """What to take of the free streams, and what to give back."""
        holders = {
            stream.id: stream.holder for stream in streams if stream.state is not State.REMOVED
        }
        return share(self.name, [silence.peer for silence in self._alive()], holders)

    def leave(self, running: Collection[StreamId] = ()) -> None:
        """Give everything back but what is ``running``, which waits until the lease is over."""
        if self._number is not None:
            self.membership.leave(self.name, self._number, running)
            self._number = None

    def _inherit(self) -> None:
        me = self._seen[self.name].peer
        for peer in dead(self.name, self._seen, self.lease_s):
            if not may_inherit(me, peer):
                if peer.name not in self._orphans:
                    why = "it ran use cases that this driver does not"
                    log.warning("driver is dead; it has no heir here", driver=peer.name, why=why)
                    self._orphans.add(peer.name)
                continue
            # Should the answer be lost, it may be the heir all the same.
            self._news = True
            if self.membership.adopt(self.name, self.number, peer):
                log.warning("driver is dead; its streams are taken over", driver=peer.name)
                del self._seen[peer.name]

    def _alive(self) -> list[PeerSilence]:
        # Who never beat is one that was lost: its share would be nobody's until it is inherited.
        return [
            silence
            for name, silence in self._seen.items()
            if name == self.name or (silence.silent_s < self.lease_s and silence.peer.beats)
        ]

    def _living(self) -> set[tuple[str, frozenset[str]]]:
        return {(silence.peer.name, silence.peer.use_cases) for silence in self._alive()}
