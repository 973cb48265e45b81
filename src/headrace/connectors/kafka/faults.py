"""Kafka's errors in Headrace's words.

librdkafka has hundreds of error codes, and the loop understands two branches: try again, or stop
this stream and tell somebody. This is the table between them, and the only one. It says nothing
about retries inside the client, which librdkafka does by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from enum import Enum
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
    code_of,
    text_of,
)
from headrace.model.places import place_at
from headrace.model.receipts import SliceError


class ErrorKind(Enum):
    """What an error is about: every code that we know is in one row, any other passes.

    Who meets an error decides by its row and has words of his own for it. A code that is judged
    differently by some has a row of its own, which says why.
    """

    #: the brokers do not accept who we are
    CREDENTIALS = (
        KafkaError._AUTHENTICATION,
        KafkaError._SSL,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.UNSUPPORTED_SASL_MECHANISM,
        KafkaError.ILLEGAL_SASL_STATE,
    )
    TOPIC_DENIED = (KafkaError.TOPIC_AUTHORIZATION_FAILED,)
    #: nobody needs it to read
    CLUSTER_DENIED = (KafkaError.CLUSTER_AUTHORIZATION_FAILED,)
    GROUP_DENIED = (KafkaError.GROUP_AUTHORIZATION_FAILED,)
    TRANSACTION_DENIED = (KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,)
    #: only a sink's users choose how long a transaction may take
    TRANSACTION_TOO_LONG = (KafkaError.INVALID_TRANSACTION_TIMEOUT,)
    #: a broker's word for a topic or a partition; where only brokers are asked, no other counts
    MISSING = (KafkaError.UNKNOWN_TOPIC_OR_PART,)
    #: the client's own words; a partition that it does not find says nothing of the topic
    NO_TOPIC = (KafkaError._UNKNOWN_TOPIC,)
    NO_PARTITION = (KafkaError._UNKNOWN_PARTITION,)
    #: no topic can have this name; who looks for a topic before he sends does not meet it
    BAD_NAME = (KafkaError.TOPIC_EXCEPTION,)
    OUT_OF_RANGE = (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE)
    TOO_LARGE = (KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE)
    #: Kafka calls it INVALID_FETCH_SIZE and says it of no record; who may try again does
    BAD_SIZE = (KafkaError.INVALID_MSG_SIZE,)
    REFUSED = (KafkaError.INVALID_RECORD, KafkaError.INVALID_MSG, KafkaError.POLICY_VIOLATION)
    #: the client itself takes no such call; all that a reader's client refuses for good
    BAD_CALL = (KafkaError._INVALID_ARG,)
    #: a letter has the time of its record; what else is sent has that of sending, which passes
    BAD_TIME = (KafkaError.INVALID_TIMESTAMP,)
    #: somebody else has the transactional id
    FENCED = (KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH)
    #: the group has members
    IN_USE = (
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.NON_EMPTY_GROUP,
        KafkaError.REBALANCE_IN_PROGRESS,
    )
    EXISTS = (KafkaError.TOPIC_ALREADY_EXISTS,)
    #: of a topic that is there: it has so many already; of one to be made: it cannot have so many
    BAD_PARTITIONS = (KafkaError.INVALID_PARTITIONS,)
    #: nobody answered, as opposed to an answer that says no
    UNREACHABLE = (
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._TIMED_OUT,
        KafkaError._RESOLVE,
        KafkaError._TIMED_OUT_QUEUE,
    )
    #: given up because of something else
    PURGED = (KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT)
    #: the client is of no use any more; another error says why
    BROKEN = (KafkaError._FATAL,)
    #: no error: the end of a partition
    END = (KafkaError._PARTITION_EOF,)
    #: all other codes
    PASSES = ()


_FAULTS = {code: fault for fault in ErrorKind for code in fault.value}
#: a right is missing that every producer needs
DENIED = frozenset({ErrorKind.TOPIC_DENIED, ErrorKind.CLUSTER_DENIED})
NOT_THERE = frozenset({ErrorKind.MISSING, ErrorKind.NO_TOPIC, ErrorKind.NO_PARTITION})


def kind_of(error: KafkaError) -> ErrorKind:
    """The row of an error's code."""
    return _FAULTS.get(error.code(), ErrorKind.PASSES)


def delivery_error(error: KafkaError | None, message: Any) -> KafkaError | None:
    """Why a message that a producer tells of may not be stored; None if it is.

    A message without an offset was never answered for: the client counts it as delivered because
    the broker took a later one of its partition ("implicitly acked"), or calls it a repetition. The
    client believes that a broker takes nothing out of turn. But one that knows nothing of the
    producer yet, as for a topic that was made a moment ago, takes any first message. If the first
    is refused because the leader is not ready, and the second, sent meanwhile, is taken, the first
    is nowhere. A broker that was killed can leave the same report of a message that it has.
    Nobody can tell the two apart, but who knows that the broker had an earlier message of the same
    producer and partition: then it has this one.
    """
    if error is None and message.offset() is None:
        return KafkaError(KafkaError._STATE, "no broker answered for it; it may be stored or not")
    return error


def of_client(error: KafkaError, config: Mapping[str, object]) -> HeadraceError:
    """The error of a whole client: no broker, or a broker that does not accept us."""
    fault = kind_of(error)
    if fault is ErrorKind.CREDENTIALS:
        return ConfigError(
            f"Kafka at {servers(config)} refuses our credentials; check security.protocol, "
            f"sasl.* and ssl.*: {error.str()}"
        )
    if fault in DENIED:
        return ConfigError(f"Kafka at {servers(config)} does not allow this: {error.str()}")
    if fault is ErrorKind.UNREACHABLE:
        return BrokerUnavailable(f"no Kafka broker answers at {servers(config)}: {error.str()}")
    return Temporary(f"Kafka at {servers(config)}: {error.str()}")


def of_partition(error: KafkaError, name: str, config: Mapping[str, object]) -> HeadraceError:
    """The error of one partition or topic; ``name`` says which to people."""
    fault = kind_of(error)
    if fault in NOT_THERE or fault is ErrorKind.BAD_NAME:
        return TopicMissing(f"{name} is not there; create the topic or remove the stream")
    if fault is ErrorKind.OUT_OF_RANGE:
        return OffsetOutOfRange(f"{name}: {error.str()}")
    if fault is ErrorKind.TOPIC_DENIED:
        return ConfigError(f"{name}: we may not read it; grant Read and Describe on the topic")
    if fault in (ErrorKind.CREDENTIALS, ErrorKind.UNREACHABLE):
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
        code=code_of(error),
        message=text_of(error),
        retry_after_s=wait_s,
    )
    if isinstance(error, RecordUnreadable):
        return replace(
            told,
            offset=None if error.offset is None else place_at(error.offset),
            raw_key=error.key,
            raw_value=error.value,
            timestamp_ms=error.timestamp_ms,
        )
    return told
