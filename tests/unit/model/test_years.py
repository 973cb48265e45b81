"""The years 1 to 9999, in each unit."""

from datetime import UTC, date, datetime, timedelta

from headrace.model.years import FIRST_DAY, FIRST_S, FIRST_US, LAST_DAY, LAST_S, LAST_US

EPOCH = datetime(1970, 1, 1)


def test_the_first_and_the_last_of_each_unit_are_what_python_has():
    assert EPOCH + timedelta(days=FIRST_DAY) == datetime.min
    assert (EPOCH + timedelta(days=LAST_DAY)).date() == date.max
    assert EPOCH + timedelta(seconds=FIRST_S) == datetime.min
    assert EPOCH + timedelta(seconds=LAST_S) == datetime.max.replace(microsecond=0)
    assert EPOCH + timedelta(microseconds=FIRST_US) == datetime.min
    assert EPOCH + timedelta(microseconds=LAST_US) == datetime.max


def test_they_are_the_numbers_that_were_written_down_before():
    assert (FIRST_US, LAST_US) == (-62_135_596_800_000_000, 253_402_300_799_999_999)
    assert (FIRST_DAY, LAST_DAY) == (-719_162, 2_932_896)
    assert datetime.min.replace(tzinfo=UTC).timestamp() == FIRST_S
