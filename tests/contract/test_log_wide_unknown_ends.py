"""The fake with wide places keeps the laws of logs whose ends only reading tells."""

import pytest

from fake_topics import HiddenTopics
from headrace.ports import Connections
from headrace.testing.log_contract import SEAL_KEY
from headrace.testing.log_contract.unknown_ends import *  # noqa: F403 - the suite
from headrace.testing.wide_log import WideLog, WideReaderFactory


@pytest.fixture
def topics():
    return HiddenTopics(WideLog())


@pytest.fixture
def log(topics):
    return topics.log


@pytest.fixture
def reader_factory(topics):
    return WideReaderFactory(topics.log)


@pytest.fixture
def connections():
    return Connections(kafka={}, database_url="", seal_key=SEAL_KEY)
