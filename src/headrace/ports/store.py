"""What must be exact, for drivers and operators."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, Protocol

from headrace.model.records import Answer, Deployment, Failure, LaneStart, Move, Peer
from headrace.model.streams import (
    LaneId,
    Position,
    Slice,
    State,
    Stopper,
    Stream,
    StreamId,
    Tenant,
    Throttle,
)
from headrace.model.waves import Wave
from headrace.ports.keys import Audit, Keys
from headrace.ports.positions import Positions
from headrace.ports.statistics import Statistics


class Finished(NamedTuple):
    """What became of a recorded wave."""

    #: whether each position was moved, in order
    moved: list[bool]
    #: what of it is still written down in this driver's name: to be run again
    left: list[Wave]


class Store(Protocol):
    """What must be exact: tenants, streams, positions, epochs, intents, deployments, failures.

    Every method is one transaction, durable on return, and safe from several processes and threads
    at once. Unknown names raise ``UnknownName``; a store that does not answer raises
    ``StoreUnavailable``.
    """

    @property
    def positions(self) -> Positions:
        """The compare-and-set of positions."""

    @property
    def keys(self) -> Keys:
        """The API keys."""

    @property
    def audit(self) -> Audit:
        """What was changed by HTTP, and by whom."""

    @property
    def statistics(self) -> Statistics:
        """What drivers tell of themselves: figures for people."""

    def revision(self) -> int:
        """Grows with every change made by an operator, not with commits; asked each turn."""

    def seal_key(self) -> bytes:
        """The random key that seals records sent back; the same for all who open this store."""

    # tenants and streams

    def tenants(self) -> list[Tenant]:
        """All tenants ever added, by name; removed ones too."""

    def add_tenant(self, tenant: Tenant, *, at_s: float | None = None) -> None:
        """Add a tenant with a stream for every deployment that is for all tenants.

        Where one of the same name was removed it is another customer, or may be: it gets a
        *generation*, above every epoch that was ever held of this name, and all that its streams do
        has epochs from there on. No position, no reason and nothing that was recorded of the
        earlier one stays, and no failure of it is open.

        Args:
            tenant: the one to add; who stopped it, its generation and when it was added again are
                given by the store. One that is suspended is so by an operator.
            at_s: seconds since 1970; None is now. One that was added again is told to be of no
                sooner than the history that its name has.

        Raises:
            ConfigError: it is there, or cannot be added like this.
        """

    def set_tenant_state(self, name: str, state: State, *, by: Stopper = Stopper.OPERATOR) -> None:
        """Suspend, resume or remove a tenant; removing also removes its streams.

        Removal keeps the positions as a record of how far it came; what was in flight may still
        commit. Its API keys are dropped. A removed tenant can only be added again.

        Raises:
            NotAllowed: ``by`` may not resume what somebody else has stopped.
        """

    def set_weight(self, name: str, weight: float) -> None:
        """Set a tenant's weight, above 0."""

    def set_throttle(self, name: str, throttle: Throttle) -> None:
        """Set or lift a tenant's throttle."""

    def change_tenant(self, before: Tenant, after: Tenant) -> bool:
        """Set state, weight and throttle of a tenant together, if it is still as ``before``.

        False, and nothing done, if it is not. To remove it by this does all that
        ``set_tenant_state`` does. Both name the same tenant.

        Raises:
            ConfigError: ``before`` is removed, or a weight or throttle cannot be.
            UnknownName: it was never added.
        """

    def streams(self) -> list[Stream]:
        """All streams ever added, by use case and tenant; removed ones too."""

    def add_stream(self, stream: StreamId) -> None:
        """Add one stream of a known tenant and use case; a removed one starts afresh."""

    def set_stream_state(
        self,
        stream: StreamId,
        state: State,
        reason: str | None = None,
        *,
        by: Stopper = Stopper.OPERATOR,
    ) -> None:
        """Suspend, resume or remove one stream; ``reason`` is shown to people.

        To resume also retries what failed: its open failures become ``RETRIED``. Resumed in the
        name of a failure, a stream that somebody has stopped besides stays suspended.

        Raises:
            NotAllowed: ``by`` may not resume what somebody else has stopped.
        """

    # drivers

    def join(self, driver: str, use_cases: Collection[str]) -> int:
        """Be this driver from now on, and hold what one of this name held.

        Returns the number to beat with; whoever was it before is refused at its next beat. Streams
        and waves in the name of no driver become those of one that never beats, to be adopted.
        Raises the revision.
        """

    def beat(self, driver: str, number: int) -> list[Peer]:
        """Say that it lives; all drivers by name, or none if it was given up for dead.

        Raises:
            Fenced: another driver of this name has joined.
        """

    def adopt(self, heir: str, number: int, dead: Peer) -> bool:
        """Hand a driver's streams and written-down waves to its heir, and forget it.

        False, and nothing done, if it is not exactly as it was seen: it lives, or has an heir. The
        same if the heir was given up for dead itself, or has another number by now.
        Epochs stay until the heir holds the streams. Raises the revision.
        """

    def release(self, driver: str, number: int, streams: Collection[StreamId]) -> None:
        """Make streams free that this driver holds; others are left alone. Raises the revision.

        Nothing is done for one that has another number by now: they are its successor's.
        """

    def leave(self, driver: str, number: int) -> None:
        """Give everything back and be gone; not while waves it wrote down are unfinished.

        One that is not there any more, or has another number, is let be. Raises the revision.
        """

    def drivers(self) -> list[Peer]:
        """All drivers, by name: those that live, and those that nobody has inherited from yet."""

    def answer(self, driver: str, number: int, given: Collection[Answer]) -> bool:
        """Let these be all that a driver says to deployments.

        They are gone when it leaves, joins again, is replaced or inherited from. False, and nothing
        done, if it is not there or has another number by now.
        """

    def answers(self) -> list[Answer]:
        """What drivers say to deployments, by use case and driver."""

    # positions

    def hold(
        self,
        streams: Collection[StreamId],
        driver: str | None = None,
        number: int | None = None,
    ) -> dict[StreamId, int]:
        """Take the streams: raise the epoch of each and of its positions; return the new epochs.

        Streams that another driver holds are left to it, and are not in the answer; none is if
        this driver has another number by now. Whoever else
        had one of the others is refused from then on.
        """

    def load_positions(self, streams: Collection[StreamId] | None = None) -> list[Position]:
        """Committed positions, of all streams or of some."""

    def start_lanes(self, starts: Collection[LaneStart]) -> None:
        """Give lanes that have no position their first one, under their streams' epochs.

        Remembers the topic ids. A lane that has a position keeps it. Where the stream is in
        another topic than ``known_id`` by now, nothing is done: whoever asks has yet to hear of it.
        """

    def seek(
        self, stream: StreamId, offsets: Mapping[int, int], topic_id: str | None = None
    ) -> None:
        """Set positions, whatever they were, under a new epoch: nothing in flight will commit.

        Also a slice that begins where its lane is sent to is refused, and so are those of the
        lanes that stay. The holder stays too, and takes the stream anew.
        A seek is the decision that a topic made again asks for: ``topic_id`` is that of the topic
        in which the offsets were looked up; None takes the one that is there at the next look.
        Open failures of these lanes become ``RETRIED``: the lane goes on from where it was sent.
        A recorded slice whose lane is sent to its beginning, or stays there, is still to do; but
        with another topic nothing that was recorded of the stream is.
        """

    def skip_lost(
        self,
        stream: StreamId,
        moves: Sequence[Move],
        failures: Sequence[Failure],
        topic_id: str,
    ) -> int | None:
        """Let lanes of a stream go on behind what Kafka no longer has: all of them or none.

        Together with the moves the failures are kept as ``SKIPPED``, open ones of these lanes
        become ``RETRIED``, the topic's id is remembered, and the epoch is raised, so that whatever
        still runs of the old log is refused. With another topic, what was recorded of the stream is
        forgotten: its offsets mean other records. Returns the new epoch. None, and nothing done, if
        a position is elsewhere, the epoch is another, or the stream was removed. Raises the
        revision.
        """

    # intents

    def record_intent(self, wave: Wave, driver: str | None = None) -> bool:
        """Write the wave down before it runs, in the name of the driver that runs it.

        False, and nothing done, if one of its streams is not held by this driver under the epoch
        of its slices: somebody else has it, and runs other slices.
        """

    def finish_intent(
        self,
        wave_id: str,
        moves: Sequence[Move],
        driver: str | None = None,
        *,
        over: Collection[Slice] = (),
        parts: Sequence[Wave] = (),
    ) -> Finished:
        """Move positions, as ``Positions.advance``, and keep what is still to do.

        A slice of the wave stays written down until its lane has moved on from its beginning:
        whoever holds the stream then has to know what may have run. The same call again, as after
        a lost answer, moves nothing and tells the same ``left``. Of a wave that is another
        driver's by now nothing is changed but the positions.

        Args:
            wave_id: the wave's; it may be forgotten already.
            moves: what was done of it, and whatever else is to be moved with it.
            driver: in whose name it is written down; None is anybody's.
            over: slices that came to nothing and leave no effect; they are forgotten where the
                lane is still under their epoch.
            parts: waves that some of its slices are to be written down as from now on; believed
                under the epochs that the lanes have, and otherwise left in the wave. A slice that
                is not written down in the wave any more is left out of them.
        """

    def pending_intents(self, driver: str | None = None) -> list[Wave]:
        """Waves written down and not finished, oldest first.

        Of all drivers, or what one wrote down or inherited.
        """

    # deployments and failures

    def deploy(
        self, deployment: Deployment, *, anew: bool = False, over: Deployment | None = None
    ) -> bool:
        """Add or replace a use case; adds the streams of all tenants if it is for all.

        With ``anew`` one that is there already is left alone, and the answer is False; with
        ``over``, as it was read, one that was deployed since, also as it was. Otherwise it
        has a larger ``revision`` from then on, also if nothing of it is other than before: drivers
        then answer it anew.
        """

    def deployments(self) -> list[Deployment]:
        """Deployed use cases, by name."""

    def keep_failure(self, failure: Failure, *, stop_use_case: bool = False) -> int:
        """Keep an open failure, which stops its lane; return the failure's id.

        With ``stop_use_case`` all active streams of the use case are suspended together with it,
        and those that their tenants have stopped are stopped by the failure too.
        A lane that has an open failure keeps that one, whose id is returned. One of an earlier
        tenant of the name is kept as ``RETRIED`` and stops nothing.

        One that was retried and failed again at the same record (``Failure.comes_again``) is the
        same failure: it is open again, is now as it failed last, and is counted up; another record
        that has its offset by now is another failure. What a tenant keeps is bounded, as
        ``policies/keeping.py`` says: the oldest that are over are dropped for it, and where open
        ones alone fill it a failure is kept without its record.
        """

    def stopped_lanes(self, driver: str) -> dict[LaneId, int]:
        """The id of the open failure of each stopped lane, of streams that this driver holds.

        Asked after every change of the revision, so it reads nothing else of them.
        """

    def note_failures(self, notes: Sequence[Failure]) -> None:
        """Keep failures that are over and stop nothing, in the state they have; all or none."""

    def failures(
        self,
        stream: StreamId | None = None,
        *,
        only_open: bool = False,
        with_records: bool = True,
        current: bool = False,
        after: int = 0,
        most: int | None = None,
    ) -> list[Failure]:
        """Kept failures, oldest first: those with an id above ``after``, ``most`` of them.

        Without records, which may be megabytes each, they have neither traceback nor key, value
        and headers. With ``current`` those of earlier tenants of the same names are left out.
        """

    def failure(self, number: int, tenant: str | None = None) -> Failure:
        """One kept failure; with ``tenant`` one of another tenant is not there, nor looked at.

        One of an earlier tenant of that name is another tenant's.

        Raises:
            UnknownName: there is none of this number.
        """

    def retry_failure(self, number: int) -> None:
        """Let the lane of an open failure go on at its position.

        Raises:
            ConfigError: the failure is not open any more.
        """

    def skip_failure(self, number: int) -> None:
        """Let the lane go on behind the failed record; one compare-and-set with the failure.

        The position moves from the record's offset, or from the slice's first one (where the lane
        stopped; a gap may be between), to behind the record. A failure that names no record has
        its whole slice skipped, from its first offset to ``until_offset``.

        Raises:
            ConfigError: the failure is not open any more, or the position is elsewhere by now;
                nothing was moved. A stream that was removed is no reason.
        """

    def close(self) -> None:
        """Give up connections."""
