"""How messages are judged against a slice."""

import pytest
from confluent_kafka import KafkaError

from headrace.connectors.kafka.faults import slice_error
from headrace.connectors.kafka.lane_read import LaneRead
from headrace.model.streams import LaneId, Slice


class Heard:
    """What the reader sees of a message."""

    def __init__(self, offset, code=None, topic="t", readable=True):
        self._offset, self._topic, self._readable = offset, topic, readable
        self._error = None if code is None else KafkaError(code)
        self.asked = 0

    def headers(self):
        self.asked += 1
        if not self._readable:
            raise SystemError("headers() returned a result with an exception set")

    def key(self):
        return b"k"

    def value(self):
        return b"v"

    def timestamp(self):
        return (1, self._offset * 1000)

    def offset(self):
        return self._offset

    def topic(self):
        return self._topic

    def error(self):
        return self._error


def lane(start, until):
    return LaneRead(Slice(LaneId("u", "t", "t[0]"), "t", start, until, epoch=1))


def heard(*offsets):
    return [Heard(offset) for offset in offsets]


def end(offset):
    return Heard(offset, KafkaError._PARTITION_EOF)


def held(read):
    return [message.offset() for message in read.held]


def test_a_record_before_the_end_leaves_the_slice_open():
    read = lane(0, 3)
    read.take(heard(0, 1))
    assert (read.open, read.next_offset, read.missing_records) == (True, 2, 1)


def test_the_last_offset_completes_it():
    read = lane(0, 3)
    read.take(heard(0, 1, 2))
    assert (read.open, read.next_offset, held(read)) == (False, 3, [0, 1, 2])


def test_a_record_past_the_end_completes_it_and_is_not_kept():
    read = lane(0, 3)
    assert read.take(heard(0, 5, 6)) == 2
    assert (read.open, read.next_offset, held(read)) == (False, 3, [0])


@pytest.mark.parametrize(("position", "is_open"), [(2, True), (3, False), (4, False)])
def test_the_end_of_the_log_completes_it_only_at_or_past_its_own(position, is_open):
    read = lane(0, 3)
    read.take([*heard(0), end(position)])
    assert read.open is is_open
    assert held(read) == [0]


def test_what_comes_twice_is_kept_once():
    read = lane(0, 5)
    read.take(heard(0, 1))
    assert read.take(heard(1, 2)) == 1
    assert held(read) == [0, 1, 2]


def test_what_comes_before_the_start_is_not_kept():
    read = lane(2, 4)
    assert read.take(heard(1, 2)) == 1
    assert held(read) == [2]


def test_a_complete_slice_takes_nothing_more():
    read = lane(0, 1)
    read.take(heard(0))
    assert read.take(heard(1, 2, 3)) == 3
    assert held(read) == [0]


def test_an_error_of_the_client_is_not_the_lanes_own():
    read = lane(0, 1)
    read.take([Heard(-1, KafkaError.GROUP_AUTHORIZATION_FAILED, topic=None)])
    assert (read.fault, read.open) == (None, True)


def test_errors_alone_are_of_no_use_and_the_end_of_the_log_is():
    read = lane(0, 3)
    assert read.take([Heard(0, KafkaError.NOT_LEADER_FOR_PARTITION)]) == 1
    assert read.take([end(3)]) == 0


def test_an_error_of_the_lane_is_kept_for_judgement():
    read = lane(0, 1)
    read.take([Heard(0, KafkaError.TOPIC_AUTHORIZATION_FAILED)])
    assert read.fault.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED


def test_a_record_whose_headers_cannot_be_told_ends_the_reading_before_it():
    read, bad = lane(0, 9), Heard(2, readable=False)
    read.take([*heard(0, 1), bad, *heard(3)])
    assert (read.open, read.next_offset, held(read)) == (False, 2, [0, 1])
    error = slice_error(read.error)
    assert (error.temporary, error.code) == (False, "RecordUnreadable")
    assert (error.offset, error.raw_key, error.raw_value) == (2, b"k", b"v")
    assert error.timestamp_ms == 2000
    # To ask the client again can end the process.
    read.take(heard(4))
    assert (bad.asked, held(read)) == (1, [0, 1])


def test_it_is_not_asked_for_what_is_not_of_the_slice():
    read, behind = lane(0, 2), Heard(2, readable=False)
    read.take([*heard(0, 1), behind])
    assert (read.error, behind.asked, read.next_offset) == (None, 0, 2)
