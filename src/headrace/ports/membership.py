"""Which drivers share a store, and who has which stream."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from headrace.model.records import Answer, Peer
from headrace.model.streams import StreamId


class Membership(Protocol):
    """Drivers, what they hold, and what they say to deployments; a part of ``Store``.

    A stream is held by one driver at most. Time is counted in beats: what one that is missing means
    is for others to decide.
    """

    def join(
        self, driver: str, use_cases: Collection[str], *, process: str = "", again: bool = False
    ) -> int:
        """Be this driver from now on, and hold what one of this name held.

        ``process`` tells who asks from all others, also from the next one of its name.

        Of what that did not give back, be it here or where it is adopted, the store notes for how
        long nobody had committed it (``Stream.silent_s``), if it is active and was left alone by
        what its use case says (``policies/restarting.py``). With ``again`` it was this same
        process, which joined before, and nothing is noted.
        Returns the number to beat with; whoever was it before is refused at its next beat. Streams
        and waves in the name of no driver become those of one that never beats, to be adopted.
        Raises the revision.

        Raises:
            Fenced: this process has joined before, and another one under this name since.
        """

    def beat(self, driver: str, number: int) -> list[Peer]:
        """Say that it lives; all drivers by name, or none if it was given up for dead.

        Raises:
            Fenced: another driver of this name has joined.
        """

    def adopt(self, heir: str, number: int, dead: Peer) -> bool:
        """Hand a driver's streams and written-down waves to its heir, and forget it.

        False, and nothing done, if it is not exactly as it was seen: it lives, or has an heir. The
        same if the heir was given up for dead itself, or has another number by now, and while a
        transaction is open that concerns what is handed over: nobody waits for its end here.
        Epochs stay until the heir holds the streams. Raises the revision.
        """

    def release(self, driver: str, number: int, streams: Collection[StreamId]) -> None:
        """Make streams free that this driver holds; others are left alone. Raises the revision.

        One of which a wave is written down in its name stays: who takes it would not know of that.
        Nothing is done for one that has another number by now: they are its successor's.
        """

    def leave(self, driver: str, number: int, running: Collection[StreamId] = ()) -> None:
        """Give everything back and be gone, but for streams of waves that are unfinished.

        Where it wrote such waves down they wait for an heir with their streams, which nobody left
        alone. So do ``running`` ones, of which a task may still write; but these count as not given
        back. A driver of which anything waits for an heir is from now on as one that never beat.

        One that is not there any more, or has another number, is let be. Raises the revision.
        """

    def drivers(self) -> list[Peer]:
        """All drivers, by name: those that live, and those that nobody has inherited from yet."""

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

    def answer(self, driver: str, number: int, given: Collection[Answer]) -> bool:
        """Let these be all that a driver says to deployments.

        They are gone when it leaves, joins again, is replaced or inherited from. False, and nothing
        done, if it is not there or has another number by now.
        """

    def answers(self) -> list[Answer]:
        """What drivers say to deployments, by use case and driver."""
