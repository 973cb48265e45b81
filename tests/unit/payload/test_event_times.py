"""When records happened, as their values say."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import ConfigError
from headrace.payload.event_times import json_time
from headrace.testing.records import records

NOON_S = 1_700_049_600.0


def told(value, pointer="/at"):
    (found,) = json_time(pointer)(records([value]))
    return found


@pytest.mark.parametrize(
    ("value", "pointer"),
    [
        (b'{"at": "2023-11-15T12:00:00Z"}', "/at"),
        (b'{"at": "2023-11-15T13:00:00+01:00"}', "/at"),
        (b'{"at": "2023-11-15T12:00:00"}', "/at"),
        (b'{"at": 1700049600}', "/at"),
        (b'{"at": 1700049600000}', "/at"),
        (b'{"at": {"done": [0, 1700049600.0]}}', "/at/done/1"),
        (b'{"a/t": 1700049600}', "/a~1t"),
    ],
)
def test_a_moment_is_told_in_any_usual_form(value, pointer):
    assert told(value, pointer) == NOON_S


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        b"no json",
        b"\xff\xfe",
        b"[]",
        b"7",
        b'{"at": null}',
        b'{"at": true}',
        b'{"at": "yesterday"}',
        b'{"at": {}}',
        b'{"then": 1}',
        b"[" * 100_000,
        b'{"at": NaN}',
        b'{"at": Infinity}',
        b'{"at": 1e999}',
        b'{"at": -1e300}',
        b'{"at": 1e18}',
        b'{"at": -62135596801}',
        b'{"at": -9e10}',
    ],
)
def test_a_record_that_does_not_tell_is_no_error(value):
    assert told(value) is None


@given(st.binary(max_size=64))
def test_no_bytes_are_an_error(value):
    json_time("/at")(records([value]))


def test_a_pointer_begins_with_a_slash():
    with pytest.raises(ConfigError, match="write it like '/at'"):
        json_time("at")
