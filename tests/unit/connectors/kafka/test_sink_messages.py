"""What a row of a handler's table becomes as a message."""

from datetime import UTC, datetime

import pyarrow as pa
import pytest

from headrace.connectors.kafka.sink_messages import SLICE_HEADER, check, messages, sendable
from headrace.errors import SinkRefused, WrongSchema
from headrace.model.streams import LaneId, Slice
from headrace.model.topic_patterns import pattern_text
from headrace.ports import RECORD_SCHEMA, Effect

HEADERS = RECORD_SCHEMA.field("headers").type
AT = datetime(2024, 5, 6, 7, 8, 9, 123_456, tzinfo=UTC)


def _messages(**columns):
    piece = Slice(LaneId("split", "shared", "shared.all[3]"), "shared.all", 7, 9, epoch=1)
    effect = Effect((piece,), (9,), pa.table(columns))
    check(effect.output, "t", 1_000_000)
    return [
        (topic, value, {**more, "headers": [h for h in more["headers"] if h[0] != SLICE_HEADER]})
        for topic, value, more in messages(effect, "own")
    ]


def test_without_more_columns_a_message_has_no_more():
    assert _messages(value=["a"]) == [("own", "a", {"key": None, "headers": []})]


def test_a_time_goes_along_in_milliseconds_where_there_is_one():
    stamps = pa.array([AT, None, datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)])
    told = [
        more.get("timestamp") for _, _, more in _messages(value=["a", "b", "c"], timestamp=stamps)
    ]
    assert told == [1_714_979_289_123, None, None]


def test_a_time_without_a_zone_is_refused():
    with pytest.raises(WrongSchema, match="timestamp"):
        _messages(value=["a"], timestamp=[datetime(2024, 5, 6)])


def test_a_partition_is_chosen_where_a_row_says_one():
    told = [
        more.get("partition") for _, _, more in _messages(value=["a", "b"], to_partition=[0, None])
    ]
    assert told == [0, None]


def test_a_place_is_told_with_its_lane_and_no_record_forges_either():
    brought = [
        [
            ("headrace.split.lane", b"others.all[0]"),
            ("trace", b"1"),
            ("headrace.split.place", b"0"),
            ("headrace.split.what", b"x"),
            ("headrace.redrive.use-case", b"x"),
        ],
        None,
    ]
    found = _messages(value=["a", "b"], headers=pa.array(brought, HEADERS), place=[7, 8])
    lane = ("headrace.split.lane", b"shared.all[3]")
    assert [more["headers"] for _, _, more in found] == [
        [("trace", b"1"), lane, ("headrace.split.place", b"7")],
        [lane, ("headrace.split.place", b"8")],
    ]


def test_where_no_place_is_told_anew_that_of_a_record_passes_on():
    own = [("headrace.split.lane", b"shared.all[3]"), ("headrace.split.place", b"7")]
    found = _messages(value=["a"], headers=pa.array([own], HEADERS))
    assert found[0][2]["headers"] == own


def _refused(pattern, *named):
    read = pattern_text(pattern, "{tenant}.scores").replace("{tenant}", "acme")
    piece = Slice(LaneId("rank", "acme", "acme.visits[0]"), read, 7, 9, epoch=1)
    rows = pa.table({"value": ["a"] * len(named), "topic": pa.array(named, pa.string())})
    ready, errors = sendable({0: Effect((piece,), (9,), rows)}, "{tenant}.scores", 1_000_000)
    assert ready.keys() ^ errors.keys() == {0}
    return errors.get(0)


@pytest.mark.parametrize("pattern", [r"(?P<tenant>[a-z]+)\..+", r"[a-z]+\..+"])
def test_a_row_feeds_no_use_case_its_own_results_by_a_pattern(pattern):
    for topic in ("acme.visits", "bolt.new"):
        error = _refused(pattern, "strangers", topic)
        assert isinstance(error, SinkRefused)
        assert f"topic {topic}: a row names it" in str(error)
        assert pattern in str(error)
    assert _refused(pattern, None, "strangers", "acme.scores", "acme.visits.dlq") is None
