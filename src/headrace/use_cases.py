"""How a use case is written: one Python function with a decorator.

A use case should read like the job it does, not like a streaming program. So the function takes
an Arrow table and returns one, and everything else (which topics, which sink, which guarantee,
which order) is said in the decorator and checked when the module is imported::

    @use_case(topic="{tenant}.visits", sink=SqlTable(...), guarantee="exactly-once")
    def score(visits: pa.Table, context: SliceContext) -> pa.Table: ...

The first form, ``form="slice"``, runs on the executors, slice by slice, in order. Where it is an
``async def`` it is called for each record, many at a time, and returns a dict. The second form,
``form="wave"``, runs on the driver with a DataFrame of a whole wave, as ``foreachBatch`` does.

This module does not load use cases from files (``versions/``) or run them (``spark/``).
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from headrace.errors import BadRecord, ConfigError
from headrace.model.buckets import BUCKETS, MOST_BUCKETS
from headrace.model.everyone import is_plain
from headrace.model.lane_names import named, taken_apart
from headrace.model.patterns import has_other_braces
from headrace.model.record_versions import first_version, version_of
from headrace.model.restarts import Restart, RestartFrom, restart_of
from headrace.model.some_names import some_of
from headrace.model.state import MOST_STATE, StateSize
from headrace.model.streams import BadRecordPolicy, Guarantee, Order, Slice
from headrace.model.topic_lists import listed, reads_topics, topics_of
from headrace.model.topic_names import connection_of, may_be_one, problem_of
from headrace.model.topic_patterns import pattern_text
from headrace.model.waves import Terms
from headrace.payload.event_times import EventTime
from headrace.ports import (
    RECORD_SCHEMA,
    Format,
    NoTenants,
    Sink,
    SinkFacts,
    Tenants,
    compares_lanes,
    facts_of,
    keeps_state,
    marks_partitions,
    needs_registry,
    topic_of,
)
from headrace.state.seen import NO_STATE, State
from headrace.state.tables import StateTable

_E = TypeVar("_E", BadRecordPolicy, Guarantee, Order, RestartFrom)

#: calls of an ``async def`` in flight for a slice, and seconds for each, if nobody says
CONCURRENCY, CALL_TIMEOUT_S = 50, 10.0
MOST_CONCURRENCY = 1_000
_NAME = re.compile(r"[a-z][a-z0-9-]{0,62}")
#: what to say where one text was to name several topics
_SEVERAL = (
    'several are a list, topic=["visits", "clicks"], each partition by its number, ["visits[0]", '
    '"visits[1]"], and a pattern is topic=re.compile(...)'
)


@dataclass(frozen=True, slots=True)
class SliceContext:
    """What a handler may know besides its records."""

    use_case: str
    tenant: str
    #: one slice; for order ``stream`` all slices of the stream in this call
    slices: tuple[Slice, ...]
    #: options from the YAML file
    options: Mapping[str, str] = field(default_factory=dict)
    #: lanes without a number in their names, by what their records have as topic and partition
    unnumbered: Mapping[tuple[str, int], str] = field(default_factory=dict)
    #: who is a tenant, whatever a record says
    tenants: Tenants = field(default_factory=NoTenants)
    #: what the use case remembers of keys, by the names of its tables
    state: State = field(default_factory=lambda: NO_STATE)

    def versions(self, records: pa.Table) -> pa.ChunkedArray[Any]:
        """A version of each of its records, as 64-bit numbers, for stores that keep the newest.

        Along a lane, over seeks, and from a lane to one that follows it, what is newer has the
        larger one. Those of other lanes do not compare.

        Args:
            records: what the handler was given, or some rows of it.

        Raises:
            ValueError: the stream was sent back so often that there are none any more.
        """
        first = [first_version(piece.depth) for piece in self.slices]
        if len(set(first)) == 1:
            return pc.add(records["offset"], first[0])
        of_lane = {piece.lane.name: at for piece, at in zip(self.slices, first, strict=True)}
        rows = records.select(["topic", "partition"]).to_pylist()
        above = [of_lane[self._lane_of(row)] for row in rows]
        return pc.add(records["offset"], pa.chunked_array([above], pa.int64()))

    def version_of(self, record: Mapping[str, Any]) -> int:
        """The version of one record, for an ``async def``; see ``versions``.

        Args:
            record: what the handler was given.

        Raises:
            ValueError: the stream was sent back so often that there are none any more.
        """
        lane = self._lane_of(record)
        depth = next(piece.depth for piece in self.slices if piece.lane.name == lane)
        return version_of(depth, record["offset"])

    def _lane_of(self, record: Mapping[str, Any]) -> str:
        said = record["topic"], record["partition"]
        return self.unnumbered.get(said) or named(*said)

    def bad_record(self, row: int, reason: str) -> BadRecord:
        """An error to raise for one record: ``raise context.bad_record(row, "no JSON")``."""
        return BadRecord(row, reason)


Handler = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class UseCase:
    """A handler with everything a driver must know to run it."""

    name: str
    handler: Handler
    #: what it reads, or a list of it as `listed` has it
    topic: str
    sink: Sink | None
    guarantee: Guarantee
    order: Order
    form: Literal["slice", "wave"]
    #: with orders ``key`` and ``none``: into how many buckets each partition is divided; None:
    #: with ``key`` into `BUCKETS`, with ``none`` into none
    buckets: int | None = None
    #: columns the handler's table must have; checked on every call when given
    output: pa.Schema | None = None
    #: what the values of its records are, and their keys; None: bytes
    decode: Format | None = None
    decode_key: Format | None = None
    #: what becomes of a record that cannot be handled
    bad_record: BadRecordPolicy = BadRecordPolicy.SUSPEND
    #: when its activities happened; None: Kafka's timestamps tell
    event_time: EventTime | None = None
    #: of an ``async def``: how many calls of a slice are in flight at once
    concurrency: int = CONCURRENCY
    #: of an ``async def``: seconds that one call may take
    call_timeout_s: float = CALL_TIMEOUT_S
    #: what becomes of a stream that nobody read for a while; None: it goes on where it stopped
    restart: Restart | None = None
    #: what it remembers of keys
    state: tuple[StateTable, ...] = ()
    #: what a tenant may have in that
    most_state: StateSize = MOST_STATE
    #: the warehouse of whoever runs it, if its sink writes there
    place: str = ""
    #: the module of a version that it was found in
    module: str = ""
    #: what its sink said when it was taken
    told: SinkFacts | None = None

    def __call__(self, *args: Any) -> Any:
        """Call the handler itself, as a unit test would."""
        return self.handler(*args)

    @property
    def divides_by(self) -> int:
        """Into how many buckets each lane is divided; 1: into none."""
        if not self.order.divides:
            return 1
        unsaid = BUCKETS if self.order is Order.KEY else 1
        return unsaid if self.buckets is None else self.buckets

    @property
    def waits(self) -> bool:
        """Whether its handler is an ``async def``, called once for each record."""
        return inspect.iscoroutinefunction(self.handler)

    @property
    def decodes(self) -> bool:
        """Whether its handler is given columns in the place of bytes."""
        return self.decode is not None or self.decode_key is not None

    @property
    def needs_registry(self) -> bool:
        """Whether a format of it, or its sink, asks a schema registry."""
        return any(needs_registry(part) for part in (self.decode, self.decode_key, self.sink))

    @property
    def claims(self) -> bool:
        """Whether positions move before the effect (at-most-once), so that none is repeated."""
        return self.guarantee is Guarantee.AT_MOST_ONCE

    @property
    def bears_haste(self) -> bool:
        """Whether a call of it may be ended after a moment, and made again later."""
        return self.form == "slice" and not self.claims and not self.intends

    @property
    def intends(self) -> bool:
        """Whether its waves are written down before they run (exactly-once by intent)."""
        if self.guarantee is not Guarantee.EXACTLY_ONCE:
            return False
        return self.sink is None or self.of_sink.exactly_once == "intent"

    @property
    def transacts(self) -> bool:
        """Whether its sink moves the positions (exactly-once by transaction)."""
        exact = self.guarantee is Guarantee.EXACTLY_ONCE
        return exact and self.of_sink.exactly_once == "transaction"

    @property
    def claims_first(self) -> bool:
        """Whether positions move before the handler is called, so that it is called once alone.

        What a handler makes of its state goes with the position, so there it is called before.
        """
        return self.claims and not self.state

    @property
    def commits(self) -> bool:
        """Whether its tasks move the positions, with their state, after the effects."""
        return bool(self.state) and not self.transacts and not self.claims

    @property
    def terms(self) -> Terms:
        """What must stay the same until a wave that begins now is over."""
        sink = self.of_sink.where
        return Terms(
            self.guarantee,
            self.order,
            self.form,
            sink,
            self.intends,
            self.place,
            self.bad_record,
        )

    @property
    def of_sink(self) -> SinkFacts:
        """What its sink says of itself; of one that was taken, what it said then."""
        return facts_of(self.sink) if self.told is None else self.told

    def within(self, warehouse: str | None) -> UseCase:
        """This use case as it is run by a driver with this warehouse: its sink is asked no more.

        Turns and waves need to know what it says, and may not wait for it.
        """
        told = facts_of(self.sink)
        return replace(self, place=warehouse or "" if told.needs_shared_folder else "", told=told)

    def as_recorded(self, terms: Terms | None) -> UseCase | None:
        """This use case under the terms of a recorded wave, by whose sink that can be run again.

        Args:
            terms: the wave's; None if an earlier version wrote it down, which told only that it
                was exactly-once.

        Returns:
            None if it has another sink or form now: effects may be where this one does not look. Or
            if it has state that goes with its own order alone: lanes of another would share it.
        """
        if terms is None:
            exact = replace(self, guarantee=Guarantee.EXACTLY_ONCE)
            return exact if exact.intends else None
        made = replace(
            self,
            guarantee=terms.guarantee,
            order=terms.order,
            bad_record=terms.bad_record or self.bad_record,
        )
        fits = made.terms == terms and not (made.state and _scope_problem(made))
        return made if fits else None


def use_case(  # noqa: PLR0913 - all that can be said of a use case is said in one place
    *,
    topic: str | Sequence[str] | re.Pattern[str],
    sink: Sink | None = None,
    guarantee: str = "at-least-once",
    order: str = "lane",
    buckets: int | None = None,
    form: Literal["slice", "wave"] = "slice",
    name: str | None = None,
    output: pa.Schema | None = None,
    decode: Format | None = None,
    decode_key: Format | None = None,
    bad_record: str = "suspend",
    event_time: EventTime | None = None,
    concurrency: int | None = None,
    call_timeout_s: float | None = None,
    restart: str = "position",
    restart_after_s: float | None = None,
    max_age_s: float | None = None,
    state: Sequence[StateTable] = (),
    max_state_rows: int | None = None,
    max_state_bytes: int | None = None,
) -> Callable[[Handler], UseCase]:
    """Make a function a use case.

    Args:
        topic: the topic of a tenant, with ``{tenant}`` in it, and nothing else in braces; without
            it, one topic for all customers, which is one stream of the tenant ``everyone``. Or a
            list of topics whose partitions are together the lanes of one stream, all with
            ``{tenant}`` or none; ``impressions[3]`` in it is partition 3 alone. Or a compiled
            pattern, for all topics that it matches from end to end, also those that come later;
            whose they are its group ``tenant`` says, without which they are of all.
        sink: where the returned tables go; a handler of form ``wave`` writes by itself.
        guarantee: ``at-most-once``, ``at-least-once`` or ``exactly-once``.
        order: ``lane``, ``key``, ``stream`` or ``none``.
        buckets: with order ``key``, into how many buckets of keys each partition is divided: 2 to
            64; without it, 16. With order ``none``, into how many of which one may be read beside
            the other, whatever keys are in them; without it, none.
        form: ``slice`` (Arrow tables, on executors) or ``wave`` (a DataFrame, on the driver).
        name: what it is called; without one, as the function, with dashes.
        output: columns that returned tables must have; checked on every call when given.
        decode: what values are, such as ``Json(schema)``: the handler is given its columns in the
            place of ``value``, and what does not decode is a bad record; without it, bytes.
        decode_key: the same for keys.
        bad_record: what becomes of a record that cannot be handled: ``suspend``, ``dead-letter``
            or ``fail``.
        event_time: what tells when activities happened, as ``json_time`` does; without it, Kafka's
            timestamps.
        concurrency: how many calls of an ``async def`` are in flight at once for a slice; without
            it, 50.
        call_timeout_s: seconds that one call of an ``async def`` may take; without it, 10.
        restart: where a stream goes on that its last driver did not give back, and that nobody
            committed for ``restart_after_s``: ``position``, where it stopped, or ``latest``, at the
            end of its log, so that records are passed over.
        restart_after_s: seconds; with ``restart="latest"`` it has to be said.
        max_age_s: with ``restart="latest"``: a stream goes on at the first record that is not older
            than so many seconds; without it, at the end.
        state: tables of what it remembers of keys, which the handler finds in ``context.state``;
            with orders ``lane`` and ``key``.
        max_state_rows: how many rows of state a tenant may have in it; without it, a million.
        max_state_bytes: how many bytes; without it, 1 GiB.

    Raises:
        ConfigError: the combination makes no sense; the message says which part and why.
    """

    def decorate(handler: Handler) -> UseCase:
        called = name or getattr(handler, "__name__", "").replace("_", "-")
        made = UseCase(
            name=called,
            handler=handler,
            topic=_topic(topic, called, sink),
            sink=sink,
            guarantee=_choice(Guarantee, guarantee, "guarantee", called),
            order=_choice(Order, order, "order", called),
            form=form,
            buckets=buckets,
            output=output,
            decode=decode,
            decode_key=decode_key,
            bad_record=_choice(BadRecordPolicy, bad_record, "bad_record", called),
            event_time=_event_time(event_time, called),
            concurrency=CONCURRENCY if concurrency is None else concurrency,
            call_timeout_s=CALL_TIMEOUT_S if call_timeout_s is None else call_timeout_s,
            restart=_restart(restart, restart_after_s, max_age_s, called),
            state=tuple(state),
            most_state=_most_state(max_state_rows, max_state_bytes, called),
        )
        if not made.waits and (concurrency is not None or call_timeout_s is not None):
            raise ConfigError(
                f"use case {called}: concurrency and call_timeout_s are for a handler that is an "
                "async def; this one is called for many records at once"
            )
        if not made.state and made.most_state != MOST_STATE:
            raise ConfigError(
                f"use case {called}: max_state_rows and max_state_bytes are for a use case with "
                "state=[StateTable(...)]"
            )
        if buckets is not None and not made.order.divides:
            raise ConfigError(
                f"use case {called}: buckets are for order key and order none; with order "
                f"{made.order} partitions are not divided"
            )
        _check(made)
        return made

    return decorate


def _choice(kind: type[_E], value: str, what: str, name: str) -> _E:
    try:
        return kind(value)
    except ValueError:
        known = ", ".join(kind)
        raise ConfigError(f"use case {name}: {what} {value!r} is none of {known}") from None


def _restart(
    said: str, after_s: float | None, max_age_s: float | None, name: str
) -> Restart | None:
    of = _choice(RestartFrom, said, "restart", name)
    try:
        return restart_of(of, after_s, max_age_s, ("restart_after_s", "max_age_s"))
    except ValueError as error:
        raise ConfigError(f"use case {name}: {error}") from None


def _most_state(rows: int | None, bytes_: int | None, name: str) -> StateSize:
    for word, most in (("rows", rows), ("bytes", bytes_)):
        if most is not None and (type(most) is not int or not 1 <= most < 2**63):
            raise ConfigError(
                f"use case {name}: max_state_{word} is a whole number above 0, not {most!r}"
            )
    default = MOST_STATE
    return StateSize(rows or default.rows, bytes_ or default.bytes)


def _event_time(given: Any, name: str) -> EventTime | None:
    if given is not None and not callable(given):
        raise ConfigError(
            f"use case {name}: event_time is a function of a table, such as json_time('/at')"
        )
    told: EventTime | None = given
    return told


def _topic(said: object, name: str, sink: object) -> str:
    """What it reads, as one text."""
    if isinstance(said, re.Pattern):
        return _pattern(said, name, getattr(sink, "topic", None))
    parts: Sequence[Any] = said if isinstance(said, list | tuple) else [said]
    for part in parts:
        if problem := _topic_problem(part, is_listed=parts is said):
            raise ConfigError(f"use case {name}: {problem}")
    if len(set(map(is_plain, parts))) > 1:
        raise ConfigError(
            f"use case {name}: topic {said!r}: some of its topics are of each tenant and some of "
            "all together; declare one use case for these and one for those"
        )
    if len({connection_of(part) is None for part in parts}) > 1:
        raise ConfigError(
            f"use case {name}: topic {said!r}: some of its topics are in Kafka and some are not; "
            "declare one use case for these and one for those"
        )
    try:
        return listed(map(str, parts))
    except ValueError as error:
        raise ConfigError(f"use case {name}: topic {said!r} {error}") from None


def _pattern(said: re.Pattern[Any], name: str, written: object) -> str:
    if not isinstance(said.pattern, str) or said.flags != re.compile(said.pattern).flags:
        raise ConfigError(
            f"use case {name}: topic pattern {said.pattern!r}: a pattern is a text, without flags "
            "beside it; what it ignores stands in it, as (?i)"
        )
    try:
        return pattern_text(said.pattern, written if isinstance(written, str) else None)
    except ValueError as error:
        raise ConfigError(f"use case {name}: topic pattern {said.pattern!r} {error}") from None


def _topic_problem(topic: object, *, is_listed: bool) -> str | None:
    if isinstance(topic, re.Pattern):
        return f"topic {topic!r}: a pattern stands alone, and in no list"
    if not isinstance(topic, str):
        return f"topic {topic!r} is neither a text, nor a list of texts, nor a pattern"
    if has_other_braces(topic):
        return f"topic {topic!r}: only {{tenant}} may stand in braces"
    found = taken_apart(topic)
    if found is not None and not is_listed:
        return f"topic {topic!r}: to read a partition alone say a list, topic=[{topic!r}]"
    of_one = topic if found is None else found.topic
    if found is not None and connection_of(of_one) is not None:
        return (
            f"topic {topic!r} is a shard, and shards are split and merged into others; name the "
            f"whole stream, {of_one!r}"
        )
    problem = problem_of(of_one)
    return None if problem is None else f"topic {topic!r}: {problem}; {_SEVERAL}"


def _check(made: UseCase) -> None:
    problem = None
    if not _NAME.fullmatch(made.name):
        problem = (
            "a name is lower-case letters, digits and dashes, starting with a letter, 63 at most"
        )
    elif made.form not in ("slice", "wave"):
        problem = f"form {made.form!r} is none of slice, wave"
    elif made.form == "slice" and made.sink is None:
        problem = "a handler of form slice returns tables, so it needs a sink"
    elif made.form == "wave":
        problem = _wave_problem(made)
    elif made.guarantee is Guarantee.EXACTLY_ONCE and _never_exact(made.sink):
        problem = f"{type(made.sink).__name__} cannot do exactly-once; choose at-least-once"
    elif made.order.merges_lanes and compares_lanes(made.sink):
        problem = (
            f"{type(made.sink).__name__} tells what is newer by versions of records, and those of "
            "the partitions that order stream merges do not compare: name a column of the data in "
            "newest_by"
        )
    elif reads_topics(made.topic) and compares_lanes(made.sink):
        problem = (
            f"{type(made.sink).__name__} tells what is newer by versions of records, and those of "
            "several topics do not compare: name a column of the data in newest_by"
        )
    problem = problem or _bucket_problem(made) or _decode_problem(made)
    problem = problem or _async_problem(made) or _log_problem(made) or _state_problem(made)
    if problem:
        raise ConfigError(f"use case {made.name}: {problem}")


def _bucket_problem(made: UseCase) -> str | None:
    is_keyed = made.order is Order.KEY
    if not is_keyed and made.buckets is None:
        return None
    if made.form == "wave":
        return (
            "order key needs form slice: a DataFrame has no order"
            if is_keyed
            else "buckets need form slice: a DataFrame has what many tasks read already"
        )
    if type(made.divides_by) is not int or not 2 <= made.divides_by <= MOST_BUCKETS:
        return f"buckets are 2 to {MOST_BUCKETS}, not {made.buckets!r}"
    if made.intends and marks_partitions(made.sink):
        return (
            f"{type(made.sink).__name__} knows by the offsets of partitions what was sent exactly "
            f"once, and order {made.order} divides these; take order lane, or at-least-once"
        )
    if not is_keyed and compares_lanes(made.sink):
        return (
            f"{type(made.sink).__name__} tells what is newer by versions of records, and those of "
            "the buckets that have records of one key do not compare: take order key, or name a "
            "column of the data in newest_by"
        )
    return None


def needing_ends(made: UseCase) -> dict[str, str]:
    """What a use case asks for that needs a log which says where its lanes end.

    Returns:
        what to take instead, by what it asks for.
    """
    asked = {
        "order stream": (made.order.merges_lanes, "order lane"),
        "order key": (made.order is Order.KEY, "order lane, which keeps that of each key"),
        "order none with buckets": (made.divides_by > 1, "it without buckets"),
        "form wave": (made.form == "wave", "form slice"),
        "restart latest": (made.restart is not None, "restart position"),
        "state": (bool(made.state), "it without state"),
    }
    return {what: instead for what, (is_asked, instead) in asked.items() if is_asked}


def _log_problem(made: UseCase) -> str | None:
    """What cannot be had of the topic, and what not because it is not Kafka's."""
    written, is_elsewhere = topic_of(made.sink), connection_of(made.topic) is not None
    # The topic of all, such as all.visits, may be that of a tenant by its name, and is none.
    read = topics_of(made.topic)
    own = any(may_be_one(one, written) for one in read) if is_elsewhere else written in read
    if written and own:
        return (
            f"its sink writes to {written}, which it reads itself: its results would come back "
            "without end; write to another one"
        )
    if not is_elsewhere:
        return None
    for what, instead in needing_ends(made).items():
        return (
            f"{what} needs a log that says where its lanes end, and of {made.topic} only reading "
            f"tells; take {instead}"
        )
    return None


