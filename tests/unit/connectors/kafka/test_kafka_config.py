"""What users may say to Kafka's client, and what is shown of it."""

import pytest

from headrace.connectors.kafka import client_config, producer_config
from headrace.connectors.kafka.config import (
    consumer_config,
    once_config,
    sink_config,
    transaction_config,
)
from headrace.errors import ConfigError

HERE = {"bootstrap.servers": "broker:9092"}


def test_a_prefix_as_spark_has_it_is_taken_off():
    assert client_config({"kafka.bootstrap.servers": "broker:9092"}) == HERE


@pytest.mark.parametrize(
    ("java", "ours"),
    [
        ({"sasl.mechanism": "PLAIN"}, {"sasl.mechanisms": "PLAIN"}),
        ({"ssl.truststore.location": "/ca.pem"}, {"ssl.ca.location": "/ca.pem"}),
        ({"ssl.truststore.type": "PEM"}, {}),
        ({"security.protocol": "SASL_SSL"}, {"security.protocol": "SASL_SSL"}),
        ({"log.connection.close": False}, {"log.connection.close": "false"}),
    ],
)
def test_java_names_and_values_are_translated(java, ours):
    assert client_config(HERE | java) == HERE | ours


def test_translating_twice_changes_nothing():
    once = client_config(HERE | {"kafka.sasl.mechanism": "PLAIN"})
    assert client_config(once) == once


@pytest.mark.parametrize(
    ("name", "value", "advice"),
    [
        ("sasl.jaas.config", "org.apache...", "sasl.username"),
        ("ssl.keystore.location", "/keys.jks", "ssl.certificate.location"),
        ("ssl.truststore.location", "/trust.jks", "ssl.ca.location"),
        ("ssl.truststore.type", "JKS", "PEM"),
        ("group.id", "mine", "joins no group"),
        ("kafka.group.id", "mine", "joins no group"),
        ("auto.offset.reset", "latest", "starting_offsets"),
        ("value.deserializer", "String", "decode"),
        ("isolation.level", "read_uncommitted", "committed"),
        ("allow.auto.create.topics", "true", "its own topics"),
        ("transactional.id", "mine", "takes one"),
        ("delivery.timeout.ms", "0", "for ever"),
        ("message.timeout.ms", "0", "for ever"),
        ("delivery.report.only.error", "true", "acknowledgement"),
    ],
)
def test_what_cannot_be_had_is_refused_with_advice(name, value, advice):
    with pytest.raises(ConfigError, match=advice) as told:
        client_config(HERE | {name: value})
    assert name.removeprefix("kafka.") in str(told.value)


def test_a_refused_secret_is_not_repeated():
    with pytest.raises(ConfigError) as told:
        client_config(HERE | {"sasl.jaas.config": "password=hunter2"})
    assert "hunter2" not in str(told.value)


def test_without_a_server_it_is_said_what_to_give():
    with pytest.raises(ConfigError, match=r"bootstrap\.servers"):
        client_config({"security.protocol": "SSL"})


def test_a_producer_waits_for_all_replicas_whatever_the_user_says():
    assert producer_config(HERE | {"acks": "1"})["acks"] == "all"


def test_a_user_can_tune_fetching_but_not_what_the_reader_relies_on():
    made = consumer_config(HERE | {"fetch.wait.max.ms": 50}, {"fetch.message.max.bytes": "1"})
    assert made["fetch.wait.max.ms"] == "50"
    assert made["isolation.level"] == "read_committed"
    assert made["auto.offset.reset"] == "error"


@pytest.mark.parametrize("config", [producer_config(HERE), sink_config(client_config(HERE))])
def test_a_producer_brings_no_topic_back_that_was_deleted(config):
    assert config["allow.auto.create.topics"] == "false"


def test_a_batch_of_what_is_sent_once_is_small_unless_a_user_says_otherwise():
    assert once_config(client_config(HERE))["batch.size"] == "65536"
    for made in (sink_config, once_config, lambda given: transaction_config(given, "name")):
        assert made(client_config({**HERE, "batch.size": 2000}))["batch.size"] == "2000"
