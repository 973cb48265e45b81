"""Kafka's errors in Headrace's words."""

from contextlib import closing

import pytest
from confluent_kafka import KafkaError, KafkaException

from headrace.connectors.kafka import sink_messages
from headrace.connectors.kafka.dead_letters import KafkaDeadLetters
from headrace.connectors.kafka.faults import (
    delivery_error,
    first_error,
    of_client,
    of_partition,
    slice_error,
)
from headrace.connectors.kafka.group_mirror import GroupMirror
from headrace.connectors.kafka.ingest import Ingest
from headrace.connectors.kafka.redrive_line import RedriveLine
from headrace.connectors.kafka.seals import Message as SentBack
from headrace.connectors.kafka.sink_transaction_line import as_error
from headrace.errors import HeadraceError, Temporary
from headrace.testing.dead_letters_contract import letter

CONFIG = {"bootstrap.servers": "broker:9092", "sasl.password": "hunter2"}


@pytest.mark.parametrize(
    ("code", "name", "temporary"),
    [
        (KafkaError.UNKNOWN_TOPIC_OR_PART, "TopicMissing", False),
        (KafkaError._UNKNOWN_PARTITION, "TopicMissing", False),
        (KafkaError.OFFSET_OUT_OF_RANGE, "OffsetOutOfRange", False),
        (KafkaError._AUTO_OFFSET_RESET, "OffsetOutOfRange", False),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, "ConfigError", False),
        (KafkaError._AUTHENTICATION, "ConfigError", False),
        (KafkaError.LEADER_NOT_AVAILABLE, "LeaderUnknown", True),
        (KafkaError.NOT_LEADER_FOR_PARTITION, "LeaderUnknown", True),
        (KafkaError._TRANSPORT, "BrokerUnavailable", True),
    ],
)
def test_each_error_of_a_partition_says_who_has_to_act(code, name, temporary):
    made = slice_error(of_partition(KafkaError(code), "acme.visits[0] 0..5", CONFIG))
    assert (made.code, made.temporary) == (name, temporary)


@pytest.mark.parametrize("code", [KafkaError._TRANSPORT, KafkaError._AUTHENTICATION])
def test_an_error_of_the_client_names_the_servers_and_no_secret(code):
    told = str(of_client(KafkaError(code), CONFIG))
    assert "broker:9092" in told
    assert "hunter2" not in told


def test_the_kafka_error_inside_an_exception_is_found():
    error = KafkaError(KafkaError._TRANSPORT)
    assert first_error(KafkaException(error)).code() == KafkaError._TRANSPORT
    assert first_error(ValueError("odd")).str() == "odd"


class Message:
    """What a producer tells of; of what no broker answered for it has no offset."""

    def __init__(self, offset):
        self._offset = offset

    def offset(self):
        return self._offset


def test_a_message_that_no_broker_answered_for_does_not_count_as_stored():
    assert delivery_error(None, Message(0)) is None
    assert "may be stored or not" in delivery_error(None, Message(None)).str()
    refused = KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)
    assert delivery_error(refused, Message(None)) is refused


class Believing:
    """A producer that counts everything as delivered, though no broker answered for it."""

    def __init__(self):
        self._told = []

    def produce(self, *_args, on_delivery, **_more):
        self._told.append(on_delivery)

    def begin_transaction(self):
        pass

    def __len__(self):
        return len(self._told)

    def poll(self, _timeout):
        while self._told:
            self._told.pop()(None, Message(None))

    def flush(self, timeout):
        self.poll(timeout)
        return 0

    def purge(self):
        pass

    def abort_transaction(self, _timeout):
        self.aborted = True


def test_nothing_is_sent_back_by_a_transaction_with_such_a_message():
    line = RedriveLine(CONFIG, "pages", "t")
    line._producer = producer = Believing()
    with pytest.raises(Temporary, match="may be stored or not"):
        line.send(0, [SentBack(b"x", None, ())], 1)
    assert producer.aborted


def redriven(error):
    with closing(RedriveLine(CONFIG, "pages", "t")) as line, pytest.raises(HeadraceError) as raised:
        line._fail(error)
    return raised.value


