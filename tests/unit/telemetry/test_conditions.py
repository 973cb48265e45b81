"""One word and one sentence about a stream, from what was decided and what was told."""

from dataclasses import replace

import pytest

from headrace.model.receipts import SliceError
from headrace.model.records import Failure
from headrace.model.statistics import LaneFigures, Spread, StreamFigures
from headrace.model.streams import LaneId, Slice, State, Stream, StreamId, Tenant, Throttle
from headrace.telemetry.conditions import Condition, condition
from headrace.telemetry.newest_reports import LOST_AFTER_S, LastFigures

ACME = StreamId("score", "acme")
STREAM, TENANT = Stream(ACME, "acme.visits", holder="one"), Tenant("acme")
NOW_S = 1_700_000_000.0


def told(state="active", note="", ago_s=1.0, **more):
    lanes = (LaneFigures("t[0]", 3, 9),)
    given = (ACME, "t", state, 6, 0.0, 0.0, 0.0, Spread(), False, 0.0, 3, 0, 0, "", note, lanes)
    return LastFigures(NOW_S - ago_s, replace(StreamFigures(*given), **more))


def failure(at_s, message):
    piece = Slice(LaneId(*ACME, "t[0]"), "t", 0, 5, 1)
    return Failure(piece, SliceError(False, "BadRecord", message), at_s)


def how(stream=STREAM, tenant=TENANT, word=None, stopped=(), starting=None):
    return condition(stream, tenant, word, stopped, NOW_S, starting)


def test_what_runs_needs_no_reason():
    assert how(word=told()) == Condition("active", "")


@pytest.mark.parametrize("state", ["waiting", "retrying", "suspended 1/4"])
def test_what_a_driver_tells_is_the_state(state):
    stopped = [failure(1.0, "x")] if state.startswith("suspended") else []
    assert how(word=told(state, "why"), stopped=stopped).state == state


def test_when_it_is_tried_again_is_passed_on():
    assert how(word=told("retrying", "down", retry_at_s=7.0)) == Condition("retrying", "down", 7.0)


@pytest.mark.parametrize("state", ["suspended", "suspended 1/4", "removed"])
def test_what_was_undone_since_the_driver_told_is_not_told_on(state):
    assert how(word=told(state, "partition 0: BadRecord")) == Condition("active", "")


def test_stopped_lanes_are_counted_and_the_first_to_stop_is_named():
    stopped = [failure(9.0, "second"), failure(3.0, "the\nfirst")]
    reason = how(word=told("suspended 2/3", "partition 1: BadRecord"), stopped=stopped).reason
    assert reason == (
        "2 lanes stopped, the first at BadRecord: the first; see 'headrace quarantine list'"
    )
    found = how(word=told("waiting", "topic t is not there yet"), stopped=stopped[:1])
    assert found.reason.startswith("topic t is not there yet; 1 lane stopped")


def test_a_throttle_is_named():
    limited = replace(TENANT, throttle=Throttle(10.0, 2_000.0))
    found = how(tenant=limited, word=told("throttled"))
    assert found.reason == "its tenant may read 10 records a second and 2000 bytes a second"
    slow = replace(TENANT, throttle=Throttle(1.0))
    assert (
        how(tenant=slow, word=told("throttled")).reason == "its tenant may read 1 record a second"
    )
    assert how(word=told("throttled")).reason == "a limit on its rate holds it back"


def test_a_decision_counts_more_than_what_a_driver_told_before():
    off = replace(TENANT, state=State.SUSPENDED)
    stopped = replace(STREAM, state=State.SUSPENDED, reason="topic was made again")
    assert how(tenant=off, word=told()).state == "suspended"
    assert how(tenant=off).reason == ("its tenant is suspended, see 'headrace tenants resume acme'")
    assert how(stopped, word=told()) == Condition("suspended", "topic was made again")
    assert how(stopped, off).reason.endswith("; the stream itself too: topic was made again")
    assert how(replace(STREAM, state=State.SUSPENDED)).reason == "somebody suspended it"
    for gone in (
        how(replace(STREAM, state=State.REMOVED)),
        how(tenant=replace(TENANT, state=State.REMOVED)),
    ):
        assert gone == Condition("removed", "")


def test_what_nobody_runs_is_not_called_active():
    assert how(replace(STREAM, holder=None)).state == "not held"
    old = told("retrying", "down", ago_s=LOST_AFTER_S + 5)
    assert how(replace(STREAM, holder=None), word=old).state == "not held"
    assert how(word=old) == Condition(
        "unknown",
        "driver one holds it, and the last word about it is 20 s old (retrying: down); see that "
        "it runs",
    )
    assert how().reason == "driver one holds it and has told nothing of it; see that it runs"


def test_a_driver_that_starts_is_told_in_place_of_what_to_start():
    nobodys, silent = replace(STREAM, holder=None), told(ago_s=LOST_AFTER_S + 1)
    found = how(stream=nobodys, starting="one starts")
    assert found == Condition("not held", "no driver holds it yet; one starts")
    assert how(word=silent).reason.endswith("; see that it runs")
    assert how(word=silent, starting="one starts").reason.endswith("s old (active); one starts")
    assert how(word=told(), starting="one starts") == Condition("active", "")
