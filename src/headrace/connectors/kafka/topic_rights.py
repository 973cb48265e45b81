"""Which topics we may not write to, asked of the brokers.

A transaction that is refused for one topic is refused as a whole, and the client does not say for
which: it gives all messages up. Brokers say of each topic what we may do with it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import AclOperation, AdminClient  # type: ignore[attr-defined]

from headrace.connectors.kafka.clients import opened
from headrace.connectors.kafka.config import admin_config
from headrace.connectors.kafka.faults import ErrorKind, first_error, kind_of

_ASK_S = 5.0


def unwritable_topics(config: Mapping[str, str], topics: Collection[str]) -> set[str]:
    """Those of some topics that we have no right to write to, as far as brokers tell."""
    admin = opened(AdminClient, admin_config(config))
    asked = admin.describe_topics(
        TopicCollection(list(topics)), include_authorized_operations=True, request_timeout=_ASK_S
    )
    found: set[str] = set()
    for name, answer in asked.items():
        with suppress(TimeoutError):
            try:
                may = answer.result(_ASK_S + 1).authorized_operations
            except KafkaException as exc:
                if kind_of(first_error(exc)) is ErrorKind.TOPIC_DENIED:
                    found.add(name)
            else:
                if may is not None and AclOperation.WRITE not in may:
                    found.add(name)
    return found
