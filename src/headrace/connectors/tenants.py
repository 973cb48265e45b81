"""Servers of which each tenant has one, written to by a writer for each.

Whose they are is not known at a deploy. So what is there is made, or looked at, by the task that
first writes to it. What one of these servers does costs the effects of its own tenant: a table that
does not fit, or a connection that is not there, stops that tenant's lanes and no others.

They are written to one after the other, so one that does not answer holds up who shares the bin.
Where others wait it has a moment for all of it, each next one that is slow half of that, and all of
a bin together a few seconds. What is not written by then was not tried: it comes again, without
those that were slow. What one took is told as its own, and an error after so long as one that hurts
neighbours, upon which its stream runs in bins of its own until it comes through. One that fails at
once stays where it is: a server of all tenants that is down would have as many bins otherwise.

At-most-once has one chance, so there some are written to at a time, each has that whole moment, and
all of them together have one time. What is not begun by then is lost, and says so: that takes more
than a score of them that hang.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, replace
from typing import Final, Generic, Protocol, TypeVar

from headrace.connectors.outcomes import failed, of_no_record
from headrace.connectors.own_servers import ALL_S, LONG_S
from headrace.errors import SinkUnavailable, TargetMissing, TenantsSinkSlow
from headrace.model.receipts import SliceError
from headrace.ports import Effect, Written
from headrace.process.daemon_threads import DaemonThreads

#: how long others wait for one tenant's own database; what takes longer has all the time, alone
MOMENT_S: Final = 2.0
#: and what is left of that after others were slow; the last one has its moment beyond ``ALL_S``
LEAST_S: Final = 0.25
#: where there is one chance: tenants that are written to at a time, and what all of a call have
AT_A_TIME: Final = 8
ONCE_S: Final = 6.0
_UNTRIED: Final = Written(untried=True)


def is_cut_short(until_s: float) -> bool:
    """Whether a moment that begins now, and ends by a second, is no whole one."""
    return until_s - time.monotonic() <= MOMENT_S / 2


class _OfOne(Protocol):
    """What writes the effects of one tenant."""

    def write(self, effects: Sequence[Effect]) -> Sequence[Written]:
        """As ``SinkWriter.write``; there is nothing to close."""


_Writer = TypeVar("_Writer", bound=_OfOne)


@dataclass(slots=True)
class TenantsWriter(Generic[_Writer]):
    """Writes the effects of each tenant with a writer of its own, in one bin."""

    #: of a tenant, whose work ends by a second of the steady clock; raises what makes that
    #: impossible
    opened: Callable[[str, float], _Writer]
    #: what is known of the server of a tenant
    forget: Callable[[str], None]
    #: others wait
    in_company: bool = False
    #: tenants that were slow
    _slow: int = 0
    _spent_s: float = 0.0

    def write(self, effects: Sequence[Effect]) -> Sequence[Written]:
        """Write all effects that can be written; see ``SinkWriter.write``."""
        places: dict[str, list[int]] = {}
        for place, effect in enumerate(effects):
            places.setdefault(_tenant(effect), []).append(place)
        given = {tenant: [effects[place] for place in mine] for tenant, mine in places.items()}
        may_repeat = all(effect.may_repeat for effect in effects)
        if self.in_company and not may_repeat:
            told = self._once(given)
        else:
            told = {tenant: self._tried(tenant, mine) for tenant, mine in given.items()}
        outcomes: dict[int, Written] = {}
        for tenant, mine in places.items():
            outcomes.update(zip(mine, told[tenant], strict=True))
        return [outcomes[place] for place in range(len(effects))]

    def _tried(self, tenant: str, effects: Sequence[Effect]) -> Sequence[Written]:
        if self.in_company and self._spent_s > ALL_S:
            return [_UNTRIED] * len(effects)
        began_s = time.monotonic()
        told = self._in_a_moment(tenant, effects, self._moment_s())
        self._spent_s += time.monotonic() - began_s
        self._slow += any(map(_is_slow, told))
        return told

    def _once(self, given: Mapping[str, Sequence[Effect]]) -> dict[str, Sequence[Written]]:
        """Write what has one chance, the effects of some tenants at a time."""
        until_s = time.monotonic() + ONCE_S
        threads = DaemonThreads(AT_A_TIME, "tenants-own")

        def tried(tenant: str, effects: Sequence[Effect]) -> Sequence[Written]:
            left_s = until_s - time.monotonic()
            if left_s < LEAST_S:
                return _lost(tenant, effects, "was not tried: others of its bin took the time")
            return self._in_a_moment(tenant, effects, min(MOMENT_S, left_s))

        begun = {tenant: threads.submit(tried, tenant, mine) for tenant, mine in given.items()}
        threads.shutdown(wait=False)
        wait(begun.values(), ONCE_S)
        return {tenant: _told(of, tenant, given[tenant]) for tenant, of in begun.items()}

    def _in_a_moment(
        self, tenant: str, effects: Sequence[Effect], moment_s: float
    ) -> Sequence[Written]:
        began_s = time.monotonic()
        told = self._write_of(tenant, effects, began_s + moment_s)
        took_s = time.monotonic() - began_s
        long_s = min(LONG_S, moment_s / 2)
        return [_charged(one, took_s / len(told), is_long=took_s > long_s) for one in told]

    def _moment_s(self) -> float:
        return max(LEAST_S, MOMENT_S / 2**self._slow) if self.in_company else math.inf

    def close(self) -> None:
        """Nothing to give up: connections are kept for the next bin."""

    def _write_of(
        self, tenant: str, effects: Sequence[Effect], until_s: float
    ) -> Sequence[Written]:
        try:
            told = self._opened(tenant, until_s).write(effects)
        except Exception as error:  # what one's server can make a library raise is nobody else's
            return [failed(of_no_record(error, f"tenant {tenant}"))] * len(effects)
        if any(one.error and one.error.code == TargetMissing.__name__ for one in told):
            # When a person resumes its lanes, it is looked at again, or made.
            self.forget(tenant)
        return told

    def _opened(self, tenant: str, until_s: float) -> _Writer:
        try:
            return self.opened(tenant, until_s)
        except Exception as error:
            # No record is to blame, and no other tenant.
            raise of_no_record(error, f"tenant {tenant}") from error


def _told(
    of: Future[Sequence[Written]], tenant: str, effects: Sequence[Effect]
) -> Sequence[Written]:
    """What became of one's effects by now; of what is done later nobody hears."""
    if of.cancel():
        return _lost(tenant, effects, "was not tried: others of its bin took the time")
    if of.done():
        return of.result()
    return _lost(tenant, effects, "has not answered in the time that all of its bin have")


def _lost(tenant: str, effects: Sequence[Effect], why: str) -> Sequence[Written]:
    return [failed(SinkUnavailable(f"tenant {tenant}: its server {why}"))] * len(effects)


def _charged(written: Written, took_s: float, *, is_long: bool) -> Written:
    error = written.error or _silence_among(written)
    if error is None or not is_long or error.code != SinkUnavailable.__name__:
        return replace(written, seconds=took_s)
    # Rows are not named then: they would be offered again while others wait.
    slow = replace(error, code=TenantsSinkSlow.__name__)
    return replace(written, error=slow, refused=(), seconds=took_s)


def _silence_among(written: Written) -> SliceError | None:
    """Why rows were not taken now, of an effect of which others were; None: of no such reason."""
    told = [row.error for row in written.refused if row.error is not None]
    return next((error for error in told if error.code == SinkUnavailable.__name__), None)


def _is_slow(written: Written) -> bool:
    return written.error is not None and written.error.code == TenantsSinkSlow.__name__


def _tenant(effect: Effect) -> str:
    return effect.slices[0].lane.tenant
