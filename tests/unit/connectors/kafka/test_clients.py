"""How messages are given to a producer, and what comes out of one that takes none."""

import time

import pytest
from confluent_kafka import KafkaError, KafkaException

from headrace.connectors.kafka.clients import NotTaken, make_producer, put, settled
from headrace.connectors.kafka.redrive_line import RedriveLine
from headrace.errors import ConfigError

#: nobody looks at these two together before a producer is made
CONTRADICTING = {"bootstrap.servers": "127.0.0.1:1", "max.in.flight": "99"}


class Full:
    """A producer that has room after so many polls, or breaks at one."""

    def __init__(self, polls=0, refused=None, breaks=None):
        self.polls, self.refused, self.breaks = polls, refused, breaks
        self.messages = []

    def __len__(self):
        return self.polls

    def produce(self, *message):
        if self.polls:
            raise BufferError
        if self.refused:
            raise KafkaException(KafkaError(self.refused))
        self.messages.append(message)

    def poll(self, _timeout):
        self.polls = max(0, self.polls - 1)
        if self.breaks:
            raise self.breaks


def test_a_message_waits_for_room():
    producer = Full(polls=3)
    assert put(producer, lambda: False, "t", b"a")
    assert producer.messages == [("t", b"a")]


def test_a_message_is_given_up_after_a_try_and_not_before():
    assert put(Full(), lambda: True, "t", b"a")
    producer = Full(polls=3)
    assert not put(producer, lambda: True, "t", b"a")
    assert (producer.polls, producer.messages) == (3, [])


def test_what_is_wrong_with_a_message_is_told_from_a_producer_that_broke():
    with pytest.raises(NotTaken) as raised:
        put(Full(refused=KafkaError._INVALID_ARG), lambda: False, "t", b"a")
    assert raised.value.args[0].code() == KafkaError._INVALID_ARG
    broke = KafkaException(KafkaError(KafkaError._FATAL))
    for producer in (Full(breaks=broke), Full(polls=1, breaks=broke)):
        with pytest.raises(KafkaException) as raised:
            put(producer, lambda: False, "t", b"a")
        assert raised.value is broke


def test_all_messages_are_waited_for_but_not_for_ever():
    assert settled(Full(polls=3))
    assert not settled(Full(polls=3), give_up_s=time.monotonic() - 1)


def test_settings_that_contradict_each_other_are_the_fault_of_the_settings():
    with pytest.raises(ConfigError, match=r"max\.in\.flight"):
        make_producer(CONTRADICTING)
    with pytest.raises(ConfigError, match=r"max\.in\.flight"):
        RedriveLine(CONTRADICTING, "pages", "t").take_over()