@pytest.fixture(scope="module")
def judges():
    """What becomes of an error, for each that judges it."""
    made = KafkaDeadLetters(CONFIG)
    ingest = Ingest({"bootstrap.servers": "b:1"}, delivery_timeout_s=1.0, most_bytes=1)
    return (
        lambda error: of_client(error, CONFIG),
        lambda error: of_partition(error, "t[0]", CONFIG),
        lambda error: made._translated(error, letter("t", 7)),
        lambda error: sink_messages.translated(error, "t"),
        lambda error: ingest._translated(error, "t"),
        redriven,
        as_error,
        lambda error: GroupMirror(CONFIG)._told(error, "headrace.pages"),
    )


#: of a client, partition, letter, message of a sink, event, redrive, transaction, group; of which
#: a dot is what becomes of all errors that are not here, of whatever code
OTHERS = (
    "Temporary LeaderUnknown BrokerUnavailable SinkUnavailable BrokerUnavailable Temporary "
    "OutcomeLost Temporary"
)
JUDGED = {
    "_AUTHENTICATION _SSL SASL_AUTHENTICATION_FAILED UNSUPPORTED_SASL_MECHANISM "
    "ILLEGAL_SASL_STATE": "ConfigError ConfigError ConfigError . . ConfigError . ConfigError",
    "TOPIC_AUTHORIZATION_FAILED": "ConfigError ConfigError ConfigError TargetMissing "
    "ConfigError ConfigError . ConfigError",
    "CLUSTER_AUTHORIZATION_FAILED": "ConfigError . ConfigError TargetMissing ConfigError "
    "ConfigError TargetMissing ConfigError",
    "GROUP_AUTHORIZATION_FAILED": ". . . . . ConfigError TargetMissing ConfigError",
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": ". . . . . ConfigError TargetMissing .",
    "INVALID_TRANSACTION_TIMEOUT": ". . . . . . TargetMissing .",
    "UNKNOWN_TOPIC_OR_PART _UNKNOWN_TOPIC _UNKNOWN_PARTITION": ". TopicMissing . . TopicMissing "
    "TopicMissing . .",
    "TOPIC_EXCEPTION": ". TopicMissing . SinkRefused . . . .",
    "OFFSET_OUT_OF_RANGE _AUTO_OFFSET_RESET": ". OffsetOutOfRange . . . . . .",
    "MSG_SIZE_TOO_LARGE RECORD_LIST_TOO_LARGE": ". . ConfigError SinkRefused SinkRefused "
    "ConfigError . .",
    "INVALID_MSG_SIZE": ". . ConfigError . SinkRefused . . .",
    "INVALID_RECORD INVALID_MSG POLICY_VIOLATION _INVALID_ARG": ". . ConfigError SinkRefused "
    "SinkRefused . . .",
    "INVALID_TIMESTAMP": ". . ConfigError . . . . .",
    "_FENCED PRODUCER_FENCED INVALID_PRODUCER_EPOCH": ". . . . . Fenced . .",
    "_TRANSPORT _ALL_BROKERS_DOWN _TIMED_OUT _TIMED_OUT_QUEUE _RESOLVE": "BrokerUnavailable "
    "BrokerUnavailable . . . BrokerUnavailable . BrokerUnavailable",
    "UNKNOWN_MEMBER_ID ILLEGAL_GENERATION NON_EMPTY_GROUP REBALANCE_IN_PROGRESS": ". . . . . . . "
    "ConfigError",
}


def judgements(judges, code):
    return [type(judge(KafkaError(code))).__name__ for judge in judges]


@pytest.mark.parametrize("names", JUDGED)
def test_each_code_is_judged_by_everybody_who_meets_it(judges, names):
    wanted = [
        other if own == "." else own
        for own, other in zip(JUDGED[names].split(), OTHERS.split(), strict=True)
    ]
    for name in names.split():
        assert judgements(judges, getattr(KafkaError, name)) == wanted, name


def test_any_other_code_is_trouble_that_passes(judges):
    known = {name for names in JUDGED for name in names.split()}
    others = {name for name in dir(KafkaError) if name.isupper()} - known
    assert len(others) > 100
    for name in others:
        assert judgements(judges, getattr(KafkaError, name)) == OTHERS.split(), name
