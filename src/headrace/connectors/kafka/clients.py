"""Clients for rooms that talk to Kafka in passing: what starts a broker, and what feeds the demo.

Whoever reads and writes for tenants has clients of its own here, which know what may be repeated.
"""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient

from headrace.connectors.kafka.config import producer_config


def make_producer(config: Mapping[str, str], **more: object) -> Producer:
    """A producer that loses and doubles nothing by its own retries.

    Args:
        config: client properties of users.
        more: properties of this producer, with ``_`` for ``.``.
    """
    own = {name.replace("_", "."): value for name, value in more.items()}
    return Producer({**producer_config(config), **own})


def told_ports(bootstrap_servers: str, timeout_s: float) -> frozenset[int]:
    """The ports at which the brokers tell their clients to come; none if nobody answers."""
    client = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})
    try:
        found = client.list_topics(timeout=timeout_s)
    except KafkaException:
        return frozenset()
    return frozenset(broker.port for broker in found.brokers.values())
