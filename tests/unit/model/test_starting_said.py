"""Where a stream begins, as somebody writes it: one of four kinds, or a refusal that says which."""

import json
from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.model.places import place_at
from headrace.model.starting import AtPlaces, Edge, SinceTime, read_starting

ZONES = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
TIMES = st.datetimes(datetime(1900, 1, 1), datetime(2900, 1, 1), timezones=ZONES)
OFFSETS = st.integers(-2, 10**60)
PLACES = st.dictionaries(
    st.text(min_size=1, max_size=5),
    st.dictionaries(st.integers(0, 99).map(str), OFFSETS, min_size=1, max_size=4),
    min_size=1,
    max_size=3,
)
EDGES = {-1: Edge.LATEST, -2: Edge.EARLIEST}


@given(TIMES)
def test_a_time_with_its_zone_is_that_time(when):
    found = read_starting(when.isoformat())
    assert isinstance(found, SinceTime)
    assert found.at_s == pytest.approx(when.timestamp())


@given(TIMES)
def test_a_time_without_its_zone_is_none(when):
    with pytest.raises(ValueError, match="names no time zone"):
        read_starting(when.replace(tzinfo=None).isoformat())


@given(PLACES)
def test_offsets_are_those_that_were_written_and_edges_by_sparks_numbers(said):
    found = read_starting(json.dumps(said))
    assert isinstance(found, AtPlaces)
    assert found.topics == {
        topic: {lane: EDGES.get(at, place_at(at)) for lane, at in lanes.items()}
        for topic, lanes in said.items()
    }


@given(st.text())
def test_whatever_is_written_is_read_or_refused_with_a_reason(text):
    with suppress(ValueError):
        assert isinstance(read_starting(text), Edge | SinceTime | AtPlaces)


@pytest.mark.parametrize("text", ["earliest", "latest"])
def test_edges_have_sparks_words(text):
    assert read_starting(text) is Edge(text)


def test_an_offset_may_be_written_as_places_are_in_json():
    found = read_starting('{"visits": {"0": "23"}}')
    assert found.topics == {"visits": {"0": place_at(23)}}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "say earliest, latest, a time"),
        ("Latest", "say earliest, latest, a time"),
        ("23", "say earliest, latest, a time"),
        ("yesterday", "this is yesterday"),
        ("2026-13-01T00:00:00Z", "say earliest"),
        ("2026-11-01", "names no time zone"),
        ("{", "offsets look like"),
        ("{}", "names no partition"),
        ('{"visits": {}}', "names no partition"),
        ('{"visits": 23}', "offsets look like"),
        ('{"visits": [23]}', "offsets look like"),
        ('{"visits": {"0": null}}', "offsets look like"),
        ('{"visits": {"0": true}}', "offsets look like"),
        ('{"visits": {"0": 1.5}}', "offsets look like"),
        ('{"visits": {"0": -3}}', "is no place in a lane"),
        ('{"visits": {"0": 1, "0": 2}}', "0 is named twice"),
        ('{"visits": {"0": 1}, "visits": {"1": 2}}', "visits is named twice"),
        ('{"visits": {"0": 1' + 80 * "0" + "}}", "is no place in a lane"),
        (6000 * '{"a":', "offsets look like"),
    ],
)
def test_what_says_nothing_is_refused_and_told_what_does(text, told):
    with pytest.raises(ValueError, match=told) as refused:
        read_starting(text)
    assert len(str(refused.value)) < 600


def test_times_far_away_are_no_crash():
    assert read_starting("0001-01-01T00:00:00+00:00").at_s < 0
    assert read_starting(datetime.max.replace(tzinfo=UTC).isoformat()).at_s > 0


@given(TIMES)
def test_the_words_of_kinesis_are_known(when):
    assert read_starting("TRIM_HORIZON") is Edge.EARLIEST
    assert read_starting("LATEST") is Edge.LATEST
    assert read_starting(f"AT_TIMESTAMP {when.isoformat()}") == read_starting(when.isoformat())


@pytest.mark.parametrize("said", ["AT_TIMESTAMP", "AT_TIMESTAMP latest?", "AFTER_SEQUENCE_NUMBER"])
def test_others_of_its_words_are_refused(said):
    with pytest.raises(ValueError, match="say earliest, latest, a time"):
        read_starting(said)
