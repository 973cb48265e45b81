"""The fake keeps the laws of a log and of a reader."""

import pytest

from fake_topics import FakeTopics
from headrace.ports import Connections
from headrace.testing.log_contract import *  # noqa: F403 - the suites
from headrace.testing.log_contract import SEAL_KEY
from headrace.testing.log_fake import MemoryLog, MemoryReaderFactory


@pytest.fixture
def topics():
    return FakeTopics(MemoryLog())


@pytest.fixture
def log(topics):
    return topics.log


@pytest.fixture
def reader_factory(topics):
    return MemoryReaderFactory(topics.log)


@pytest.fixture
def connections():
    return Connections(kafka={}, database_url="", seal_key=SEAL_KEY)
