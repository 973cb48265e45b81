"""The fake keeps the laws of a log and of a reader."""

import itertools

import pytest

from headrace.ports import Connections
from headrace.testing.log_contract import *  # noqa: F403 - the suites
from headrace.testing.log_contract import SEAL_KEY
from headrace.testing.log_fake import MemoryLog, MemoryReaderFactory


class FakeTopics:
    """How the suites write to a fake."""

    def __init__(self):
        self.log = MemoryLog()
        self._numbers = itertools.count()

    def make(self, partitions=1):
        name = f"topic-{next(self._numbers)}"
        self.log.create_topic(name, partitions)
        return name

    def write(self, topic, partition, rows):
        self.log.append(topic, partition, rows)

    def abort(self, topic, partition, records):
        self.log.append_gap(topic, partition, records + 1)

    def expire(self, topic, partition, start):
        self.log.expire(topic, partition, start)

    def delete(self, name):
        self.log.delete_topic(name)


@pytest.fixture
def topics():
    return FakeTopics()


@pytest.fixture
def log(topics):
    return topics.log


@pytest.fixture
def reader_factory(topics):
    return MemoryReaderFactory(topics.log)


@pytest.fixture
def connections():
    return Connections(kafka={}, database_url="", seal_key=SEAL_KEY)
