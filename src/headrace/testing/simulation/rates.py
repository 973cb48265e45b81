"""Rate limits: what a driver has moved a throttled tenant by is no more than its bucket ever held.

A limit that holds in each turn may be broken over minutes, where records are given back that were
never taken, or run again and are not paid for. So the account of each driver and tenant is kept
from outside. Whenever a driver starts something new of a tenant, what its slices have moved
positions by since a limit was set, and what it takes now, is held against one burst and what the
rate gave since.

What runs again does not wait for tokens, and makes a debt that is paid before anything new. What
was in flight when the limit was set is not counted, nor what a driver found recorded: it was taken
by somebody else, or before. Records set aside cost nothing. A bucket is a driver's own: several of
them may each take a burst. Two things are not counted. What a transaction moved whose answer was
lost is paid back, and the attempt that finds it pays for it again, unless positions were read
before. And what a claim takes that its server carries out late, when its wave was given up and paid
back: that loss is told elsewhere. Where lanes are merged, each can be given its one record. How
many records a slice of a bucket has nobody knows before: what was more than was planned is owed,
and has to be paid before that bucket goes on. Bytes are counted in `byte_rates.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from headrace.model.buckets import parts_of
from headrace.model.places import FIRST, number_at
from headrace.model.records import Move
from headrace.model.streams import LaneId, Slice, Tenant
from headrace.model.waves import Wave
from headrace.ports import DeadLetter, WaveResult
from headrace.testing.simulation.byte_rates import ByteRates

#: a bucket without a whole token lets one record through, in a while
_ROUNDING = 1.0


@dataclass(eq=False, slots=True)
class Account:
    """What one driver took of one tenant under one limit."""

    rate_per_s: float
    burst: float
    since_s: float
    taken: int = 0
    #: records of recorded waves that it had to run, whatever the bucket held
    unasked: int = 0
    #: records of transactions whose answers were lost
    unheard: int = 0
    #: records that went to the dead letters
    aside: int = 0
    #: by bucket, how many records more than planned it took, and has not gone on since
    owed: dict[LaneId, int] = field(default_factory=dict)

    def most(self, now_s: float) -> float:
        """The most that may have been taken."""
        gained = (now_s - self.since_s) * self.rate_per_s
        return self.burst + gained + self.unasked + self.unheard + _ROUNDING


@dataclass(eq=False, slots=True)
class Rates:
    """The accounts of all drivers."""

    found: list[str] = field(default_factory=list)
    bytes: ByteRates = field(init=False)
    #: by driver's process and tenant
    _accounts: dict[tuple[object, str], Account] = field(default_factory=dict)
    #: whose account a slice goes to
    _started: dict[LaneId, list[tuple[Slice, Account]]] = field(default_factory=dict)
    #: waves that were started by somebody, or were to be
    _known: set[str] = field(default_factory=set)
    #: who wrote a wave down
    _writers: dict[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Tell of both in one place."""
        self.bytes = ByteRates(self.found)

    def recorded(self, driver: object, wave: Wave, *, heard: bool) -> None:
        """A wave is written down; if it is not started at once, it was taken all the same."""
        if heard:
            self._writers.setdefault(_root(wave), driver)
        else:
            self._known.add(_root(wave))

    def started(
        self,
        driver: object,
        wave: Wave,
        turned_s: float,
        now_s: float,
        tenant_of: Callable[[str], Tenant | None],
    ) -> None:
        """A driver starts a wave; it knows these tenants with their limits.

        It may have slept since its turn began and it took the records: the bucket filled meanwhile.
        """
        again = _root(wave) in self._known or self._writers.get(_root(wave), driver) is not driver
        self._known.add(_root(wave))
        self.bytes.started(driver, wave, turned_s, now_s, tenant_of, fresh=not again)
        asked: dict[str, list[Slice]] = {}
        for piece in wave.slices:
            asked.setdefault(piece.lane.tenant, []).append(piece)
        for tenant, pieces in asked.items():
            account = self._account(driver, tenant, tenant_of(tenant), turned_s)
            if account is None:
                continue
            for piece in pieces:
                account.taken += account.owed.pop(piece.lane, 0)
                mine = [begun for begun in self._started.get(piece.lane, ()) if begun[1] is account]
                if again and not any(begun[0].begin == piece.begin for begun in mine):
                    account.unasked += piece.records
                self._started.setdefault(piece.lane, []).append((piece, account))
            if not again:
                self._check(tenant, account, pieces, now_s)

    def returned(self, driver: object, result: WaveResult) -> None:
        """A driver is told what came of a wave."""
        self.bytes.returned(driver, result)

    def _check(self, tenant: str, account: Account, pieces: list[Slice], now_s: float) -> None:
        taken = account.taken - account.aside + sum(piece.records for piece in pieces)
        most = account.most(now_s) + len(pieces) - 1
        if taken > most:
            self.found.append(
                f"{tenant} took {taken} since {account.since_s:.2f}s, and {most:.1f} were allowed "
                f"at {now_s:.2f}s"
            )

    def moved(self, move: Move, records: int) -> None:
        """A slice moved its lane, over so many records."""
        if (begun := self._begun(move)) is None:
            return
        piece, account = begun
        known = _known(piece, move, records)
        account.taken += known
        if not piece.is_open and parts_of(piece.lane.name) > 1:
            account.owed[move.lane] = account.owed.get(move.lane, 0) + records - known

    def answer_lost(self, move: Move, records: int) -> None:
        """Of a move that was made nobody heard."""
        if (begun := self._begun(move)) is not None:
            piece, account = begun
            account.unheard += max(records, _known(piece, move, records))

    def _begun(self, move: Move) -> tuple[Slice, Account] | None:
        """The slice that moved its lane, and whose account it goes to."""
        for piece, account in reversed(self._started.get(move.lane, [])):
            inside = piece.from_offset <= move.from_offset and move.to_offset <= piece.until_offset
            if inside and piece.epoch == move.epoch:
                return piece, account
        return None

    def set_aside(self, letter: DeadLetter) -> None:
        """A record cost nothing."""
        for piece, account in reversed(self._started.get(letter.slice.lane, [])):
            if piece.from_offset <= (letter.error.offset or FIRST) < piece.until_offset:
                account.aside += 1
                return

    def _account(
        self, driver: object, name: str, tenant: Tenant | None, since_s: float
    ) -> Account | None:
        key = (driver, name)
        limit = None if tenant is None else tenant.throttle
        if limit is None or limit.records_per_s is None:
            self._accounts.pop(key, None)
            return None
        rate_per_s, burst = limit.records_per_s, max(1.0, limit.records_per_s * limit.burst_s)
        known = self._accounts.get(key)
        if known is None or known.rate_per_s != rate_per_s:
            known = self._accounts[key] = Account(rate_per_s, burst, since_s)
        return known


def _known(piece: Slice, move: Move, records: int) -> int:
    """How many records a move is known to pass when its slice starts.

    Of an open slice what lies between records costs nothing.
    """
    if piece.is_open:
        return records
    if parts_of(piece.lane.name) > 1:
        return min(records, piece.records)
    return number_at(move.to_offset) - number_at(move.from_offset)


def _root(wave: Wave) -> str:
    """The wave that it was before it was divided."""
    return wave.id.partition(".")[0]
