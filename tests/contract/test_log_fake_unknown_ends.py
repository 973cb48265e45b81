"""The fake keeps the laws of logs of which only reading tells where their lanes end."""

import itertools
from dataclasses import replace

import pytest

from headrace.model.lane_names import number_of
from headrace.model.places import number_at
from headrace.ports import Connections
from headrace.testing.log_contract import SEAL_KEY
from headrace.testing.log_contract.rows import numbered, values
from headrace.testing.log_contract.unknown_ends import *  # noqa: F403 - the suite
from headrace.testing.log_contract.unknown_ends import beginning
from headrace.testing.log_fake import MemoryLog, MemoryReaderFactory, Row


class HiddenTopics:
    """How the suite writes to a fake."""

    def __init__(self):
        self.log = MemoryLog()
        self._numbers = itertools.count()

    def make(self):
        name = f"topic-{next(self._numbers)}"
        self.log.create_topic(name)
        self.log.hide_end(name, 0)
        return name

    def write(self, topic, lane, rows):
        self.log.append(topic, number_of(lane), rows)

    def expire(self, topic, lane, records):
        start = number_at(self.log.start_offsets([lane])[lane])
        self.log.expire(topic, number_of(lane), start + records)

    def split(self, topic, lane):
        self.log.split(topic, number_of(lane))


@pytest.fixture
def topics():
    return HiddenTopics()


@pytest.fixture
def log(topics):
    return topics.log


@pytest.fixture
def reader_factory(topics):
    return MemoryReaderFactory(topics.log)


@pytest.fixture
def connections():
    return Connections(kafka={}, database_url="", seal_key=SEAL_KEY)


def test_a_record_that_cannot_be_handed_out_ends_no_slice_that_does_not_come_to_it(
    topics, log, read
):
    topic = topics.make()
    piece = beginning(log, topic, records=2)
    topics.write(topic, piece.lane.name, [*numbered(3), Row(b"3", readable=False)])
    (batch,) = read(piece)
    assert (values([batch]), batch.reached, batch.error) == ([b"0", b"1"], 2, None)
    *_, last = read(replace(piece, records=9))
    assert (last.records.num_rows, last.reached, last.error.offset) == (3, 3, 3)
