"""Making topics: for dead letters, sinks, the demo, tests, and for whoever tries Headrace.

The topics that tenants send to are their owner's matter, and a driver waits for them. Topics come
and go with tenants, and whoever makes a thousand of them may be killed in between. So making is
repeatable: a topic that is there is left as it is. Partitions are added to topics of our own alone,
which nobody reads by position. Nothing is deleted here: that needs a decision about positions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import Future

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic

from headrace.connectors.kafka.clients import opened
from headrace.connectors.kafka.config import admin_config
from headrace.connectors.kafka.faults import ErrorKind, first_error, kind_of, of_client
from headrace.errors import ConfigError, HeadraceError

_TOPICS_PER_REQUEST = 250


def create_topics(
    config: Mapping[str, str],
    partitions: Mapping[str, int],
    *,
    replicas: int = -1,
    topic_config: Mapping[str, str] | None = None,
    timeout_s: float = 60.0,
) -> set[str]:
    """Make the topics that are not there yet; return the names of the new ones.

    Args:
        config: client properties.
        partitions: how many partitions each topic is to have.
        replicas: copies of each partition; -1 is the broker's own default.
        topic_config: properties of the new topics, such as ``retention.ms``.
        timeout_s: for each 250 topics.

    Raises:
        ConfigError: a name or a property is refused, or we may not make topics.
        BrokerUnavailable: no broker answers.
    """
    made: set[str] = set()
    for name, error in _answers(config, partitions, replicas, topic_config or {}, timeout_s):
        if error is None:
            made.add(name)
        elif kind_of(error) is not ErrorKind.EXISTS:
            raise _translated(name, error, config)
    return made


def unmakable_topics(
    config: Mapping[str, str],
    partitions: Mapping[str, int],
    timeout_s: float,
    *,
    replicas: int = -1,
    topic_config: Mapping[str, str] | None = None,
) -> dict[str, HeadraceError]:
    """Make the topics that are not there yet; return why, for each that cannot be made.

    One that is refused keeps no other from being made. Arguments are those of ``create_topics``.
    """
    return {
        name: _translated(name, error, config)
        for name, error in _answers(config, partitions, replicas, topic_config or {}, timeout_s)
        if error is not None and kind_of(error) is not ErrorKind.EXISTS
    }


def ungrown_topics(
    config: Mapping[str, str], partitions: Mapping[str, int], timeout_s: float
) -> dict[str, HeadraceError]:
    """Give topics at least so many partitions; return why, for each that cannot be given them."""
    asked = [NewPartitions(name, count) for name, count in partitions.items()]
    # Its futures end with it.
    admin = opened(AdminClient, admin_config(config))
    futures = admin.create_partitions(asked, request_timeout=timeout_s)
    found: dict[str, HeadraceError] = {}
    for name, future in futures.items():
        error = _answer(future, timeout_s)
        # Where it has them by now, somebody else was faster.
        if error is None or kind_of(error) is ErrorKind.BAD_PARTITIONS:
            continue
        if kind_of(error) is ErrorKind.UNREACHABLE:
            found[name] = of_client(error, config)
        else:
            found[name] = ConfigError(
                f"topic {name} has too few partitions: {error.str()}; "
                f"give it {partitions[name]}, or grant Alter on it"
            )
    return found


def _answers(
    config: Mapping[str, str],
    partitions: Mapping[str, int],
    replicas: int,
    topic_config: Mapping[str, str],
    timeout_s: float,
) -> Iterator[tuple[str, KafkaError | None]]:
    """What the brokers say to each topic; None: it was made."""
    admin = opened(AdminClient, admin_config(config))
    names = list(partitions)
    for first in range(0, len(names), _TOPICS_PER_REQUEST):
        asked = [
            NewTopic(name, partitions[name], replicas, config=dict(topic_config))
            for name in names[first : first + _TOPICS_PER_REQUEST]
        ]
        for name, future in admin.create_topics(asked, request_timeout=timeout_s).items():
            yield name, _answer(future, timeout_s)


def _answer(future: Future[None], timeout_s: float) -> KafkaError | None:
    try:
        future.result(timeout_s + 5)
    except KafkaException as exc:
        return first_error(exc)
    except TimeoutError:
        return KafkaError(KafkaError._TIMED_OUT)
    return None


def _translated(name: str, error: KafkaError, config: Mapping[str, str]) -> HeadraceError:
    if kind_of(error) is ErrorKind.UNREACHABLE:
        return of_client(error, config)
    return ConfigError(f"topic {name} cannot be made: {error.str()}")
