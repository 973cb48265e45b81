"""What runs inside one Spark task: read the slices of a bin, handle them, write, make receipts.

A task can be killed at any instruction and Spark may run it again, whatever the driver wanted. So
the order of the three steps *claim*, *handle*, *write* is what a guarantee is:

==================  ============================================================================
at-most-once        move the positions, then handle and write; a re-run finds them moved and skips
at-least-once       handle and write; the driver moves the positions from the receipts
exactly-once        handle, then write and move the positions in one transaction of the sink
(transaction)       (no position moved: already done, or fenced; nothing is written)
exactly-once        as at-least-once, but whole slices only: the driver wrote them down before
(intent)            and a re-run writes the very same effects again. Of a slice whose end only
                    reading tells, the task writes down what it read, before it handles it
at-least-once       handle and write; then the task itself moves positions and state together
(with state)        (no position moved: somebody else has the lane, and its state is not kept)
at-most-once        handle, then move positions and state together, then write
(with state)
==================  ============================================================================

Portions are written in groups, so that a thousand slices of two records cost a few transactions
and not a thousand. A group never holds two portions of one lane, so a failed first can never be
followed by a written second. When the bin's budget is used up, the task yields between two
portions: what is left is reported as not reached and planned anew.

Nothing here knows Spark; the in-process engine of ``headrace.testing`` runs the same function.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, cast

from headrace.errors import (
    BrokerUnavailable,
    HeadraceError,
    RegistryUnavailable,
    StoreUnavailable,
)
from headrace.model.receipts import Receipt
from headrace.model.streams import Slice
from headrace.model.waves import Bin
from headrace.policies.watchdog import patience_s
from headrace.ports import (
    AskedFirst,
    Connections,
    DeadLetters,
    DeadLettersFactory,
    NoRegistry,
    NoTenants,
    PackedCode,
    Positions,
    PositionsFactory,
    ReaderFactory,
    RegistryClient,
    SchemasFactory,
    Sink,
    Site,
    SliceReader,
    Tenants,
    TenantsFactory,
    asks_first,
)
from headrace.spark.bin_run import BinRun
from headrace.spark.bucket_reading import BucketReader
from headrace.spark.calling import call_rules
from headrace.spark.crash_markers import Markers
from headrace.spark.decoding import says_writers, writers
from headrace.spark.foreign_ends import opened_for, opened_or_told, trouble_of_closing
from headrace.spark.portions import Portion, by_batch, by_slice, by_stream, whole_or_nothing
from headrace.spark.same_reads import read_the_same
from headrace.spark.shared_folder import Sentinel
from headrace.spark.slice_errors import error_of
from headrace.spark.tally import Tally
from headrace.spark.worker_cache import Fetch, WorkerCache
from headrace.state.copies import StateCopies
from headrace.use_cases import UseCase

BATCH_RECORDS = 10_000
GROUP_RECORDS = 10_000
GROUP_BYTES = 16 * 1024 * 1024
GROUP_S = 0.25

#: what this process, a Python worker, keeps for its next task
CACHE = WorkerCache()


@dataclass(frozen=True)
class Work:
    """Everything a task needs besides its bin; the same for all bins of a use case."""

    #: the ``UseCase``, as `shipping.py` packs it, so that an updated one needs no new Python worker
    code: bytes = field(repr=False)
    options: tuple[tuple[str, str], ...]
    connections: Connections
    reader: ReaderFactory
    positions: PositionsFactory
    dead_letters: DeadLettersFactory
    schemas: SchemasFactory = field(default_factory=NoRegistry)
    tenants: TenantsFactory = field(default_factory=NoTenants)
    #: seconds one call of the handler may take
    timeout_s: float = 30.0
    #: receipts are to carry the places of records in traces
    traced: bool = False
    #: what a worker has to see before it does anything, where the sink writes to a shared folder
    sentinel: Sentinel | None = None
    #: where a worker gets the code that does not travel here
    fetched: Fetch | None = field(default=None, repr=False)
    #: fields of the use case that are others than those in the code, which all terms share
    terms: tuple[tuple[str, Any], ...] = ()
    #: of the code: what a version is known by, wherever the code is; made here where none is given
    digest: str = ""

    def __post_init__(self) -> None:
        """Give the version its name, once: it travels with the code."""
        if not self.digest:
            object.__setattr__(self, "digest", PackedCode.of(self.code).digest)

    def load(self) -> UseCase:
        """The use case itself, unpickled once per worker and version.

        Raises:
            CodeNotLoaded: it needs something that this worker does not have.
        """
        made: UseCase = CACHE.code(self.digest, self.fetched or self.code)
        return replace(made, **dict(self.terms)) if self.terms else made

    @property
    def has_code(self) -> bool:
        """Whether there is anything to load."""
        return bool(self.code) or self.fetched is not None

    def fetching(self, fetched: Fetch) -> Work:
        """The same, with its code elsewhere."""
        return replace(self, code=b"", fetched=fetched)

    def call_limit_s(self, predicted_s: float, *, shared: bool) -> float:
        """Seconds one call of the handler may take in a bin of which so much was predicted."""
        return patience_s(predicted_s, self.timeout_s, shared=shared)


@dataclass(frozen=True, slots=True)
class WorkerClients:
    """What a Python worker keeps from one task to the next: warm clients."""

    reader: SliceReader
    positions: Positions
    dead_letters: DeadLetters
    schemas: RegistryClient = field(default_factory=NoRegistry)
    tenants: Tenants = field(default_factory=NoTenants)
    #: what it knows of the state of lanes
    state: StateCopies = field(default_factory=StateCopies)


def kept(work: Work) -> WorkerClients:
    """The clients for these addresses; opened at the first call in this process.

    Raises:
        HeadraceError: one of them cannot be opened; the next call tries again.
    """
    factories = (work.reader, work.positions, work.dead_letters, work.schemas, work.tenants)
    address = pickle.dumps((work.connections, factories))
    made: WorkerClients = CACHE.clients(address, lambda: opened(work))
    return made


def opened(work: Work) -> WorkerClients:
    """New clients; nobody is contacted yet.

    Raises:
        HeadraceError: one of them cannot be opened.
    """
    at, reads, moves, keeps = work.connections, work.reader, work.positions, work.dead_letters
    knows, serves = work.schemas, work.tenants
    return WorkerClients(
        opened_or_told(lambda: reads.open(at), f"reader {_kind(reads)}", BrokerUnavailable),
        opened_or_told(lambda: moves.open(at), f"positions {_kind(moves)}", StoreUnavailable),
        opened_or_told(lambda: keeps.open(at), f"dead letters {_kind(keeps)}", BrokerUnavailable),
        opened_or_told(lambda: knows.open(at), f"schemas {_kind(knows)}", RegistryUnavailable),
        opened_or_told(lambda: serves.open(at), f"tenants {_kind(serves)}", StoreUnavailable),
    )


def _kind(factory: object) -> str:
    return f"of {type(factory).__name__}"


def run_bin(
    work: Work,
    planned: Bin,
    budget_s: float,
    *,
    clients: WorkerClients | None = None,
    markers: Markers | None = None,
    wave_id: str = "",
) -> list[Receipt]:
    """Run one bin to its end or to its budget; never raises for the fault of one slice or sink.

    Args:
        work: what is the same for all bins of the use case.
        planned: the bin.
        budget_s: seconds of handling and writing after which it yields. Reading does not count:
            what took long to read would be thrown away, and read again by the next wave.
        clients: those of this worker unless a fake brings its own.
        markers: where earlier attempts of this task died; None where a task has one attempt only.
        wave_id: the wave that the bin is of.
    """
    started = time.monotonic()
    try:
        use_case = work.load() if markers is None else markers.loading(work.load)
        clients = clients or kept(work)
    except HeadraceError as error:
        return _nothing_done(planned, started, error)
    tally = Tally(
        planned.slices,
        started,
        traced=work.traced,
        event_time=use_case.event_time,
        written_by=partial(writers, use_case) if says_writers(use_case) else None,
    )
    try:
        if work.sentinel is not None:
            work.sentinel.check()
        site = Site(
            work.connections,
            clients.positions,
            wave_id,
            planned.fence,
            in_company=planned.in_company,
            schemas=clients.schemas,
        )
        sink = _sink(use_case)
        writer = opened_for(use_case.name, sink, site)
    except HeadraceError as error:
        return _nothing_done(planned, started, error)
    shared = planned.in_company
    run = BinRun(
        use_case=use_case,
        options=dict(work.options),
        positions=clients.positions,
        dead_letters=clients.dead_letters,
        writer=writer,
        tally=tally,
        rules=call_rules(
            use_case, work.call_limit_s(planned.predicted_s, shared=shared), shared=shared
        ),
        budget_s=budget_s,
        markers=markers,
        schemas=clients.schemas,
        tenants=clients.tenants,
        copies=clients.state,
        asked_first=cast("AskedFirst", writer) if asks_first(sink) else None,
    )
    reading = _Timed(_portions(use_case, clients, planned.slices))
    try:
        for group in _groups(reading, tally):
            until_s = started + budget_s + reading.seconds
            run.group(group, until_s)
            if time.monotonic() > until_s + run.lost_s:
                break
    finally:
        trouble = trouble_of_closing(use_case.name, sink, writer)
    if trouble is not None:
        tally.trouble_at_last(error_of(trouble))
    return tally.receipts()


def _nothing_done(planned: Bin, started_s: float, error: HeadraceError) -> list[Receipt]:
    """Receipts of a bin that could not even begin."""
    tally = Tally(planned.slices, started_s)
    tally.fail_all(error_of(error))
    return tally.receipts()


def _sink(use_case: UseCase) -> Sink:
    assert use_case.sink is not None, f"{use_case.name} of form wave does not run in a task"
    return use_case.sink


def _portions(
    use_case: UseCase, clients: WorkerClients, slices: Sequence[Slice]
) -> Iterator[Portion]:
    reader = BucketReader(clients.reader)
    if use_case.intends:
        batches = read_the_same(reader, clients.positions, slices, BATCH_RECORDS)
    else:
        batches = reader.read(slices, BATCH_RECORDS)
    if use_case.order.merges_lanes:
        return by_stream(batches, slices)
    return whole_or_nothing(by_slice(batches)) if use_case.intends else by_batch(batches)


class _Timed:
    """Portions, and the seconds it took to read them."""

    def __init__(self, portions: Iterator[Portion]) -> None:
        self.seconds = 0.0
        self._portions = portions

    def __iter__(self) -> Iterator[Portion]:
        return self

    def __next__(self) -> Portion:
        began_s = time.monotonic()
        try:
            return next(self._portions)
        finally:
            self.seconds += time.monotonic() - began_s


def _groups(portions: Iterator[Portion], tally: Tally) -> Iterator[list[Portion]]:
    """Portions that are written together; no lane twice, and none of a slice that has stopped."""
    group: list[Portion] = []
    lanes: set[Slice] = set()
    records = bytes_ = 0
    for portion in portions:
        if any(tally.stopped(piece) for piece in portion.planned):
            continue
        if not lanes.isdisjoint(portion.planned):
            yield group
            group, lanes, records, bytes_ = [], set(), 0, 0
            if any(tally.stopped(piece) for piece in portion.planned):
                continue
        if not group:
            opened = time.monotonic()
        group.append(portion)
        lanes.update(portion.planned)
        records += portion.records.num_rows
        bytes_ += portion.records.nbytes
        full = records >= GROUP_RECORDS or bytes_ >= GROUP_BYTES
        if full or time.monotonic() - opened > GROUP_S:
            yield group
            group, lanes, records, bytes_ = [], set(), 0, 0
    if group:
        yield group
