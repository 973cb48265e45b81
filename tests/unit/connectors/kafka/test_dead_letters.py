"""When a letter counts as kept, without a broker."""

from dataclasses import replace
from types import SimpleNamespace
from zlib import crc32

import pytest
from confluent_kafka import KafkaError, KafkaException

from headrace.connectors.kafka import dead_letters
from headrace.connectors.kafka.dead_letter_topics import DeadLetterTopic
from headrace.connectors.kafka.dead_letters import KafkaDeadLetters
from headrace.errors import BrokerUnavailable, ConfigError
from headrace.testing.dead_letters_contract import letter

CONFIG = {"bootstrap.servers": "broker:9092", "sasl.password": "hunter2"}


class Answering:
    """A producer whose broker answers every message with the same, or not at all."""

    made = 0
    produced = ()

    def __init__(self, answer, silent=False, offset=0):
        Answering.made += 1
        self._offset = offset
        self._answer, self._silent, self._calls = answer, silent, []

    def produce(self, *args, on_delivery, **kwargs):
        Answering.produced.append(args)
        self._calls.append(on_delivery)

    def poll(self, timeout):
        pass

    def flush(self, timeout):
        if isinstance(self._answer, Exception):
            raise self._answer
        if self._silent:
            return len(self._calls)
        while self._calls:
            error = self._answer and KafkaError(self._answer)
            self._calls.pop(0)(error, SimpleNamespace(offset=lambda: self._offset))
        return 0

    def purge(self):
        self._calls.clear()


@pytest.fixture
def answered(monkeypatch):
    """Dead letters whose producer answers as told."""
    Answering.made, Answering.produced = 0, []

    def make(answer, **how):
        monkeypatch.setattr(dead_letters, "Producer", lambda _: Answering(answer, **how))
        monkeypatch.setattr(
            dead_letters,
            "prepared",
            lambda config, needed, timeout_s: {name: DeadLetterTopic(3, 10**6) for name in needed},
        )
        return KafkaDeadLetters(CONFIG, deadline_s=0.1 if how.get("silent") else 60.0)

    return make


@pytest.mark.parametrize(
    ("code", "kind", "advice"),
    [
        (KafkaError.MSG_SIZE_TOO_LARGE, ConfigError, "raise max.message.bytes of t.dlq"),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, ConfigError, "grant Write"),
        (KafkaError.INVALID_RECORD, ConfigError, "cleanup.policy=delete"),
        (KafkaError.SASL_AUTHENTICATION_FAILED, ConfigError, "check security.protocol"),
        (KafkaError._MSG_TIMED_OUT, BrokerUnavailable, "did not take record t[0] offset 7"),
        (KafkaError.NOT_ENOUGH_REPLICAS, BrokerUnavailable, "did not take"),
        (KafkaError._FATAL, BrokerUnavailable, "did not take"),
    ],
)
def test_a_letter_that_is_refused_is_told_with_what_to_do(answered, code, kind, advice):
    letters = answered(code)
    with pytest.raises(kind) as raised:
        letters.keep([letter("t", 7)])
    assert advice in str(raised.value)
    assert "hunter2" not in str(raised.value)


def test_letters_of_a_lane_without_a_number_are_kept_in_one_partition(answered):
    letters = answered(None)
    made = letter("t", 7)
    lane = made.slice.lane._replace(name="shardId-000000000003")
    strange = replace(made, slice=replace(made.slice, lane=lane))
    letters.keep([strange, replace(strange, error=replace(made.error, offset=8))])
    assert [call[3] for call in Answering.produced] == [crc32(lane.name.encode()) % 3] * 2


def test_a_letter_that_no_broker_answered_for_is_not_kept(answered):
    letters = answered(None, offset=None)
    with pytest.raises(BrokerUnavailable, match="may be stored or not"):
        letters.keep([letter("t", 1)])


def test_letters_not_acknowledged_in_time_are_not_kept(answered):
    letters = answered(None, silent=True)
    with pytest.raises(BrokerUnavailable, match="2 dead letters were not acknowledged"):
        letters.keep([letter("t", 1), letter("t", 2)])


def test_after_a_failure_the_producer_is_a_new_one(answered):
    letters = answered(KafkaError._FATAL)
    for _ in range(2):
        with pytest.raises(BrokerUnavailable):
            letters.keep([letter("t", 1)])
    assert Answering.made == 2


def test_what_a_try_that_failed_brought_is_not_taken_for_kept(answered):
    letters = answered(KafkaError._MSG_TIMED_OUT)
    for _ in range(2):
        with pytest.raises(BrokerUnavailable):
            letters.keep([letter("t", 1), letter("t", 2)])
    assert not letters._kept


def test_of_the_letters_kept_the_last_are_remembered(answered, monkeypatch):
    monkeypatch.setattr(dead_letters, "_REMEMBERED", 3)
    letters = answered(None)
    letters.keep([letter("t", offset) for offset in range(5)])
    assert [name[3] for name in letters._kept] == [2, 3, 4]


def test_a_producer_is_made_at_the_first_letter_and_kept(answered):
    letters = answered(None)
    letters.keep([])
    assert Answering.made == 0
    letters.keep([letter("t", 1)])
    letters.keep([letter("u", 1)])
    assert Answering.made == 1


def test_a_letter_that_names_no_record_is_our_own_mistake(answered):
    named = letter("t", 7)
    unnamed = replace(named, error=replace(named.error, offset=None))
    with pytest.raises(AssertionError, match="names its record"):
        answered(None).keep([unnamed])


def test_no_secret_is_shown():
    assert "hunter2" not in repr(KafkaDeadLetters(CONFIG))


@pytest.mark.parametrize(
    "broken",
    [KafkaException(KafkaError(KafkaError._FATAL)), SystemError("a result with an exception set")],
)
def test_a_client_that_broke_is_trouble_that_passes_and_is_made_anew(answered, broken):
    letters = answered(broken)
    for made in (1, 2):
        with pytest.raises(BrokerUnavailable, match="broke"):
            letters.keep([letter("orders", 1)])
        assert Answering.made == made
