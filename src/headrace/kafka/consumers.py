"""The consumers of one worker process, kept warm.

Connecting, and learning where a thousand partitions live, costs more than reading a small slice. So
consumers live as long as the process, one for each size of slice: what is fetched past the end of a
slice is decoded and thrown away, so small slices want small fetches, and large ones are slow with
them. A consumer is made after the fork that made the process, because its threads do not survive
one. Nothing here reads.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping

from confluent_kafka import Consumer, KafkaError, KafkaException

from headrace.errors import ConfigError
from headrace.kafka.config import consumer_config
from headrace.kafka.faults import first_error, is_authentication

#: How much is fetched ahead. Figures from ``benchmarks/reader.py``.
PROFILES: Mapping[str, Mapping[str, str]] = {
    "small": {"fetch.message.max.bytes": "16384", "queued.min.messages": "1000"},
    "large": {"fetch.message.max.bytes": "1048576", "queued.min.messages": "20000"},
}


class Client:
    """A consumer that belongs to no group, and what it complained of."""

    def __init__(self, config: Mapping[str, str], profile: str) -> None:
        self.refusal: KafkaError | None = None
        self._known: set[str] = set()
        settings = {
            **consumer_config(config, PROFILES[profile]),
            # librdkafka wants a group's name even where no group is joined.
            "group.id": f"headrace-reader-{uuid.uuid4().hex}",
            "error_cb": self._remember,
        }
        try:
            self.consumer = Consumer(settings)
        except KafkaException as exc:
            raise ConfigError(f"kafka: {first_error(exc).str()}") from exc

    def learn(self, topics: set[str], timeout_s: float) -> str:
        """Ask the cluster where these topics live, if one of them is new to this consumer.

        By itself librdkafka looks for a topic it does not know at its next scan, once a second,
        and everything read together with it would wait. Asking for all at once costs some ten
        milliseconds for a thousand topics. Returns why nobody answered, if so: no fault yet, since
        the round looks again.
        """
        if topics <= self._known:
            return ""
        try:
            self._known = set(self.consumer.list_topics(timeout=timeout_s).topics)
        except KafkaException as exc:
            return first_error(exc).str()
        return ""

    def _remember(self, error: KafkaError) -> None:
        if is_authentication(error):
            self.refusal = error


class Clients:
    """At most one client for each profile."""

    def __init__(self, config: Mapping[str, str]) -> None:
        self._config = config
        self._pid = os.getpid()
        self._clients: dict[str, Client] = {}

    def of(self, profile: str) -> Client:
        """The client for slices of that size.

        Raises:
            ConfigError: librdkafka does not accept a property.
        """
        if self._pid != os.getpid():
            # The parent's clients are left alone: closing them here would hang on its threads.
            self._clients, self._pid = {}, os.getpid()
        if profile not in self._clients:
            self._clients[profile] = Client(self._config, profile)
        return self._clients[profile]

    def drop(self, profile: str) -> None:
        """Close a client that cannot be trusted any more; the next one is new."""
        client = self._clients.pop(profile, None)
        if client is not None:
            client.consumer.close()

    def close(self) -> None:
        """Close all."""
        for profile in list(self._clients):
            self.drop(profile)
