"""Kinesis keeps the laws of logs of which only reading tells where their lanes end: on its fake."""

from contextlib import closing

import pytest

from headrace.ports import Connections
from headrace.testing.log_contract import SEAL_KEY
from headrace.testing.log_contract.unknown_ends import *  # noqa: F403 - the suite
from kinesis_topics import KinesisTopics


@pytest.fixture
def topics():
    return KinesisTopics(throttles=False)  # the suite reads as fast as it can


@pytest.fixture
def log(topics):
    with closing(topics.log()) as opened:
        yield opened


@pytest.fixture
def reader_factory(topics):
    return topics.readers()


@pytest.fixture
def connections():
    return Connections(kafka={}, database_url="", seal_key=SEAL_KEY)
