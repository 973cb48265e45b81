"""That no topic is read for two tenants.

Each tenant has a topic of its own for each use case. But names have dashes: of `{tenant}-visits`
and `{tenant}-eu-visits` the tenants `acme-eu` and `acme` would have one topic, and each would be
given what is the other's. Or a use case reads `acme.visits` as a topic for all, and another one
`{tenant}.visits`. That cannot be seen in one use case, so it is looked at where a stream begins, in
the transaction in which it does.

Which topics a pattern matches is known when they are there. So a driver asks before lanes of one
begin, and the stream waits and says why.

Streams that are there already go on. Topics of ends and of dead letters are not looked at.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy import Connection, select

from headrace.errors import shared_topic
from headrace.model.everyone import EVERYONE, is_plain
from headrace.model.patterns import TENANT
from headrace.model.streams import State, StreamId
from headrace.model.topic_lists import topics_of
from headrace.model.topic_patterns import is_pattern, tenants_in
from headrace.store.pairs import matching
from headrace.store.schema import deployments, streams

#: what a name is made of
_NAME = re.compile(r"[a-z0-9-]+")


def refuse_shared(connection: Connection, wanted: Mapping[StreamId, str]) -> None:
    """Raise ``ConfigError`` if a stream is to begin whose topic is another tenant's.

    Args:
        connection: a transaction for a change, in which all use cases of them are deployed.
        wanted: streams that are to begin, and their topics.
    """
    found = doubtful(
        {stream: topics_of(text) for stream, text in wanted.items()}, _said(connection)
    )
    doubts = {one.other: one.stream for one in found}
    refuse_doubts(wanted, doubts, _there(connection, doubts))


def why_shared(
    connection: Connection, wanted: Mapping[StreamId, Collection[str]]
) -> dict[StreamId, dict[str, str]]:
    """Of topics that streams would read those that are another tenant's as well, each with why."""
    doubts = doubtful(wanted, _said(connection))
    return told(doubts, _there(connection, {one.other for one in doubts}))


def told(doubts: Iterable[Doubt], there: Collection[StreamId]) -> dict[StreamId, dict[str, str]]:
    """Of doubts those that hold, by stream and topic, as people are told."""
    found: dict[StreamId, dict[str, str]] = {}
    for stream, topic, other in doubts:
        if other in there:
            found.setdefault(stream, {})[topic] = str(shared_topic(topic, stream, other))
    return found


def _said(connection: Connection) -> dict[str, str]:
    rows = connection.execute(select(deployments.c.use_case, deployments.c.topic))
    return {row.use_case: row.topic for row in rows}


def _there(connection: Connection, wanted: Collection[StreamId]) -> set[StreamId]:
    there: set[StreamId] = set()
    for some in matching(streams, wanted):
        asked = select(streams.c.use_case, streams.c.tenant).where(
            some, streams.c.state != State.REMOVED.value
        )
        there |= {StreamId(row.use_case, row.tenant) for row in connection.execute(asked)}
    return there


class Doubt(NamedTuple):
    """A topic that is another tenant's as well, if the other stream is there."""

    stream: StreamId
    topic: str
    other: StreamId


def doubtful(
    wanted: Mapping[StreamId, Collection[str]], templates: Mapping[str, str]
) -> list[Doubt]:
    """Streams that would read the same topic for another tenant, if they are there.

    Args:
        wanted: streams that are to begin, and their topics.
        templates: of each use case its topic, with a place for the tenant.
    """
    use_cases: dict[str, list[str]] = {}
    for use_case, text in templates.items():
        use_cases.setdefault(text, []).append(use_case)
    readers: dict[str, list[StreamId]] = {}
    for stream, topics in wanted.items():
        for topic in topics:
            readers.setdefault(topic, []).append(stream)
    return [
        Doubt(stream, topic, StreamId(use_case, tenant))
        for text, those in use_cases.items()
        for template in _templates(text)
        for topic, tenant in template.tenants_of(readers)
        for stream in readers[topic]
        if tenant != stream.tenant
        for use_case in those
    ]


def _templates(text: str) -> Iterator[_Template | _Matched]:
    """What a use case reads, each to tell of a topic whose it would be."""
    if is_pattern(text):
        yield _Matched(text)
    for topic in topics_of(text):
        yield _Template.of(topic)


def refuse_doubts(
    wanted: Mapping[StreamId, str],
    doubts: Mapping[StreamId, StreamId],
    there: Collection[StreamId],
) -> None:
    """Raise ``ConfigError`` if one that there would be doubts of is there, or is to begin too."""
    for other, stream in doubts.items():
        if other in there or other in wanted:
            raise shared_topic(wanted[stream], stream, other)


@dataclass(frozen=True, slots=True)
class _Matched:
    """What a pattern matches, for the same."""

    text: str

    def tenants_of(self, topics: Iterable[str]) -> Iterator[tuple[str, str]]:
        """Topics of some tenant, each with the one whose it would be."""
        for topic, tenant in tenants_in(self.text, topics).items():
            yield topic, tenant or EVERYONE


@dataclass(frozen=True, slots=True)
class _Template:
    """The topic of a use case, to tell of a topic whose it would be."""

    text: str
    #: all of it but the places for the tenant
    letters: int
    places: int
    before: str
    after: str

    @classmethod
    def of(cls, text: str) -> _Template:
        before, *_, after = text.split(TENANT) if not is_plain(text) else (text, "")
        return cls(text, len(text.replace(TENANT, "")), text.count(TENANT), before, after)

    def tenants_of(self, topics: Iterable[str]) -> Iterator[tuple[str, str]]:
        """Topics of some tenant, each with the one whose it would be."""
        for topic in topics:
            # Most by far end here: a driver waits for whoever adds thousands of tenants.
            if topic.endswith(self.after) and topic.startswith(self.before):
                yield from ((topic, tenant) for tenant in self._tenant_of(topic))

    def _tenant_of(self, topic: str) -> Iterator[str]:
        if self.places == 0:
            yield from (EVERYONE,) if topic == self.text else ()
            return
        length, odd = divmod(len(topic) - self.letters, self.places)
        tenant = topic[len(self.before) : len(self.before) + length]
        if odd == 0 and _NAME.fullmatch(tenant) and self.text.replace(TENANT, tenant) == topic:
            yield tenant
