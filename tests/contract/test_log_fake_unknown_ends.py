"""The fake keeps the laws of logs of which only reading tells where their lanes end."""

from dataclasses import replace

import pytest

from fake_topics import HiddenTopics
from headrace.ports import Connections
from headrace.testing.log_contract import SEAL_KEY
from headrace.testing.log_contract.rows import numbered, values
from headrace.testing.log_contract.unknown_ends import *  # noqa: F403 - the suite
from headrace.testing.log_contract.visiting import filled
from headrace.testing.log_fake import MemoryLog, MemoryReaderFactory, Row


@pytest.fixture
def topics():
    return HiddenTopics(MemoryLog())


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
    piece = filled(topics, log, [*numbered(3), Row(b"3", readable=False)])
    (batch,) = read(replace(piece, records=2))
    assert (values([batch]), batch.reached, batch.error) == ([b"0", b"1"], 2, None)
    *_, last = read(replace(piece, records=9))
    assert (last.records.num_rows, last.reached, last.error.offset) == (3, 3, 3)
