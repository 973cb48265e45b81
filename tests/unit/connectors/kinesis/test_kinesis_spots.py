"""Places in shards are ordered as records are, and say what they were made of."""

from hypothesis import given
from hypothesis import strategies as st

from headrace.connectors.kinesis.spots import (
    END,
    MOST_DIGITS,
    PLACES,
    Spot,
    before,
    passed,
    spot_of,
)
from headrace.model.places import OPEN, read_place, text_of

NUMBER = "49590338271490256608559692538361571095921575989136588898"
NUMBERS = st.integers(0, 10**MOST_DIGITS - 2)
PARTS = st.integers(0, 10**7)
MOMENTS = st.integers(0, 4 * 10**12)


@given(NUMBERS, PARTS, MOMENTS)
def test_a_place_says_what_it_was_made_of(number, part, moment):
    assert spot_of(before(number, part)) == Spot(number, part)
    assert spot_of(passed(number, moment)) == Spot(number, None, moment)


@given(NUMBERS, PARTS, MOMENTS)
def test_parts_come_before_what_is_behind_the_record_and_that_before_the_next_record(
    number, part, moment
):
    in_order = [
        before(number),
        before(number, part + 1),
        passed(number),
        passed(number, moment + 1),
        before(number + 1),
        END,
        OPEN,
    ]
    assert in_order == sorted(in_order)
    assert len(set(in_order)) == len(in_order)


def test_a_place_begins_with_the_sequence_number_that_people_know():
    assert text_of(before(int(NUMBER))).startswith(NUMBER)
    assert read_place(text_of(END)) == END


def test_behind_a_part_is_the_next_one():
    assert PLACES.behind(before(5, 3)) == before(5, 4)


def test_nobody_counts_records_without_reading():
    assert PLACES.between(before(9), before(5)) is None
    assert PLACES.between(before(5), before(5)) == 0
    assert PLACES.after(before(5), 1) == OPEN
    assert PLACES.after(before(5), 0) == before(5)
