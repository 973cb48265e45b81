"""The fake keeps the laws of dead letters."""

import itertools

import pytest

from headrace.errors import BrokerUnavailable
from headrace.ports import Connections
from headrace.testing.dead_letters_contract import DeadLettersContract, letter
from headrace.testing.dead_letters_fake import MemoryDeadLetters


class TestMemoryDeadLetters(DeadLettersContract):
    def setup_method(self):
        self.fake = MemoryDeadLetters()
        self._numbers = itertools.count()

    def new_topic(self):
        return f"topic-{next(self._numbers)}"

    def factory(self):
        return self.fake

    def connections(self):
        return Connections(kafka={}, database_url="")

    def unreachable(self):
        self.fake.fail_next(BrokerUnavailable("the fake plays a cluster that is down"))
        return self.fake

    def kept(self, topic):
        return [kept for kept in self.fake.letters if kept.slice.topic == topic]

    def test_an_accident_may_come_after_some_letters_and_comes_once(self):
        self.fake.fail_next(BrokerUnavailable("gone"), keeps=1)
        pair = [letter("t", 1), letter("t", 2)]
        with pytest.raises(BrokerUnavailable):
            self.fake.keep(pair)
        assert self.offsets("t") == [1]
        self.fake.keep(pair)
        assert self.offsets("t") == [1, 1, 2]
