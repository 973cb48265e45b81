"""The store, put together: every operation is one transaction.

Each method here opens the right kind of transaction and calls one function of the room beside it
(``tenants``, ``streams``, ``lanes``, ``intents``, ``deployments``, ``answers``, ``failures``,
``lost``), which does the work on a connection and knows nothing of transactions.

An operator's change first raises the revision. That tells drivers to look again, and since the
revision is one row, its lock makes changes follow each other: a tenant being added and a use case
being deployed at the same time cannot miss each other.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager

from sqlalchemy import Connection, select, update

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
from headrace.ports import Finished
from headrace.store import (
    answers,
    deployments,
    drivers,
    failures,
    intents,
    lanes,
    lost,
    stops,
    streams,
    tenants,
)
from headrace.store.audit import SqlAudit
from headrace.store.database import Database, open_database
from headrace.store.keys import SqlKeys
from headrace.store.migrations import upgrade
from headrace.store.positions import SqlPositions
from headrace.store.schema import revisions, secrets
from headrace.store.statistics import SqlStatistics
from headrace.store.streams import hold


def open_store(url: str) -> SqlStore:
    """Open a store; make its tables, or bring them to this version, if need be.

    Args:
        url: ``sqlite:////absolute/path.db`` (its folder is made) or
            ``postgresql://user:password@host/database``.

    Raises:
        ConfigError: the URL, or the place it names, cannot be used.
        StoreTooNew: a later version of Headrace has changed the tables.
        StoreUnavailable: the database does not answer, or is locked.
    """
    database = open_database(url)
    try:
        upgrade(database)
    except BaseException:
        database.close()
        raise
    return SqlStore(database)


class SqlStore:
    """``headrace.ports.Store`` on SQLite or PostgreSQL. Safe in several threads."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._positions = SqlPositions(database)
        self._keys = SqlKeys(database)
        self._audit = SqlAudit(database)
        self._statistics = SqlStatistics(database)

    def __repr__(self) -> str:
        return f"SqlStore({self._database.address.shown})"

    @property
    def positions(self) -> SqlPositions:
        """The compare-and-set of positions."""
        return self._positions

    @property
    def keys(self) -> SqlKeys:
        """The API keys."""
        return self._keys

    @property
    def audit(self) -> SqlAudit:
        """What was changed by HTTP, and by whom."""
        return self._audit

    @property
    def statistics(self) -> SqlStatistics:
        """What drivers tell of themselves."""
        return self._statistics

    def revision(self) -> int:
        """Grows with every change made by an operator, not with commits."""
        with self._database.read() as connection:
            return int(connection.scalars(select(revisions.c.revision)).one())

    def seal_key(self) -> bytes:
        """The random key that seals records sent back."""
        with self._database.read() as connection:
            wanted = select(secrets.c.value).where(secrets.c.name == "seal")
            return bytes(connection.scalars(wanted).one())

    @contextmanager
    def _change(self) -> Iterator[Connection]:
        with self._database.write() as connection:
            connection.execute(update(revisions).values(revision=revisions.c.revision + 1))
            yield connection

    # tenants and streams

    def tenants(self) -> list[Tenant]:
        """All tenants ever added, by name; removed ones too."""
        with self._database.read() as connection:
            return tenants.every(connection)

    def add_tenant(self, tenant: Tenant, *, at_s: float | None = None) -> None:
        """Add a tenant, or a removed one anew, with a stream for every use case for all."""
        with self._change() as connection:
            tenants.add(connection, tenant, time.time() if at_s is None else at_s)
            intents.begin_anew(connection, tenant.name)

    def set_tenant_state(self, name: str, state: State, *, by: Stopper = Stopper.OPERATOR) -> None:
        """Suspend, resume or remove a tenant; removing also removes its streams."""
        with self._change() as connection:
            tenants.set_state(connection, name, state, by)

    def set_weight(self, name: str, weight: float) -> None:
        """Set a tenant's weight, above 0."""
        with self._change() as connection:
            tenants.set_weight(connection, name, weight)

    def set_throttle(self, name: str, throttle: Throttle) -> None:
        """Set or lift a tenant's throttle."""
        with self._change() as connection:
            tenants.set_throttle(connection, name, throttle)

    def change_tenant(self, before: Tenant, after: Tenant) -> bool:
        """Set state, weight and throttle of a tenant together; False if it is not as before."""
        with self._change() as connection:
            return tenants.change(connection, before, after)

    def streams(self) -> list[Stream]:
        """All streams ever added, by use case and tenant; removed ones too."""
        with self._database.read() as connection:
            return streams.every(connection)

    def add_stream(self, stream: StreamId) -> None:
        """Add one stream of a known tenant and use case; a removed one starts afresh."""
        with self._change() as connection:
            streams.add(connection, stream)
            intents.begin_anew(connection, stream.tenant)

    def set_stream_state(
        self,
        stream: StreamId,
        state: State,
        reason: str | None = None,
        *,
        by: Stopper = Stopper.OPERATOR,
    ) -> None:
        """Suspend, resume or remove one stream; ``reason`` is shown to people."""
        with self._change() as connection:
            streams.set_state(connection, stream, state, reason, by)

    # drivers

    def join(self, driver: str, use_cases: Collection[str]) -> int:
        """Be this driver from now on; return the number to beat with."""
        with self._change() as connection:
            return drivers.join(connection, driver, use_cases)

    def beat(self, driver: str, number: int) -> list[Peer]:
        """Say that it lives; all drivers, or none if it was given up for dead."""
        with self._database.write() as connection:
            return drivers.beat(connection, driver, number)

    def adopt(self, heir: str, number: int, dead: Peer) -> bool:
        """Hand everything of a dead driver to its heir; False if it lives or has one already."""
        with self._change() as connection:
            return drivers.adopt(connection, heir, number, dead)

    def release(self, driver: str, number: int, streams: Collection[StreamId]) -> None:
        """Make streams of a driver free for others."""
        with self._change() as connection:
            drivers.release(connection, driver, number, streams)

    def leave(self, driver: str, number: int) -> None:
        """Give everything back and be gone."""
        with self._change() as connection:
            drivers.leave(connection, driver, number)

    def drivers(self) -> list[Peer]:
        """All drivers, by name."""
        with self._database.read() as connection:
            return drivers.every(connection)

    def answer(self, driver: str, number: int, given: Collection[Answer]) -> bool:
        """Let these be all that a driver says to deployments; False if it is not there."""
        with self._database.write() as connection:
            if not drivers.is_still(connection, driver, number):
                return False
            answers.replace(connection, driver, given)
            return True

    def answers(self) -> list[Answer]:
        """What drivers say to deployments, by use case and driver."""
        with self._database.read() as connection:
            return answers.every(connection)

    # positions

    def hold(
        self,
        streams: Collection[StreamId],
        driver: str | None = None,
        number: int | None = None,
    ) -> dict[StreamId, int]:
        """Take the streams that no other driver holds; return their new epochs."""
        with self._database.write() as connection:
            if driver and number is not None and not drivers.is_still(connection, driver, number):
                return {}
            return hold(connection, streams, driver)

    def load_positions(self, streams: Collection[StreamId] | None = None) -> list[Position]:
        """Committed positions by lane, of all streams or of some."""
        with self._database.read() as connection:
            return lanes.load(connection, streams)

    def start_lanes(self, starts: Collection[LaneStart]) -> None:
        """Give lanes that have no position their first one, under their streams' epochs."""
        with self._database.write() as connection:
            # In one order for everybody, so that two drivers cannot wait for each other.
            for each in sorted(starts, key=lambda start: start.stream):
                lanes.start(connection, each)

    def seek(
        self, stream: StreamId, offsets: Mapping[int, int], topic_id: str | None = None
    ) -> None:
        """Set positions, and the id of the topic they are in, under a new epoch."""
        with self._change() as connection:
            lanes.seek(connection, stream, offsets, topic_id)

    def skip_lost(
        self,
        stream: StreamId,
        moves: Sequence[Move],
        failures: Sequence[Failure],
        topic_id: str,
    ) -> int | None:
        """Go on behind what Kafka no longer has; return the new epoch, or None if refused."""
        with self._change() as connection:
            return lost.skip(connection, stream, moves, failures, topic_id)

    # intents

    def record_intent(self, wave: Wave, driver: str | None = None) -> bool:
        """Write the wave down before it runs; the same wave twice is once."""
        with self._database.write() as connection:
            return intents.record(connection, wave, driver)

    def finish_intent(
        self,
        wave_id: str,
        moves: Sequence[Move],
        driver: str | None = None,
        *,
        over: Collection[Slice] = (),
        parts: Sequence[Wave] = (),
    ) -> Finished:
        """Move positions, and keep what is still to do of the wave, in one transaction."""
        with self._database.write() as connection:
            return intents.finish(connection, wave_id, moves, driver, over, parts)

    def pending_intents(self, driver: str | None = None) -> list[Wave]:
        """Waves written down and not finished, of one driver or of all; oldest first."""
        with self._database.read() as connection:
            return intents.pending(connection, driver)

    # deployments and failures

    def deploy(
        self, deployment: Deployment, *, anew: bool = False, over: Deployment | None = None
    ) -> bool:
        """Add or replace a use case; adds the streams of all tenants if it is for all."""
        with self._change() as connection:
            return deployments.deploy(connection, deployment, anew=anew, over=over)

    def deployments(self) -> list[Deployment]:
        """Deployed use cases, by name."""
        with self._database.read() as connection:
            return deployments.every(connection)

    def keep_failure(self, failure: Failure, *, stop_use_case: bool = False) -> int:
        """Keep an open failure, which stops its lane, or the use case; return the one's id."""
        with self._change() as connection:
            return failures.keep(connection, failure, stop_use_case=stop_use_case)

    def note_failures(self, notes: Sequence[Failure]) -> None:
        """Keep failures that are over and stop nothing."""
        with self._database.write() as connection:
            for each in notes:
                failures.note(connection, each)

    def stopped_lanes(self, driver: str) -> dict[LaneId, int]:
        """The open failure of each stopped lane of the streams that a driver holds."""
        with self._database.read() as connection:
            return stops.of_driver(connection, driver)

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
        """Kept failures, oldest first: those with an id above ``after``, ``most`` of them."""
        part = failures.Part(only_open, with_records, current, after, most)
        with self._database.read() as connection:
            return failures.every(connection, stream, part)

    def failure(self, number: int, tenant: str | None = None) -> Failure:
        """One kept failure, of any tenant or of one."""
        with self._database.read() as connection:
            return failures.one(connection, number, tenant)

    def retry_failure(self, number: int) -> None:
        """Let the lane of an open failure go on at its position."""
        with self._change() as connection:
            failures.retry(connection, number)

    def skip_failure(self, number: int) -> None:
        """Let the lane of an open failure go on behind it: one compare-and-set with it."""
        with self._change() as connection:
            failures.skip(connection, number)

    def close(self) -> None:
        """Give up connections."""
        self._database.close()