def _state_problem(made: UseCase) -> str | None:
    """Why its state could not be that of exactly the records before a position."""
    if not made.state:
        return None
    if not all(isinstance(table, StateTable) for table in made.state):
        return "state is a list of StateTable(...)"
    names = [table.name for table in made.state]
    if len(set(names)) < len(names):
        doubled = {name for name in names if names.count(name) > 1}
        return f"state names table {some_of(sorted(doubled), 3)} twice"
    if made.form == "wave":
        return "state needs form slice: a DataFrame of many lanes has no state of one"
    if made.waits:
        return (
            "state needs a handler that is called for many records at once: calls of an async def "
            "go on beside each other, and would change it at the same time"
        )
    return _scope_problem(made) or _guarantee_problem(made)


def _scope_problem(made: UseCase) -> str | None:
    scopes = {table.scope for table in made.state}
    if made.order is Order.KEY and scopes == {"key"}:
        return None
    if made.order is Order.LANE and scopes == {"lane"}:
        return None
    if made.order is Order.LANE:
        return (
            "with order lane a key may come in two partitions, whose state nobody keeps as one: "
            'say StateTable(..., scope="lane") for one of each partition, or take order key, '
            "where it is the record's key that has state"
        )
    if made.order is Order.KEY:
        return (
            "with order key a partition is read in buckets beside each other, and a state of all "
            'of them would be a race: take scope="key", or order lane'
        )
    return (
        f"state is kept lane by lane, and order {made.order} has none whose records come one after "
        "the other: take order key or order lane"
    )


