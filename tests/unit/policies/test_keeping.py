"""What a tenant keeps of its failures is bounded, and never what stops a lane."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

from headrace.model.receipts import SliceError
from headrace.model.records import Failure
from headrace.model.streams import LaneId, Slice
from headrace.policies import keeping
from headrace.policies.keeping import MOST_BYTES, MOST_ROWS, KeptRow, bytes_of, room_for


def failed(value=b"", message="no", offset=7):
    piece = Slice(LaneId("keep", "acme", "acme.visits[2]"), "acme.visits", 5, 9, 1)
    headers = (("trace", b"1234"), ("none", None))
    error = SliceError(
        False, "BadRecord", message, "tb", offset, b"key", value, headers, timestamp_ms=5
    )
    return Failure(piece, error, 1.0)


def test_all_that_is_kept_of_it_counts():
    assert bytes_of(failed(b"12345")) == len("no") + len("tb") + 3 + 5 + len("trace1234none")


def test_where_there_is_room_nothing_goes():
    failure = failed(bytes(1000))
    room = room_for([failure], [KeptRow(1, 10, True), KeptRow(2, 10, False)])
    assert (room.drop, room.failures) == ((), (failure,))


def test_the_oldest_that_are_over_go_for_rows():
    rows = [KeptRow(number, 1, number % 2 == 0) for number in range(MOST_ROWS)]
    assert room_for([failed()], rows).drop == (1,)
    assert room_for([failed()], [*rows, KeptRow(5000, 1, False), KeptRow(5001, 1, True)]).drop == (
        1,
        3,
        5,
    )


def test_the_oldest_that_are_over_go_for_bytes():
    third = MOST_BYTES // 3
    rows = [KeptRow(1, third, True), KeptRow(2, third, False), KeptRow(3, third, False)]
    room = room_for([failed(bytes(third))], rows)
    assert (room.drop, room.failures[0].record_kept) == ((2, 3), True)


def test_where_open_ones_fill_the_room_the_record_stays_in_kafka_and_that_is_said():
    room = room_for([failed(bytes(100), "x" * 5000)], [KeptRow(1, MOST_BYTES, True)])
    error = room.failures[0].error
    assert not room.failures[0].record_kept
    assert (error.raw_key, error.raw_value, error.raw_headers, error.traceback) == (
        (None, None, (), "")
    )
    assert "acme.visits[2] offset 7" in error.message
    assert "64 MiB" in error.message
    assert len(error.message) < 1500
    assert (error.offset, error.timestamp_ms) == (7, 5)


def test_a_failure_that_names_no_record_lacks_none():
    room = room_for([failed(message="x" * 5000, offset=None)], [KeptRow(1, MOST_BYTES, True)])
    assert room.failures[0].record_kept


@given(
    kept=some.lists(some.tuples(some.integers(0, 30), some.booleans()), max_size=12),
    size=some.integers(0, 40),
)
def test_what_is_over_never_holds_more_than_the_room(kept, size):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keeping, "MOST_ROWS", 5)
        patch.setattr(keeping, "MOST_BYTES", 1200)
        rows = [KeptRow(number, 20 * size, is_open) for number, (size, is_open) in enumerate(kept)]
        room = room_for([failed(bytes(20 * size))], rows)
        left = [row for row in rows if row.id not in room.drop]
        assert not any(row.open for row in rows if row.id in room.drop)
        over = [failure for failure in left if not failure.open]
        if over:
            assert len(left) + 1 <= 5
            assert sum(failure.bytes for failure in left) + bytes_of(room.failures[0]) <= 1200


def test_those_that_come_together_share_the_room_and_make_none_of_each_other():
    half = MOST_BYTES // 2
    new = [failed(bytes(half), offset=at) for at in (1, 2, 3)]
    room = room_for(new, [KeptRow(1, half, False), KeptRow(2, 10, True)])
    assert [failure.record_kept for failure in room.failures] == [True, False, False]
    assert room.drop == (1,)
    assert [failure.error.offset for failure in room.failures] == [1, 2, 3]
    rows = [KeptRow(number, 1, False) for number in range(3)]
    assert room_for([failed()] * (MOST_ROWS - 1), rows).drop == (0, 1)
    assert room_for([failed()] * (MOST_ROWS + 1), rows).drop == (0, 1, 2)
