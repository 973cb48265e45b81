"""Slices of lanes whose log does not say where they end: what a task writes down of them."""

from dataclasses import replace

import pytest
from task_bench import TENANTS, ListSink, with_tenant

from headrace.formats import Text
from headrace.model.places import OPEN
from headrace.spark import bin_run, task
from headrace.testing.log_fake import MemoryLog, MemoryReader, MemoryReaderFactory, Row


class Aggregating:
    """A reader of a log one of whose records is several to a handler."""

    def __init__(self, log, several):
        self._reader, self._several = MemoryReader(log), several

    def open(self, _connections):
        return self

    def read(self, slices, batch_records):
        for piece in slices:
            whole = replace(piece, records=self._several)
            for batch in self._reader.read([whole], batch_records):
                yield replace(batch, slice=piece)

    def close(self):
        pass


@pytest.fixture
def log():
    made = MemoryLog()
    for tenant in TENANTS:
        made.create_topic(f"{tenant}.visits")
        made.hide_end(f"{tenant}.visits", 0)
    return made


def send(log, records):
    for tenant in TENANTS:
        log.append(f"{tenant}.visits", 0, [Row(b"x")] * records)


def visits(bench, records):
    pieces = bench.slices(until=OPEN)
    return tuple(replace(piece, records=records, most_bytes=10**6) for piece in pieces)


def noted(bench, pieces):
    found = bench.store.positions.reads_of(pieces)
    return [read and (read.until_offset, read.records) for read in found]


@pytest.fixture
def looks(bench):
    """What is written down whenever something of a tenant is handled."""

    def looking(pieces, found):
        def handler(table, context):
            found.append(noted(bench, pieces))
            return with_tenant(table, context)

        return handler

    return looking


def test_where_a_single_record_ends_is_written_down_before_it_is_handled(bench, log, looks):
    send(log, 4)
    pieces, found = visits(bench, 1), []
    bench.run(
        ListSink(), reader=MemoryReaderFactory(log), slices=pieces, handler=looks(pieces, found)
    )
    assert found == [[(1, 1)] * 2] * 2


def test_what_is_one_record_to_its_log_may_be_several_to_a_handler(bench, log, looks):
    send(log, 4)
    pieces, found = visits(bench, 1), []
    bench.run(ListSink(), reader=Aggregating(log, 3), slices=pieces, handler=looks(pieces, found))
    assert found == [[(3, 3)] * 2] * 2


def test_at_most_once_writes_it_down_before_it_is_decoded(bench, log, monkeypatch):
    send(log, 4)
    pieces, found = visits(bench, 1), []
    look = bin_run.look

    def looking(*args):
        found.append(noted(bench, pieces))
        return look(*args)

    monkeypatch.setattr(bin_run, "look", looking)
    reader = MemoryReaderFactory(log)
    options = {"decode": Text(), "guarantee": "at-most-once"}
    # Of one slice, and so by itself: who is decoded with others is innocent.
    bench.run(ListSink(), reader=reader, slices=pieces[:1], **options)
    assert found == [[(1, 1), None]]


def test_the_last_record_of_a_slice_that_came_in_parts_is_not_all_of_it(bench, log, monkeypatch):
    monkeypatch.setattr(task, "BATCH_RECORDS", 3)
    monkeypatch.setattr(task, "GROUP_RECORDS", 3)
    send(log, 4)
    pieces = visits(bench, 16)
    receipts = bench.run(ListSink(), reader=MemoryReaderFactory(log), slices=pieces)
    assert [receipt.reached for receipt in receipts] == [4, 4]
    assert noted(bench, pieces) == [None, None]
