"""The topics of dead letters: there when needed, as wide as their source, and never forgetful.

The first letter of a topic comes in the middle of the night, to many tasks at once. So its topic is
made by whoever comes first, and whoever comes second finds it there. It has the partitions of the
source, since a letter keeps its partition; it is wider per message, since a letter has more headers
than its record; and it keeps everything until a person decides, since a letter keeps the time of
its record, and by that retention would take an old one away at once.

A topic that somebody made is left as it is, save that partitions are added where the source has
more. Nothing is deleted here. Of a topic that is not Kafka's the letters are in Kafka as well, in
one whose name begins with its connection, and with one partition if nobody made it: lanes elsewhere
have numbers without end.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Collection, Mapping
from contextlib import closing
from typing import NamedTuple

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin import ConfigResource as _Resource  # type: ignore[attr-defined]

from headrace.connectors.kafka.clients import opened
from headrace.connectors.kafka.config import admin_config
from headrace.connectors.kafka.dead_letter_headers import BLOCK_BYTES
from headrace.connectors.kafka.faults import ErrorKind, first_error, kind_of, of_client
from headrace.connectors.kafka.log import KafkaLog
from headrace.connectors.kafka.topics import create_topics, ungrown_topics
from headrace.errors import BrokerUnavailable, ConfigError
from headrace.model.topic_names import dead_letters_topic

#: Kafka's own default of ``max.message.bytes``
_LIMIT_BYTES = 1_048_588


class DeadLetterTopic(NamedTuple):
    """A topic of dead letters as it is."""

    partitions: int
    #: the largest message it takes
    limit_bytes: int


def prepared(
    config: Mapping[str, str], needed: Mapping[str, int], timeout_s: float
) -> dict[str, DeadLetterTopic]:
    """Make sure that the topics of dead letters are there; describe them.

    Args:
        config: client properties.
        needed: how many partitions each *source* topic has at least.
        timeout_s: for each round of requests.

    Returns:
        By source topic.

    Raises:
        BrokerUnavailable: no broker answers.
        ConfigError: a topic is missing and we may not make it.
    """
    names = {topic: dead_letters_topic(topic) for topic in needed}
    with closing(KafkaLog(config, timeout_s)) as log:
        found = log.topics([*names, *names.values()])
        have = {name: len(info.lanes) for name, info in found.items()}
        limits = _limits(config, list(have), timeout_s)
        wanted = {topic: max(count, have.get(topic, 0)) for topic, count in needed.items()}
        missing = {topic: wanted[topic] for topic, name in names.items() if name not in have}
        narrow = {
            name: wanted[topic]
            for topic, name in names.items()
            if topic not in missing and have[name] < needed[topic]
        }
        _make(missing, limits, config, timeout_s)
        _grow(narrow, config, timeout_s)
        made = {names[topic]: count for topic, count in missing.items()}
        have |= _seen(log, made | narrow, timeout_s)
    return {
        topic: DeadLetterTopic(have[name], limits.get(name, _LIMIT_BYTES))
        for topic, name in names.items()
    }


def _seen(log: KafkaLog, wanted: Mapping[str, int], timeout_s: float) -> dict[str, int]:
    """Wait until the brokers show what was just made: a producer would not."""
    give_up_s = time.monotonic() + timeout_s
    while True:
        found = log.topics(wanted) if wanted else {}
        have = {name: len(info.lanes) for name, info in found.items()}
        late = [name for name, count in wanted.items() if have.get(name, 0) < count]
        if not late:
            return have
        if time.monotonic() > give_up_s:
            raise BrokerUnavailable(f"topic {late[0]} was made and is not there yet")
        time.sleep(0.02)


def _make(
    topics: Mapping[str, int], limits: dict[str, int], config: Mapping[str, str], timeout_s: float
) -> None:
    by_limit: dict[int, dict[str, int]] = defaultdict(dict)
    for topic, partitions in topics.items():
        limit = limits.get(topic, _LIMIT_BYTES) + BLOCK_BYTES
        by_limit[limit][dead_letters_topic(topic)] = partitions
    for limit, names in by_limit.items():
        keeping = {
            "cleanup.policy": "delete",
            "retention.ms": "-1",
            "retention.bytes": "-1",
            "max.message.bytes": str(limit),
            # A letter has the time of its record, whatever the cluster's topics have.
            "message.timestamp.type": "CreateTime",
        }
        try:
            create_topics(config, names, topic_config=keeping, timeout_s=timeout_s)
        except ConfigError as exc:
            raise ConfigError(f"{exc}; make it, or grant Create on it") from exc
        limits |= dict.fromkeys(names, limit)


def _grow(partitions: Mapping[str, int], config: Mapping[str, str], timeout_s: float) -> None:
    if not partitions:
        return
    for error in ungrown_topics(config, partitions, timeout_s).values():
        raise error


def _limits(config: Mapping[str, str], topics: Collection[str], timeout_s: float) -> dict[str, int]:
    """The largest message of each topic, where we may know it."""
    if not topics:
        return {}
    asked = [_Resource(_Resource.Type.TOPIC, name) for name in topics]
    limits: dict[str, int] = {}
    admin = opened(AdminClient, admin_config(config))
    futures = admin.describe_configs(asked, request_timeout=timeout_s)
    for resource, future in futures.items():
        try:
            limits[resource.name] = int(future.result(timeout_s + 5)["max.message.bytes"].value)
        except KafkaException as exc:
            error = first_error(exc)
            if kind_of(error) not in (ErrorKind.TOPIC_DENIED, ErrorKind.MISSING):
                raise of_client(error, config) from exc
        except TimeoutError as exc:
            raise of_client(KafkaError(KafkaError._TIMED_OUT), config) from exc
    return limits
