"""Kafka's errors in Headrace's words.

librdkafka has hundreds of error codes, and the loop understands two branches: try again, or stop
this stream and tell somebody. This is the table between them. It says nothing about retries inside
the client, which librdkafka does by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from confluent_kafka import KafkaError

from headrace.connectors.kafka.config import servers
from headrace.errors import (
    BrokerUnavailable,
    ConfigError,
    HeadraceError,
    LeaderUnknown,
    OffsetOutOfRange,
    RecordUnreadable,
    Temporary,
    TopicMissing,
)
from headrace.model.receipts import SliceError

_AUTHENTICATION = frozenset(
    {
        KafkaError._AUTHENTICATION,
        KafkaError._SSL,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.UNSUPPORTED_SASL_MECHANISM,
        KafkaError.ILLEGAL_SASL_STATE,
    }
)
_AUTHORIZATION = frozenset(
    {KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED}
)
_MISSING = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError.TOPIC_EXCEPTION,
    }
)
_UNREACHABLE = frozenset(
    {
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._TIMED_OUT,
        KafkaError._RESOLVE,
        KafkaError._TIMED_OUT_QUEUE,
    }
)


def is_authentication(error: KafkaError) -> bool:
    """Whether the brokers do not accept who we are."""
    return error.code() in _AUTHENTICATION


def is_unreachable(error: KafkaError) -> bool:
    """Whether nobody answered, as opposed to an answer that says no."""
    return error.code() in _UNREACHABLE


def of_client(error: KafkaError, config: Mapping[str, object]) -> HeadraceError:
    """The error of a whole client: no broker, or a broker that does not accept us."""
    if is_authentication(error):
        return ConfigError(
            f"Kafka at {servers(config)} refuses our credentials; check security.protocol, "
            f"sasl.* and ssl.*: {error.str()}"
        )
    if error.code() in _AUTHORIZATION:
        return ConfigError(f"Kafka at {servers(config)} does not allow this: {error.str()}")
    if is_unreachable(error):
        return BrokerUnavailable(f"no Kafka broker answers at {servers(config)}: {error.str()}")
    return Temporary(f"Kafka at {servers(config)}: {error.str()}")


def of_partition(error: KafkaError, name: str, config: Mapping[str, object]) -> HeadraceError:
    """The error of one partition or topic; ``name`` says which to people."""
    code = error.code()
    if code in _MISSING:
        return TopicMissing(f"{name} is not there; create the topic or remove the stream")
    if code in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
        return OffsetOutOfRange(f"{name}: {error.str()}")
    if code == KafkaError.TOPIC_AUTHORIZATION_FAILED:
        return ConfigError(f"{name}: we may not read it; grant Read and Describe on the topic")
    if is_authentication(error) or is_unreachable(error):
        return of_client(error, config)
    return LeaderUnknown(f"{name} cannot be read at the moment: {error.str()}")


def first_error(exc: BaseException) -> KafkaError:
    """The Kafka error inside an exception of the client."""
    found: Any = exc.args[0] if exc.args else None
    if isinstance(found, KafkaError):
        return found
    return KafkaError(KafkaError._FAIL, str(exc))


def slice_error(error: HeadraceError) -> SliceError:
    """The error as it travels in a receipt."""
    wait_s = error.retry_after_s if isinstance(error, Temporary) else None
    told = SliceError(
        temporary=isinstance(error, Temporary),
        code=type(error).__name__,
        message=str(error),
        retry_after_s=wait_s,
    )
    if isinstance(error, RecordUnreadable):
        return replace(
            told,
            offset=error.offset,
            raw_key=error.key,
            raw_value=error.value,
            timestamp_ms=error.timestamp_ms,
        )
    return told
