"""How a client is made, and how a producer is given messages and waited for, whoever sends.

Rooms that talk to Kafka in passing, such as what starts a broker and what feeds the demo, have
their clients from here as well.

A producer tells the fate of a message when it is polled. When it breaks for good, it says so out of
whatever is called next, or breaks the call of a report, which shows as a ``SystemError`` of the
client's own. So whoever calls one expects ``BROKEN``, and sends by another from then on.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from headrace.connectors.kafka.config import producer_config
from headrace.connectors.kafka.faults import first_error
from headrace.errors import ConfigError

_Client = TypeVar("_Client", Producer, Consumer, AdminClient)
#: what a producer that is of no use any more may raise
BROKEN = (KafkaException, SystemError)
#: an end takes milliseconds where brokers answer
END_S = 1.0


class NotTaken(KafkaException):
    """This message cannot be sent; anything else that ``put`` raises is about no message."""


def opened(kind: type[_Client], settings: Mapping[str, object], **heard: Any) -> _Client:
    """A client; ``heard`` names who hears what it says of itself, such as ``error_cb``.

    Raises:
        ConfigError: librdkafka refuses the settings.
    """
    made: dict[str, Any] = {**settings, **heard}
    try:
        return kind(made)
    except KafkaException as exc:
        raise ConfigError(f"kafka: {first_error(exc).str()}") from exc


def end_clients(clients: list[Any], patience_s: float = END_S) -> bool:
    """End clients, and forget them; whether that was done in time.

    A client ends when nobody refers to it any more, and librdkafka then waits for what brokers have
    not answered: up to a minute, and Python would do so as well when it ends. So a thread ends
    them, and is left behind where brokers hang; it ends with the process.

    Args:
        clients: nothing else may refer to them; empty afterwards.
        patience_s: how long to wait.
    """
    thread = threading.Thread(target=_end, args=(clients,), name="headrace-clients", daemon=True)
    thread.start()
    thread.join(patience_s)
    return not thread.is_alive()


def _end(clients: list[Any]) -> None:
    while clients:
        client = clients.pop()
        if isinstance(client, Consumer):
            with suppress(*BROKEN):
                client.close()
        del client


def make_producer(config: Mapping[str, str], **more: object) -> Producer:
    """A producer that loses and doubles nothing by its own retries.

    Args:
        config: client properties of users.
        more: properties of this producer, with ``_`` for ``.``.
    """
    own = {name.replace("_", "."): value for name, value in more.items()}
    return opened(Producer, {**producer_config(config), **own})


def put(producer: Producer, give_up: Callable[[], bool], *message: Any, **more: Any) -> bool:
    """Queue a message once there is room, unless ``give_up`` says after a try that it was the last.

    Raises:
        NotTaken: it cannot be sent.
    """
    while True:
        try:
            producer.produce(*message, **more)
        except BufferError:
            if give_up():
                return False
            # Give the deliveries that fill the queue a moment, and their reports a turn.
            producer.poll(0.1)
        except KafkaException as exc:
            raise NotTaken(*exc.args) from exc
        else:
            producer.poll(0)
            return True


def settled(producer: Producer, give_up_s: float = math.inf) -> bool:
    """Wait until every message is delivered or not; whether it was in time.

    Not ``flush``: on a producer that is shut out that ends in a ``SystemError``.
    """
    while len(producer):
        if time.monotonic() > give_up_s:
            return False
        producer.poll(0.1)
    return True


def told_ports(bootstrap_servers: str, timeout_s: float) -> frozenset[int]:
    """The ports at which the brokers tell their clients to come; none if nobody answers."""
    client = opened(AdminClient, {"bootstrap.servers": bootstrap_servers, "log_level": 0})
    try:
        found = client.list_topics(timeout=timeout_s)
    except KafkaException:
        return frozenset()
    return frozenset(broker.port for broker in found.brokers.values())
