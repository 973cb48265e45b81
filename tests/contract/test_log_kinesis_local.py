"""Kinesis keeps the laws of logs of which only reading tells where their lanes end: on a server."""

from contextlib import closing
from dataclasses import dataclass

import pytest

from headrace.connectors.kinesis import KinesisLog
from headrace.connectors.kinesis.clients import KinesisClients
from headrace.connectors.kinesis.reader import KinesisReaderFactory
from headrace.ports import Connections
from headrace.testing.log_contract import SEAL_KEY
from headrace.testing.log_contract.unknown_ends import *  # noqa: F403 - the suite
from kinesis_topics import WrittenTo


@dataclass
class RealTopics(WrittenTo):
    """Streams of a server, which keeps what it has: a test that lets records expire is skipped."""

    def leave_gap(self, topic, lane):
        """It has no empty answers before the end."""

    def expire(self, topic, lane, records):
        pytest.skip("this server keeps all records")


@pytest.fixture
def topics(kinesis):
    return RealTopics(kinesis.service())


@pytest.fixture
def log(connections):
    with closing(KinesisLog(KinesisClients("kinesis")(connections))) as opened:
        yield opened


@pytest.fixture
def reader_factory():
    return KinesisReaderFactory(KinesisClients("kinesis"))


@pytest.fixture
def connections(kinesis):
    return Connections({}, "", seal_key=SEAL_KEY, servers={"kinesis": kinesis.server})