def _guarantee_problem(made: UseCase) -> str | None:
    if made.intends or (made.transacts and not keeps_state(made.sink)):
        return (
            f"{type(made.sink).__name__} cannot write exactly once what goes with state: take a "
            "SqlTable of the store's database (without at), or at-least-once"
        )
    return None


def _wave_problem(made: UseCase) -> str | None:
    if made.sink is not None:
        return "a handler of form wave writes by itself, so it takes no sink"
    if made.order.merges_lanes:
        return "order stream needs form slice: a DataFrame has no order"
    if made.bad_record is BadRecordPolicy.DEAD_LETTER:
        return "bad_record dead-letter needs form slice: a wave names no record"
    return None


def _async_problem(made: UseCase) -> str | None:
    if not made.waits:
        yields = inspect.isasyncgenfunction(made.handler)
        return "an async def returns its rows and does not yield them" if yields else None
    if made.form == "wave":
        return "a handler of form wave is given a DataFrame and is no async def"
    if made.output is None:
        return (
            "an async def returns dicts, so it says the columns of its rows: "
            "output=pyarrow.schema(...)"
        )
    if type(made.concurrency) is not int or not 1 <= made.concurrency <= MOST_CONCURRENCY:
        return f"concurrency is 1 to {MOST_CONCURRENCY} calls, not {made.concurrency!r}"
    if type(made.call_timeout_s) not in (int, float) or not 0 < made.call_timeout_s < math.inf:
        return f"call_timeout_s is a number of seconds, not {made.call_timeout_s!r}"
    return None


def _decode_problem(made: UseCase) -> str | None:
    if not made.decodes:
        return None
    given = [kind for kind in (made.decode, made.decode_key) if kind is not None]
    if any(isinstance(kind, type) or not hasattr(kind, "schema") for kind in given):
        return "decode is a format, such as Json(schema) or Text() of headrace.formats"
    names = [name for name in RECORD_SCHEMA.names if name not in ("key", "value")]
    names += ["tenant", "__slice", "__receipt"] if made.form == "wave" else []
    for column, kind in (("key", made.decode_key), ("value", made.decode)):
        for name in [column] if kind is None else kind.schema(column).names:
            taken = name in names
            if made.form == "wave":  # Spark tells no upper case from lower
                taken = name.casefold() in {known.casefold() for known in names}
            if taken:
                return (
                    f"decode gives a column {name}, and there is one already beside it; give it "
                    f"another name, as Json(..., names={{'its_{name}': '{name}'}}) does"
                )
            names.append(name)
    return None


def _never_exact(sink: Sink | None) -> bool:
    return sink is not None and sink.exactly_once is None
