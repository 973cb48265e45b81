"""Kafka's errors in Headrace's words."""

import pytest
from confluent_kafka import KafkaError, KafkaException

from headrace.connectors.kafka.faults import first_error, of_client, of_partition, slice_error

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
