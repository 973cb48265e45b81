"""An effect has one name, and a failure one shape."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from headrace.connectors.outcomes import failed, identity
from headrace.errors import SinkRefused, SinkUnavailable
from headrace.model.streams import LaneId, Slice
from headrace.ports import Effect


def _slice(partition, start, until=100):
    return Slice(
        LaneId("score", "acme", f"acme.visits[{partition}]"), "acme.visits", start, until, epoch=3
    )


def test_the_identity_is_the_lane_and_the_range_reached():
    effect = Effect((_slice(2, 7),), (9,), pa.table({}))
    assert identity(effect) == "score/acme/2:7-9"


def test_the_identity_does_not_depend_on_who_runs_it_or_how_far_it_was_to_go():
    first = Effect((_slice(2, 7),), (9,), pa.table({}))
    other = Slice(LaneId("score", "acme", "acme.visits[2]"), "acme.visits", 7, 50, epoch=4)
    assert identity(Effect((other,), (9,), pa.table({}))) == identity(first)


def test_an_effect_of_several_lanes_names_them_all():
    effect = Effect((_slice(0, 1), _slice(1, 5)), (2, 8), pa.table({}))
    assert identity(effect) == "score/acme/0:1-2,score/acme/1:5-8"


def test_a_temporary_failure_keeps_the_wait_that_was_asked_for():
    error = failed(SinkUnavailable("busy", retry_after_s=3.0)).error
    assert (error.temporary, error.code, error.retry_after_s) == (True, "SinkUnavailable", 3.0)


def test_a_refusal_is_permanent():
    error = failed(SinkRefused("no")).error
    assert (error.temporary, error.code, error.message) == (False, "SinkRefused", "no")


def test_an_error_that_nobody_expected_refuses_the_effect_and_names_the_sink():
    error = failed(TypeError("no such thing"), "topic t").error
    assert (error.temporary, error.code) == (False, "SinkRefused")
    assert error.message == "topic t: it cannot be written: TypeError: no such thing"


def test_memory_that_is_short_may_be_there_later():
    assert failed(MemoryError()).error.temporary


def _of(name, topic="acme.visits"):
    return Effect((Slice(LaneId("score", "acme", name), topic, 7, 9, epoch=1),), (9,), pa.table({}))


def test_lanes_of_two_topics_of_a_stream_have_two_identities():
    """By the number alone the second of them passed for one that was there already."""
    assert identity(_of("acme.visits[0]")) == "score/acme/0:7-9"
    assert identity(_of("acme.orders[0]")) == "score/acme/acme.orders[0]:7-9"
    assert identity(_of("shardId-000000000007")) == "score/acme/shardId-000000000007:7-9"


@given(st.lists(st.text("a/:,-%0123[]", min_size=1, max_size=8), min_size=2, max_size=2))
def test_no_two_lanes_of_a_stream_have_one_identity(names):
    one, other = names
    lanes = [piece.lane.name for piece in (*_of(one).slices, *_of(other).slices)]
    assert (identity(_of(one)) == identity(_of(other))) == (lanes[0] == lanes[1])
    both = Effect((*_of(one).slices, *_of(other).slices), (9, 9), pa.table({}))
    assert identity(both).count(",") == 1
    assert identity(both).count("/") == 4
