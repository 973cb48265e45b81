"""What failed and stays so until somebody decides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from headrace.model.records import Failure
from headrace.model.streams import LaneId, StreamId


class Failures(Protocol):
    """Kept failures; a part of ``Store``.

    A lane is stopped exactly while it has an open one, so whatever opens or ends one raises the
    revision.
    """

    def keep(self, new: Sequence[Failure], *, stop_use_case: bool = False) -> list[int]:
        """Keep open failures, which stop their lanes, all or none; return their ids, in order.

        With ``stop_use_case`` all active streams of the use case are suspended together with it,
        and those that their tenants have stopped are stopped by the failure too.
        A lane that has an open failure keeps that one, whose id is returned. One under an earlier
        epoch than its stream's is kept as ``RETRIED`` and stops nothing: somebody else has the
        stream, or it was sent elsewhere, or is another tenant's of the name.

        One that was retried and failed again at the same record (``Failure.comes_again``) is the
        same failure: it is open again, is now as it failed last, and is counted up; another record
        that has its offset by now is another failure. What a tenant keeps is bounded, as
        ``policies/keeping.py`` says: the oldest that are over are dropped for it, and where open
        ones alone fill it a failure is kept without its record. None of those that are kept
        together makes room for another one of them.
        """

    def stopped_lanes(self, driver: str) -> dict[LaneId, int]:
        """The id of the open failure of each stopped lane, of streams that this driver holds.

        Asked after every change of the revision, so it reads nothing else of them.
        """

    def note(self, notes: Sequence[Failure]) -> None:
        """Keep failures that are over and stop nothing, in the state they have; all or none."""

    def every(
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

    def one(self, number: int, tenant: str | None = None) -> Failure:
        """One kept failure; with ``tenant`` one of another tenant is not there, nor looked at.

        One of an earlier tenant of that name is another tenant's.

        Raises:
            UnknownName: there is none of this number.
        """

    def retry(self, number: int) -> None:
        """Let the lane of an open failure go on at its position.

        Raises:
            ConfigError: the failure is not open any more.
        """

    def skip(self, number: int) -> None:
        """Let the lane go on behind the failed record; one compare-and-set with the failure.

        The position moves from the record's offset, or from the slice's first one (where the lane
        stopped; a gap may be between), to behind the record. A failure that names no record has
        its whole slice skipped, from its first offset to ``until_offset``.

        Raises:
            ConfigError: the failure is not open any more, or the position is elsewhere by now;
                nothing was moved. A stream that was removed is no reason.
        """
