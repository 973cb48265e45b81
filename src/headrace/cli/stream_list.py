"""`headrace streams list`: every stream, what it does and why, and how far it is.

Of ten thousand streams an operator wants to see those of one customer, or those in trouble. What
is over (a stream that was removed, by itself or with its tenant, and a rerun that came to its end)
is shown to who asks for it, since a list that only grows hides what runs.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from rich.table import Table
from rich.text import Text

from headrace.cli.failure_text import printable, when
from headrace.cli.servers import RunningUp
from headrace.cycle.lags import StreamLag, lags
from headrace.cycle.missing_topics import not_there
from headrace.errors import BrokerUnavailable, ConfigError, UnknownName
from headrace.model.buckets import least_places, parts_of
from headrace.model.lane_names import in_order, said
from headrace.model.places import Place, text_of
from headrace.model.records import Failure
from headrace.model.statistics import Report, ShownState
from headrace.model.streams import State, Stream, StreamId
from headrace.model.topic_lists import topics_read
from headrace.operating.schemas_seen import SchemaSeen, known_versions, named_after, schemas_seen
from headrace.ports import Log, Registry, Store
from headrace.telemetry.conditions import Condition, condition
from headrace.telemetry.newest_reports import LastFigures, newest

#: what a stream may be shown as
STATES = tuple(state.value for state in ShownState)
#: or with how many of its lanes are
_IN_PART = re.compile(rf"{ShownState.SUSPENDED} [0-9]+/[0-9]+")


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which streams are to be shown."""

    tenant: str | None = None
    #: none: of any
    use_cases: Collection[str] = ()
    #: of ``STATES``, or as one is shown, ``suspended 1/4``; none: any
    states: Collection[str] = ()
    #: also those that were removed
    removed_too: bool = False

    def is_named(self, stream: Stream, state: State) -> bool:
        """Whether it may be one of them, before it is known how it stands."""
        of_tenant = self.tenant in (None, stream.id.tenant)
        of_use_case = not self.use_cases or stream.id.use_case in self.use_cases
        removed_too = self.removed_too or ShownState.REMOVED.value in self.states
        return (
            of_tenant
            and of_use_case
            and (removed_too or State.REMOVED not in {state, stream.state})
        )

    def fits(self, how: Condition) -> bool:
        """Whether it is one of them, as it stands; ``suspended 1/4`` is suspended."""
        shown = {how.state, ShownState.of(how.state).value}
        return not self.states or not shown.isdisjoint(self.states)


def wanted(
    registry: Registry,
    tenant: str | None,
    use_cases: Collection[str],
    states: Collection[str],
    every: bool,
) -> Wanted:
    """What somebody asked for, once it is sure that there is such a thing.

    Raises:
        UnknownName: nobody added this tenant or use case: a slip would look like an empty list.
        ConfigError: a stream is never shown in such a state.
    """
    if tenant is not None and tenant not in {known.name for known in registry.tenants()}:
        raise UnknownName(
            f"there is no tenant {tenant}; 'headrace tenants list --all' shows them",
            kind="tenant",
            name=tenant,
        )
    known_use_cases = {known.use_case for known in registry.deployments()}
    for use_case in use_cases:
        if use_case not in known_use_cases:
            raise UnknownName(
                f"there is no use case {use_case}; 'headrace use-cases list --all' shows them",
                kind="use case",
                name=use_case,
            )
    # One that has to be quoted in a shell may be typed with a dash.
    asked = [state.replace("-", " ").lower() for state in states]
    for typed, state in zip(states, asked, strict=True):
        if state not in STATES and not _IN_PART.fullmatch(state):
            raise ConfigError(f"--state {typed}: a stream is shown as {', '.join(STATES)}")
    return Wanted(tenant, use_cases, asked, every)


