"""Client properties: what users may say, and what each client is given.

Users paste properties from Java programs and from Spark options, while the client here is
librdkafka, which names some things differently and has no keystores of Java's own format. So
``client_config`` takes both dialects once, where they come in, and refuses in plain words what
cannot be translated, or what would break a promise: who sets a consumer group or an offset reset
expects something that Headrace decides. What is not known to be Java's is left to librdkafka to
judge. Secrets are not looked up here (``settings`` does).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from headrace.errors import ConfigError

#: Java's name -> librdkafka's
_RENAMED = {
    "sasl.mechanism": "sasl.mechanisms",
    "ssl.truststore.location": "ssl.ca.location",
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "metadata.max.age.ms": "topic.metadata.refresh.interval.ms",
    "delivery.timeout.ms": "message.timeout.ms",
    "request.timeout.ms": "socket.timeout.ms",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "send.buffer.bytes": "socket.send.buffer.bytes",
}
_STORES = ("ssl.truststore.type", "ssl.keystore.type")
_PEM_INSTEAD = "give PEM files instead: ssl.ca.location, ssl.certificate.location, ssl.key.location"
_REFUSED = {
    "group.id": "Headrace keeps positions in its own store and joins no group; leave it out",
    "group.instance.id": "Headrace joins no consumer group; leave it out",
    "auto.offset.reset": "say starting_offsets in the use case instead; a lost range is an error",
    "enable.auto.commit": "Headrace moves positions itself; leave it out",
    "enable.auto.offset.store": "Headrace moves positions itself; leave it out",
    "enable.partition.eof": "the slice reader needs it on; leave it out",
    "allow.auto.create.topics": "Headrace makes its own topics, with retention; leave it out",
    "transactional.id": "Headrace takes one where a sink needs it; leave it out",
    "delivery.report.only.error": "Headrace waits for every acknowledgement; leave it out",
    "isolation.level": "Headrace always reads committed records; leave it out",
    "key.deserializer": "handlers are given bytes; decode them in the handler",
    "value.deserializer": "handlers are given bytes; decode them in the handler",
    "key.serializer": "the Kafka sink writes bytes; encode them in the handler",
    "value.serializer": "the Kafka sink writes bytes; encode them in the handler",
    "sasl.jaas.config": "there is no JAAS here: give sasl.username and sasl.password",
    "sasl.login.callback.handler.class": "there is no JAAS here: see sasl.oauthbearer.method",
    "sasl.client.callback.handler.class": "there is no JAAS here: see sasl.oauthbearer.method",
    "ssl.keystore.location": _PEM_INSTEAD,
    "ssl.keystore.password": f"{_PEM_INSTEAD}, and ssl.key.password",
    "ssl.truststore.password": "a PEM file of certificates needs no password; leave it out",
}
_JAVA_STORE = re.compile(r"\.(jks|p12|pfx|keystore|truststore)$", re.IGNORECASE)

#: librdkafka logs to stderr on its own; what matters reaches the user as an error of Headrace
_QUIET = {"log_level": "2", "reconnect.backoff.ms": "50", "reconnect.backoff.max.ms": "1000"}

#: what no user changes: nothing is lost or doubled by a producer's own retries, no topic is made
_SAFE = {"acks": "all", "enable.idempotence": "true", "allow.auto.create.topics": "false"}
#: a topic that vanished is waited for, and all that were sent with it wait too
_VANISHED = {"topic.metadata.propagation.max.ms": "2000"}
_SINK = {
    "linger.ms": "2",
    "compression.type": "lz4",
    # A message that cannot be delivered must be known of before the bin's time is long over.
    "message.timeout.ms": "30000",
    **_VANISHED,
    # A broker that is away would be told on stderr twice a second; what matters is an error here.
    "log_level": "2",
}
#: For what may not be sent twice. Brokers know by its number what an idempotent producer sends
#: again, but once they refuse a message of any topic it numbers all anew, and what they had already
#: is stored beside itself. This one sends nothing again that they may have, and no two batches at a
#: time, so that what they did not take is sent again in order.
_ONCE = {
    "enable.idempotence": "false",
    "message.send.max.retries": "0",
    "max.in.flight.requests.per.connection": "1",
}
#: Brokers refuse a batch as a whole, by the limit that its topic has for one message. What may be
#: sent again is sent in smaller parts then; here messages that fit would be lost with one that does
#: not, other tenants' among them. A larger message than this goes alone.
_ONCE_BATCH = "65536"
#: of the same properties: which one counts would depend on their order
_OTHER_NAMES = ("retries", "max.in.flight")
#: messages have to be through before Kafka ends the transaction by itself
_TRANSACTION_MS = 20_000
_MESSAGE_MS = 15_000
#: records that one client of events holds
QUEUE_RECORDS = 1_000_000
#: the longest time-out that the client takes, in seconds: weeks
_LONGEST_S = 2_147_483.0


def client_config(given: Mapping[str, object]) -> dict[str, str]:
    """Properties for librdkafka from what a user wrote; applying it twice changes nothing.

    Args:
        given: properties in librdkafka's or Java's names, with or without ``kafka.`` in front.

    Raises:
        ConfigError: a property cannot be had or must not be set, or no server is named.
    """
    config: dict[str, str] = {}
    for raw_name, raw_value in given.items():
        name = raw_name.removeprefix("kafka.")
        value = str(raw_value).lower() if isinstance(raw_value, bool) else str(raw_value)
        _check(name, value)
        if name not in _STORES:
            config[_RENAMED.get(name, name)] = value
    if not config.get("bootstrap.servers"):
        raise ConfigError("kafka: bootstrap.servers is missing; give host:port of a broker")
    return config


def producer_config(config: Mapping[str, object]) -> dict[str, str]:
    """For a producer that loses and doubles nothing by its own retries, and makes no topics.

    A topic that was deleted would come back with the broker's own retention, which takes old
    records, such as dead letters, away at once.
    """
    return {**_QUIET, **client_config(config), **_SAFE}


def letters_config(config: Mapping[str, object], timeout_s: float) -> dict[str, str]:
    """For a producer of dead letters, and of what is sent back from them.

    The broker alone judges how large a message may be: what it has taken once, it may take again.
    And a batch has to stay below the limit of any topic, since it is refused as a whole.
    """
    return {
        **producer_config(config),
        "linger.ms": "2",
        "compression.type": "zstd",
        "message.max.bytes": str(256 * 1024 * 1024),
        "batch.size": "16384",
        **_VANISHED,
        "message.timeout.ms": str(round(timeout_s * 1000)),
    }


def redrive_config(config: Mapping[str, object], timeout_s: float, name: str) -> dict[str, str]:
    """For a transactional producer of what is sent back; ``name`` is shared by who may not both."""
    return {
        **letters_config(config, timeout_s),
        "transactional.id": name,
        "transaction.timeout.ms": str(round(timeout_s * 1000)),
    }


def sink_config(properties: Mapping[str, str]) -> dict[str, str]:
    """For messages of a sink: the defaults, the user's, what may not change."""
    return {name: str(value) for name, value in {**_SINK, **properties, **_SAFE}.items()}


