"""The consumers of one worker process, kept warm.

Connecting, and learning where a thousand partitions live, costs more than reading a small slice. So
consumers live as long as the process, one for each size of slice: what is fetched past the end of a
slice is decoded and thrown away, so small slices want small fetches, and large ones are slow with
them.

Nothing here reads. And a consumer must not outlive a fork: its threads do not, and to destroy it in
the child means to wait for them, for ever where a new thread took the place of one. So a child
makes its own, and what it inherited is kept, untouched, until the process ends.
"""

from __future__ import annotations

import os
import uuid
import weakref
from collections.abc import Callable, Mapping

from confluent_kafka import Consumer, KafkaError, KafkaException

from headrace.connectors.kafka.clients import end_clients, opened
from headrace.connectors.kafka.config import consumer_config
from headrace.connectors.kafka.faults import ErrorKind, first_error, kind_of

#: How much is fetched ahead: as much as one answer of a broker has. By its own limits the client
#: fetches on until it holds so many messages, or 64 MiB of values, and counts neither keys nor
#: headers (2.16, ``rd_kafka_op_new_fetch_msg``): of large ones it would hold all that wait, within
#: slices and beyond. So it fetches when it holds nothing. Only for "huge" that would be felt where
#: cores are busy; a planner makes such slices of records alone that were small so far. Figures from
#: ``benchmarks/reader.py``; "middle" is for slices as in ``decoded_drain``, where with large
#: fetches every second message was one past its slice.
PROFILES: Mapping[str, Mapping[str, str]] = {
    "small": {"fetch.message.max.bytes": "16384", "queued.min.messages": "1"},
    "middle": {"fetch.message.max.bytes": "131072", "queued.min.messages": "1"},
    "large": {"fetch.message.max.bytes": "1048576", "queued.min.messages": "1"},
    "huge": {"fetch.message.max.bytes": "1048576", "queued.min.messages": "20000"},
}

_made: weakref.WeakSet[Client] = weakref.WeakSet()
_inherited: list[Client] = []


class Client:
    """A consumer that belongs to no group, and what it complained of."""

    def __init__(self, config: Mapping[str, str], profile: str) -> None:
        # The callback holds this list and not the client, or only the garbage collector could end
        # the client, at a time of its own choosing.
        self._refusals: list[KafkaError] = []
        self._known: set[str] = set()
        settings = {
            **consumer_config(config, PROFILES[profile]),
            # librdkafka wants a group's name even where no group is joined.
            "group.id": f"headrace-reader-{uuid.uuid4().hex}",
        }
        # The only reference to it, for whoever gives it up.
        self._consumers = [opened(Consumer, settings, error_cb=_listener(self._refusals))]
        _made.add(self)

    @property
    def refusal(self) -> KafkaError | None:
        """Why the brokers do not accept who we are, if so."""
        return self._refusals[-1] if self._refusals else None

    def close(self) -> None:
        """End the consumer, beside the caller where brokers hang; nothing is called after it."""
        end_clients(self._consumers)

    @property
    def consumer(self) -> Consumer:
        """The consumer itself; there is none after ``close``."""
        return self._consumers[0]

    def accepted(self) -> None:
        """A broker has answered: what it complained of is over, such as a token that was late."""
        self._refusals.clear()

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
        self._forget_the_parents()
        if profile not in self._clients:
            self._clients[profile] = Client(self._config, profile)
        return self._clients[profile]

    def drop(self, profile: str) -> None:
        """Close a client that cannot be trusted any more; the next one is new."""
        self._forget_the_parents()
        client = self._clients.pop(profile, None)
        if client is not None:
            client.close()

    def close(self) -> None:
        """Close all."""
        for profile in list(self._clients):
            self.drop(profile)

    def _forget_the_parents(self) -> None:
        if self._pid != os.getpid():
            self._clients, self._pid = {}, os.getpid()


def _listener(refusals: list[KafkaError]) -> Callable[[KafkaError], None]:
    def hear(error: KafkaError) -> None:
        if kind_of(error) is ErrorKind.CREDENTIALS:
            refusals[:] = [error]

    return hear


def _keep_inherited() -> None:
    _inherited.extend(_made)
    _made.clear()


os.register_at_fork(after_in_child=_keep_inherited)
