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
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from sqlalchemy import Connection, select

from headrace.errors import ConfigError, shared_topic
from headrace.model.everyone import EVERYONE, is_plain
from headrace.model.patterns import TENANT
from headrace.model.streams import State, StreamId
from headrace.model.topic_lists import topics_of
from headrace.model.topic_patterns import is_pattern, tenant_in
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
    rows = connection.execute(select(deployments.c.use_case, deployments.c.topic))
    doubts = doubtful(wanted, {row.use_case: row.topic for row in rows})
    there: set[StreamId] = set()
    for some in matching(streams, doubts):
        asked = select(streams.c.use_case, streams.c.tenant).where(
            some, streams.c.state != State.REMOVED.value
        )
        there |= {StreamId(row.use_case, row.tenant) for row in connection.execute(asked)}
    refuse_doubts(wanted, doubts, there)


def why_shared(connection: Connection, stream: StreamId, topics: Collection[str]) -> str | None:
    """Why a stream may not read topics that its pattern matches; None: it may."""
    try:
        refuse_shared(connection, dict.fromkeys([stream], ",".join(sorted(topics))))
    except ConfigError as error:
        return str(error)
    return None


def doubtful(
    wanted: Mapping[StreamId, str], templates: Mapping[str, str]
) -> dict[StreamId, StreamId]:
    """Streams that would read the same topic for another tenant, if they are there.

    Args:
        wanted: streams that are to begin, and their topics.
        templates: of each use case its topic, with a place for the tenant.

    Returns:
        Such a stream -> the one that is to begin.
    """
    use_cases: dict[str, list[str]] = {}
    for use_case, text in templates.items():
        use_cases.setdefault(text, []).append(use_case)
    parsed = [(one, those) for text, those in use_cases.items() for one in _templates(text)]
    return {
        StreamId(use_case, tenant): stream
        for stream, topics in wanted.items()
        for topic in topics_of(topics)
        for template, those in parsed
        for tenant in template.tenants_of(topic)
        if tenant != stream.tenant
        for use_case in those
    }


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

    def tenants_of(self, topic: str) -> Iterator[str]:
        """The one tenant whose topic this would be, or none."""
        tenant = tenant_in(self.text, topic)
        if tenant is not None:
            yield tenant or EVERYONE


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

    def tenants_of(self, topic: str) -> Iterator[str]:
        """The one tenant whose topic this would be, or none."""
        if self.places == 0:
            yield from (EVERYONE,) if topic == self.text else ()
            return
        # Most by far end here: a driver waits for whoever adds thousands of tenants.
        if not (topic.endswith(self.after) and topic.startswith(self.before)):
            return
        length, odd = divmod(len(topic) - self.letters, self.places)
        tenant = topic[len(self.before) : len(self.before) + length]
        if odd == 0 and _NAME.fullmatch(tenant) and self.text.replace(TENANT, tenant) == topic:
            yield tenant