def once_config(properties: Mapping[str, str]) -> dict[str, str]:
    """For messages of a sink that may not be sent twice."""
    settings = sink_config({"batch.size": _ONCE_BATCH, **properties})
    return {name: said for name, said in settings.items() if name not in _OTHER_NAMES} | _ONCE


def transaction_config(properties: Mapping[str, str], name: str) -> dict[str, str]:
    """For messages of a sink in transactions; a user's time-out of messages lengthens all."""
    message_ms = int(properties.get("message.timeout.ms", _MESSAGE_MS))
    most_ms = max(_TRANSACTION_MS, message_ms + _TRANSACTION_MS - _MESSAGE_MS)
    ours = {"message.timeout.ms": str(message_ms), "transaction.timeout.ms": str(most_ms)}
    return {**sink_config({**ours, **properties}), "transactional.id": name}


def ingest_config(
    config: Mapping[str, object], timeout_s: float, most_bytes: int, *, patient: bool = False
) -> dict[str, str]:
    """For a producer that waits neither to fill a batch nor beyond ``timeout_s``.

    One that is ``patient`` gives no record up, and breaks rather than number records anew.
    """
    # A try ends when its sender is answered, however long the client goes on.
    try_s = min(max(1.0, timeout_s), 300.0)
    return {
        "partitioner": "murmur2_random",
        "linger.ms": "5",
        "compression.type": "lz4",
        "socket.timeout.ms": str(round(try_s * 1000)),
        **producer_config(config),
        "queue.buffering.max.messages": str(QUEUE_RECORDS),
        "queue.buffering.max.kbytes": str(queue_bytes(most_bytes) // 1024),
        "message.timeout.ms": str(round((_LONGEST_S if patient else timeout_s) * 1000)),
        **_VANISHED,
        **({"enable.gapless.guarantee": "true"} if patient else {}),
    }


def queue_bytes(most_bytes: int) -> int:
    """What a client's queue has to hold for so many bytes of records."""
    # What the client keeps of a record beside its bytes is not counted by us.
    return max(1 << 20, 2 * most_bytes)


def admin_config(config: Mapping[str, object]) -> dict[str, str]:
    """For asking about topics and offsets."""
    return {**_QUIET, **client_config(config)}


def consumer_config(config: Mapping[str, object], profile: Mapping[str, str]) -> dict[str, str]:
    """For reading assigned partitions, no group joined; ``profile`` sizes the fetches."""
    return {
        **_QUIET,
        # librdkafka waits this long, 1 s if not told, before it fetches again for a full queue:
        # every small slice would pay it.
        "fetch.queue.backoff.ms": "2",
        "fetch.wait.max.ms": "5",
        "fetch.error.backoff.ms": "5",
        # A handler may take long between two batches, and there is no group to be thrown out of.
        "max.poll.interval.ms": "86400000",
        **profile,
        **client_config(config),
        "enable.auto.commit": "false",
        "enable.auto.offset.store": "false",
        "enable.partition.eof": "true",
        "isolation.level": "read_committed",
        "auto.offset.reset": "error",
    }


def servers(config: Mapping[str, object]) -> str:
    """The brokers' addresses, to be named in a message."""
    return str(config.get("bootstrap.servers", "no server"))


def _check(name: str, value: str) -> None:
    problem = _REFUSED.get(name)
    if name in _STORES and value.upper() != "PEM":
        problem = f"type {value} cannot be read here; {_PEM_INSTEAD}"
    elif name == "ssl.truststore.location" and _JAVA_STORE.search(value):
        problem = f"{value} is a Java store; give a PEM file as ssl.ca.location"
    elif _RENAMED.get(name, name) == "message.timeout.ms" and value == "0":
        problem = "0 is to wait for ever, and others wait with it; give milliseconds"
    if problem:
        raise ConfigError(f"kafka: {name}: {problem}")
