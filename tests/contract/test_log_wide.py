"""The fake with wide places keeps the laws of a log and of a reader, which speak of offsets.

What it is asked is put into its places before, and its answers into offsets after.
"""

from dataclasses import dataclass, replace

import pyarrow as pa
import pytest

from fake_topics import FakeTopics
from headrace.model.places import number_at, read_place
from headrace.ports import Connections
from headrace.ports.reading import PLACE_COLUMN
from headrace.testing.log_contract import *  # noqa: F403 - the suites
from headrace.testing.log_contract import SEAL_KEY
from headrace.testing.wide_log import WideLog, WideReaderFactory, offset_of, wide


class NarrowLog:
    """A log with wide places whose answers are offsets."""

    def __init__(self, log):
        self._log = log

    def __getattr__(self, name):
        return getattr(self._log, name)

    def end_offsets(self, lanes):
        return _offsets(self._log.end_offsets(lanes))

    def start_offsets(self, lanes):
        return _offsets(self._log.start_offsets(lanes))

    def offsets_at(self, lanes, timestamp_s):
        return _offsets(self._log.offsets_at(lanes, timestamp_s))


def _offsets(places):
    return {lane: offset_of(place) for lane, place in places.items()}


@dataclass(frozen=True)
class NarrowReaderFactory:
    """Opens readers that are asked for offsets, and give them."""

    log: WideLog

    def open(self, connections):
        return NarrowReader(WideReaderFactory(self.log).open(connections))


class NarrowReader:
    """A reader of wide places that is asked for offsets, and gives them."""

    def __init__(self, reader):
        self._reader = reader
        self.close = reader.close

    def read(self, slices, batch_records):
        for piece in slices:
            asked = replace(
                piece, from_offset=wide(piece.from_offset), until_offset=wide(piece.until_offset)
            )
            for batch in self._reader.read([asked], batch_records):
                yield _narrow(batch, piece)


def _narrow(batch, piece):
    records, at = batch.records, batch.records.schema.get_field_index("offset")
    offsets = [number_at(offset_of(read_place(text))) for text in records[PLACE_COLUMN].to_pylist()]
    records = records.set_column(at, records.schema.field(at), pa.array(offsets, pa.int64()))
    return replace(
        batch,
        slice=piece,
        reached=offset_of(batch.reached),
        records=records.drop_columns([PLACE_COLUMN]),
    )


@pytest.fixture
def topics():
    return FakeTopics(WideLog())


@pytest.fixture
def log(topics):
    return NarrowLog(topics.log)


@pytest.fixture
def reader_factory(topics):
    return NarrowReaderFactory(topics.log)


@pytest.fixture
def connections():
    return Connections(kafka={}, database_url="", seal_key=SEAL_KEY)