@dataclass(frozen=True, slots=True)
class Listed:
    """One stream, as it is shown."""

    of: StreamLag
    how: Condition
    #: when a driver told of it last
    told_at_s: float | None
    schemas: list[SchemaSeen]
    #: other tenants whose topic it is as well, which no stream that begins today may have
    shared_with: list[str]

    def row(self) -> tuple[str | Text, ...]:
        """Its cells, for people."""
        stream, how = self.of.stream, self.how
        lag = "-" if self.of.lag_records is None else str(self.of.lag_records)
        lag = f"about {lag}" if self.of.is_guess and self.of.lag_records else lag
        lag = "unknown" if self.of.untold else lag
        # Sixteen buckets of a partition would say no more than where the least of them is.
        at = self._said(least_places(self.of.positions))
        positions = ", ".join(f"{lane}:{offset}" for lane, offset in at.items())
        if self.of.is_guess:
            most = max(map(parts_of, self.of.positions))
            positions = f"{positions}, the least of {most} buckets"
        note = printable(" ".join(how.reason.split()))
        if how.retry_at_s is not None:
            note = f"next try {when(how.retry_at_s)}: {note}"
        if self.shared_with:
            note = f"this topic is read for {', '.join(self.shared_with)} as well; {note}".rstrip(
                "; "
            )
        named = (str(stream.id), Text(printable(stream.topic)))
        return (*named, how.state, lag, positions or "none yet", Text(note))

    def values(self) -> dict[str, Any]:
        """The same and more, for programs."""
        stream = self.of.stream
        return {
            "stream": str(stream.id),
            "tenant": stream.id.tenant,
            "use_case": stream.id.use_case,
            "topic": stream.topic,
            "state": self.how.state,
            "reason": self.how.reason,
            "retry_at_s": self.how.retry_at_s,
            "holder": stream.holder,
            "told_at_s": self.told_at_s,
            "lag_records": self.of.lag_records,
            "positions": self._said(self.of.positions),
            "passed_over": {
                said(lane, stream.topic): [
                    text_of(passed.from_offset),
                    text_of(passed.until_offset),
                ]
                for lane, passed in self.of.passed_ranges.items()
            },
            "waits_for": self.of.waits_for,
            "schemas": [asdict(schema) for schema in self.schemas],
            "shared_with": self.shared_with,
        }

    def _said(self, at: Mapping[str, Place]) -> dict[str, str]:
        """Where lanes read next, as people say their names, in order."""
        topic = self.of.stream.topic
        return {said(lane, topic): text_of(at[lane]) for lane in in_order(at)}


def table_of(rows: Collection[Listed]) -> Table:
    """The rows as a table."""
    table = Table("stream", "topic", "state", "lag", "positions", "note", box=None)
    for row in rows:
        table.add_row(*row.row())
    return table


def lags_or_why(
    store: Store, log: Log, asked: Wanted
) -> tuple[list[StreamLag], BrokerUnavailable | None]:
    """Streams that may be asked for; of others Kafka is asked nothing.

    What they do and why is in the store. So where Kafka does not answer they are without a lag,
    and the second is why.
    """
    try:
        return lags(store, log, asked.is_named), None
    except BrokerUnavailable as error:
        return lags(store, None, asked.is_named), error


def listed(
    store: Store,
    found: Sequence[StreamLag],
    asked: Wanted,
    now_s: float,
    up: RunningUp | None,
    *,
    ours: bool,
) -> Iterator[Listed]:
    """Each stream that is asked for, as it stands.

    Args:
        store: where all of it is.
        found: streams, and how far they are.
        asked: which ones.
        now_s: the time.
        up: the one that runs here now.
        ours: drivers ask our own registry, so ids of schemas are those of the store.
    """
    reports, stopped = store.statistics.reports(), defaultdict[StreamId, list[Failure]](list)
    told, starting = newest(reports), _starting(up, reports)
    named = any(last.figures.writers for last in told.values())
    known = known_versions(store.schema_subjects) if named and ours else {}
    streams = store.registry.streams()
    tenants_of = _tenants_of(streams)
    read = (topic for stream in streams for topic in _topics(stream))
    topics = set(read) if named else set()
    for failure in store.failures.every(only_open=True, with_records=False):
        stopped[failure.slice.lane.stream].append(failure)
    # After the streams: somebody may just now be added.
    tenants = {tenant.name: tenant for tenant in store.registry.tenants()}
    for lag in found:
        name = lag.stream.id
        word = _since(lag, told.get(name))
        how = condition(lag.stream, tenants[name.tenant], word, stopped[name], now_s, starting)
        if asked.fits(how):
            writers = () if word is None else word.figures.writers
            names = named_after(_topics(lag.stream), name.tenant, topics)
            seen = schemas_seen(known, names, writers, now_s)
            also = (tenants_of[topic] for topic in _topics(lag.stream))
            shared_with = sorted(set().union(*also) - {name.tenant})
            yield Listed(lag, how, word and word.at_s, seen, shared_with)


def _topics(stream: Stream) -> tuple[str, ...]:
    return topics_read(stream.topic, stream.topic_id)


def _tenants_of(streams: Iterable[Stream]) -> dict[str, set[str]]:
    """For whom a topic is read; one at most but where streams began long ago."""
    found = defaultdict[str, set[str]](set)
    for stream in streams:
        if stream.state is not State.REMOVED:
            for topic in _topics(stream):
                found[topic].add(stream.id.tenant)
    return found


def _since(lag: StreamLag, word: LastFigures | None) -> LastFigures | None:
    """The driver's last word, but for a topic that it missed then and that is there now."""
    topic = lag.stream.topic
    if word is None or lag.topic is None or not word.figures.note.startswith(not_there(topic)):
        return word
    note = f"topic {topic} is there now; the driver looks again by itself"
    return word._replace(figures=replace(word.figures, note=note))


def _starting(up: RunningUp | None, reports: Iterable[Report]) -> str | None:
    """That `up` starts, in words; None: no `up` runs, or a driver has told something since."""
    if up is None or any(report.at_s >= up.since_s for report in reports):
        return None
    return f"'headrace up' is starting here, since {when(up.since_s)}"
