"""The topics that tenants of a use case need: which they are, and making those that are missing.

A topic for each tenant, and a thousand tenants: nobody makes these by hand, and who is killed in
between has to be able to say it again. So what is wanted follows from the use cases and from the
streams in the store, and a topic that is there is left as it is.

Topics that rows name are not known here. Nothing is deleted, and no partitions are added.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from headrace.connectors.kafka import KafkaLog
from headrace.connectors.kafka.tenant_topics import TenantTopics
from headrace.connectors.kafka.topic_shapes import TopicShape
from headrace.model.patterns import TENANT
from headrace.model.streams import State, Stream
from headrace.model.topic_lists import topics_of
from headrace.model.topic_names import connection_of
from headrace.model.topic_patterns import is_pattern
from headrace.sinks import KafkaTopic
from headrace.splitting import makes_input_of
from headrace.use_cases import UseCase

_MAKE_S = 30.0


@dataclass(frozen=True, slots=True)
class WantedTopic:
    """A topic that a use case reads or writes for a tenant."""

    topic: str
    use_case: str
    #: None: one topic for all
    tenant: str | None
    #: it writes to it, or reads it
    is_output: bool
    shape: TopicShape


@dataclass(frozen=True, slots=True)
class TopicOutcome:
    """What became of it."""

    wanted: WantedTopic
    was_there: bool
    #: why it could not be made
    error: str | None = None


def wanted_topics(
    use_cases: Collection[UseCase],
    streams: Collection[Stream],
    said: TopicShape,
    *,
    inputs: bool = False,
    tenants: Collection[str] = (),
) -> list[WantedTopic]:
    """The topics of the tenants of some use cases, each once.

    Args:
        use_cases: whose sinks say where they write.
        streams: all that the store has.
        said: what counts for all of them, over what sinks say.
        inputs: also the topics that are read, if they are Kafka's.
        tenants: only those of these; none: of all.
    """
    found: dict[str, WantedTopic] = {}
    for use_case in use_cases:
        names = sorted(
            stream.id.tenant
            for stream in streams
            if stream.id.use_case == use_case.name
            and stream.state is not State.REMOVED
            and (not tenants or stream.id.tenant in tenants)
        )
        sink = use_case.sink
        if isinstance(sink, KafkaTopic):
            found |= _named(use_case.name, sink.topic, names, _over(sink.shape, said), output=True)
        elif isinstance(sink, TenantTopics) and sink.unknown:
            found |= _named(use_case.name, sink.unknown, names, said, output=True)
        if inputs and connection_of(use_case.topic) is None:
            read = makes_input_of(use_case, names)
            for topic in topics_of(use_case.topic):
                found |= _named(use_case.name, topic, read, said, output=False)
    return sorted(found.values(), key=lambda wanted: (wanted.use_case, wanted.topic))


def each_tenant_has_its_own(use_case: UseCase, *, inputs: bool = False) -> bool:
    """Whether a use case writes to topics of which each tenant has one; with ``inputs``: reads."""
    sink = use_case.sink
    written = isinstance(sink, KafkaTopic) and TENANT in sink.topic
    named = TENANT in use_case.topic and not is_pattern(use_case.topic)
    read = inputs and named and connection_of(use_case.topic) is None
    return written or read


def has_to_be_there(use_case: UseCase) -> str | None:
    """The topic for all that a use case writes to and does not make by itself."""
    sink = use_case.sink
    if isinstance(sink, TenantTopics):
        return sink.unknown or None
    if not isinstance(sink, KafkaTopic) or TENANT in sink.topic:
        return None
    return sink.topic if sink.partitions is None else None


def absent(config: Mapping[str, str], names: Collection[str]) -> set[str]:
    """Which of these topics are surely not there; none where no broker answers."""
    if not names:
        return set()
    log = KafkaLog(config)
    try:
        return set(log.absent(names))
    finally:
        log.close()


def made(
    config: Mapping[str, str], wanted: Sequence[WantedTopic], *, dry_run: bool = False
) -> list[TopicOutcome]:
    """Make what is missing, and say what became of each.

    Args:
        config: client properties.
        wanted: the topics.
        dry_run: only look.

    Raises:
        BrokerUnavailable: no broker answers.
    """
    log = KafkaLog(config)
    try:
        there = log.topics([topic.topic for topic in wanted])
    finally:
        log.close()
    missing = [topic for topic in wanted if topic.topic not in there]
    refused = {} if dry_run else _refused(config, missing)
    return [TopicOutcome(topic, topic.topic in there, refused.get(topic.topic)) for topic in wanted]


def _refused(config: Mapping[str, str], missing: Iterable[WantedTopic]) -> dict[str, str]:
    """Make them, those of one shape together; why, for each that could not be made."""
    refused: dict[str, str] = {}
    for shape, alike in groupby(sorted(missing, key=_order), key=lambda wanted: wanted.shape):
        names = [wanted.topic for wanted in alike]
        errors = shape.make(config, names, _MAKE_S)
        refused |= {name: str(error) for name, error in errors.items()}
    return refused


def _order(wanted: WantedTopic) -> str:
    return repr(wanted.shape)


def _named(
    use_case: str, pattern: str, tenants: Sequence[str], shape: TopicShape, *, output: bool
) -> dict[str, WantedTopic]:
    if TENANT not in pattern:
        return {pattern: WantedTopic(pattern, use_case, None, output, shape)}
    topics = {tenant: pattern.replace(TENANT, tenant) for tenant in tenants}
    return {
        topic: WantedTopic(topic, use_case, tenant, output, shape)
        for tenant, topic in topics.items()
    }


def _over(shape: TopicShape, said: TopicShape) -> TopicShape:
    """What a sink says, where nobody has said otherwise."""
    return replace(
        shape,
        partitions=said.partitions or shape.partitions,
        replication=said.replication or shape.replication,
        retention=said.retention or shape.retention,
    )
