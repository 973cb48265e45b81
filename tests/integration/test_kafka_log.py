"""What a real cluster answers to thousands of questions, and when it is away."""

import re
import time

import pytest

from headrace.connectors.kafka import KafkaLog, create_topics
from headrace.connectors.kafka.topics import unmakable_topics
from headrace.errors import BrokerUnavailable, ConfigError
from headrace.model.lane_names import named
from headrace.testing.kafka_topics import until
from headrace.testing.log_contract.rows import numbered

pytestmark = pytest.mark.kafka
NOWHERE = {"bootstrap.servers": "127.0.0.1:1"}


def test_one_call_answers_for_a_thousand_lanes(topics):
    name = topics.make(partitions=1000)
    topics.write(name, 999, numbered(3))
    lanes = [named(name, partition) for partition in range(1000)]
    log = KafkaLog(topics.config)
    ends = log.end_offsets(lanes)
    assert len(ends) == 1000
    assert ends[lanes[999]] == 3
    assert len(log.topics([name])[name].lanes) == 1000


def test_a_topic_that_goes_away_takes_no_answer_from_the_others(topics):
    stays, goes = topics.make(), topics.make()
    lanes = [named(stays, 0), named(goes, 0)]
    log = KafkaLog(topics.config)
    assert len(log.end_offsets(lanes)) == 2
    topics.delete(goes)
    topics.write(stays, 0, numbered(3))
    assert log.end_offsets(lanes) == {lanes[0]: 3}
    topics.make_named(goes)
    topics.write(goes, 0, numbered(2))
    until(lambda: log.end_offsets(lanes) == {lanes[0]: 3, lanes[1]: 2})


@pytest.mark.parametrize("count", [1, 10])
def test_partitions_that_are_added_are_found_by_a_log_that_knew_there_were_none(topics, count):
    names = [topics.make() for _ in range(count)]
    first = [named(name, 0) for name in names]
    added = [named(name, 1) for name in names]
    log = KafkaLog(topics.config)
    assert log.end_offsets(first + added) == dict.fromkeys(first, 0)
    for name in names:
        topics.add_partitions(name, 2)
        topics.write(name, 1, numbered(3))
    ends = dict.fromkeys(first, 0) | dict.fromkeys(added, 3)
    until(lambda: log.end_offsets(first + added) == ends)
    log.close()


def test_a_topic_made_again_has_a_new_id(topics):
    name = topics.make()
    log = KafkaLog(topics.config)
    before = log.topics([name])[name].topic_id
    topics.delete(name)
    topics.make_named(name)
    assert log.topics([name])[name].topic_id != before


def test_the_end_is_held_back_by_an_open_transaction(topics):
    name = topics.make()
    topics.write(name, 0, numbered(2))
    producer = topics.transaction(name, 0, records=3)
    log, lane = KafkaLog(topics.config), named(name, 0)
    assert log.end_offsets([lane]) == {lane: 2}
    topics.commit(name, 0, producer)
    assert log.end_offsets([lane]) == {lane: 6}


def test_a_topic_that_spoils_a_whole_round_does_so_once(topics, monkeypatch):
    monkeypatch.setattr("headrace.connectors.kafka.log.TOPIC_NAME", re.compile(".*"))
    name = topics.make()
    lane, spoiler = named(name, 0), named("not a name!", 0)
    log = KafkaLog(topics.config, timeout_s=4.0)
    assert log.end_offsets([lane, spoiler]) == {lane: 0}
    began_s = time.monotonic()
    assert log.end_offsets([lane, spoiler]) == {lane: 0}
    assert time.monotonic() - began_s < 3.9


@pytest.mark.parametrize(
    "ask",
    [
        lambda log: log.topics(["a"]),
        lambda log: log.end_offsets([named("a", 0)]),
        lambda log: log.offsets_at([named("a", 0)], 1.0),
    ],
)
def test_no_broker_is_told_by_address_and_without_secrets(ask):
    log = KafkaLog({**NOWHERE, "sasl.password": "hunter2"}, timeout_s=0.5)
    with pytest.raises(BrokerUnavailable, match=r"127\.0\.0\.1:1") as told:
        ask(log)
    assert "hunter2" not in str(told.value) + repr(log)


def test_refused_credentials_are_a_configuration_error(topics):
    config = {
        **topics.config,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "acme",
        "sasl.password": "hunter2",
    }
    with pytest.raises(ConfigError, match="credentials") as told:
        KafkaLog(config, timeout_s=5.0).end_offsets([named("a", 0)])
    assert "hunter2" not in str(told.value)


def test_making_topics_again_changes_nothing(topics):
    name = topics.make(partitions=2)
    log = KafkaLog(topics.config)
    before = log.topics([name])
    assert create_topics(topics.config, {name: 2}) == set()
    assert log.topics([name]) == before


def test_a_topic_name_that_cannot_be_is_refused_by_name(topics):
    with pytest.raises(ConfigError, match="not a name!"):
        create_topics(topics.config, {"not a name!": 1})


def test_a_topic_that_cannot_be_made_keeps_no_other_from_being_made(topics):
    there = topics.make()
    new = f"{there}-new"
    asked = {"not a name!": 1, there: 1, new: 1}
    assert unmakable_topics(topics.config, asked, 10.0).keys() == {"not a name!"}
    assert unmakable_topics(topics.config, {new: 1}, 10.0) == {}
    log = KafkaLog(topics.config)
    until(lambda: new in log.topics([new]))
    log.close()
