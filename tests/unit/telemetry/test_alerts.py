"""When a person is told, and when not."""

from dataclasses import replace

import pytest

from headrace.model.receipts import SliceError
from headrace.model.records import Failure
from headrace.model.statistics import AlertKind, LaneFigures, Report, Severity, Spread
from headrace.model.statistics import StreamFigures as Figures
from headrace.model.streams import LaneId, Slice, State, StreamId
from headrace.telemetry.alerts import watch
from headrace.telemetry.newest_reports import is_lost, newest

ACME, BOLT = StreamId("score", "acme"), StreamId("score", "bolt")


def figures(stream=ACME, *, position=0, lag=0, lag_s=0.0, state="active", **values):
    lanes = (LaneFigures("t[0]", position, position + lag),)
    told = (stream, "t", state, lag, lag_s, 5.0, 2.0, Spread(), False, 0.0, position, 0, 0, "", "")
    return replace(Figures(*told, lanes), **values)


def report(*streams, at_s, driver="one"):
    return Report(driver, at_s, 0.0, 2, 2, 0, 1, "", streams, (), ())


def failure(stream, partition, at_s):
    piece = Slice(LaneId(*stream, f"t[{partition}]"), "t", 0, 5, 1)
    return Failure(piece, SliceError(False, "HandlerError", "boom"), at_s)


def watched(looks, **options):
    """Alerts after looks of (second, figures...), each with a fresh report of one driver."""
    state = None
    for at_s, *streams in looks:
        state = watch([report(*streams, at_s=at_s)], [], at_s, state, **options)
    return [(alert.kind, alert.tenant, alert.since_s) for alert in state.alerts]


def test_a_stream_with_lag_that_commits_nothing_for_a_minute_is_stalled():
    looks = [(float(at_s), figures(position=7, lag=3)) for at_s in range(0, 62, 2)]
    assert watched(looks[:30]) == []
    assert watched(looks) == [(AlertKind.STALLED, "acme", 0.0)]


def test_a_stall_is_seen_a_minute_after_a_clock_was_set_back():
    before = [(7200.0 + at_s, figures(position=7, lag=3)) for at_s in range(0, 30, 2)]
    looks = [(3600.0 + at_s, figures(position=7, lag=3)) for at_s in range(0, 72, 2)]
    assert watched([*before, *looks]) == [(AlertKind.STALLED, "acme", 3600.0)]


def test_a_growing_lag_is_seen_after_a_clock_was_set_back():
    before = [(7200.0, figures(position=7, lag=3, lag_s=40.0))]
    looks = [
        (3600.0 + 10 * at, figures(position=8 + at, lag=3, lag_s=41.0 + at)) for at in range(5)
    ]
    assert watched([*before, *looks]) == [(AlertKind.LAG_GROWING, "acme", 3600.0)]


@pytest.mark.parametrize(
    "last",
    [
        figures(position=8, lag=3),
        figures(position=7),
        figures(position=7, lag=3, state="suspended"),
    ],
    ids=["it moved", "it has nothing to do", "somebody suspended it"],
)
def test_a_stream_that_need_not_or_did_move_is_not_stalled(last):
    looks = [(float(at_s), figures(position=7, lag=3)) for at_s in range(0, 60, 2)]
    assert watched([*looks, (60.0, last), (62.0, last)]) == []


def test_a_lag_above_target_that_rises_at_three_looks_is_growing():
    looks = [(10.0 * n, figures(position=n, lag=9, lag_s=28.0 + n)) for n in range(4)]
    assert watched(looks) == [(AlertKind.LAG_GROWING, "acme", 0.0)]
    assert watched(looks[:3]) == []
    assert watched(looks, target_s=31.0) == []


def test_a_lag_that_fell_in_between_is_not_growing():
    lags = [40.0, 41.0, 40.5, 41.0, 42.0]
    looks = [(10.0 * n, figures(position=n, lag=9, lag_s=lag)) for n, lag in enumerate(lags)]
    assert watched(looks) == []


def test_looks_that_follow_each_other_at_once_are_no_trend():
    looks = [(0.1 * n, figures(position=n, lag=9, lag_s=40.0 + n)) for n in range(50)]
    assert watched(looks) == []


def test_a_topic_that_is_not_as_it_should_be_is_told_since_that_was_first_said():
    ill = figures(topic_trouble="no open shard has the hash keys 0 to 9")
    assert watched([(1.0, figures()), (3.0, ill), (5.0, ill)]) == [
        (AlertKind.TOPIC_TROUBLE, "acme", 3.0)
    ]
    (alert,) = watch([report(ill, at_s=3.0)], [], 3.0).alerts
    assert alert.text == "acme/score: no open shard has the hash keys 0 to 9"
    assert watched([(3.0, ill), (5.0, figures())]) == []
    assert watched([(3.0, ill), (5.0, figures()), (7.0, ill)])[0][2] == 7.0


def test_each_stream_that_waits_for_a_decision_is_told_once_since_its_first_failure():
    failures = [failure(ACME, 0, 20.0), failure(BOLT, 0, 5.0), failure(ACME, 1, 10.0)]
    found = watch([], failures, 30.0).alerts
    assert [(alert.tenant, alert.since_s) for alert in found] == [("acme", 10.0), ("bolt", 5.0)]
    assert found[0].kind is AlertKind.QUARANTINED
    assert "2 lanes" in found[0].text
    assert "1 lane " in found[1].text


def test_a_silent_driver_is_lost_as_long_as_nobody_has_its_streams():
    silent = report(figures(ACME), figures(BOLT), at_s=10.0)
    heir = report(figures(ACME), at_s=40.0, driver="two")
    assert not is_lost(silent, [silent], 25.0)
    (alert,) = watch([silent, heir], [], 40.0).alerts
    assert (alert.kind, alert.driver, alert.since_s) == (AlertKind.DRIVER_LOST, "one", 10.0)
    whole = replace(heir, streams=silent.streams)
    assert watch([silent, whole], [], 40.0).alerts == ()
    assert not is_lost(replace(silent, streams=()), [], 40.0)


def test_the_streams_of_a_lost_driver_are_not_called_stalled_as_well():
    silent, state = report(figures(position=7, lag=3), at_s=0.0), None
    for now_s in range(0, 200, 5):
        state = watch([silent], [], float(now_s), state)
    assert [alert.kind for alert in state.alerts] == [AlertKind.DRIVER_LOST]


@pytest.mark.parametrize("decided", [State.SUSPENDED, State.REMOVED])
def test_a_stall_is_over_when_its_stream_is_suspended_or_removed_though_its_driver_is_gone(decided):
    state = None
    for now_s in range(0, 62, 2):
        told = report(figures(position=7, lag=3), at_s=float(now_s))
        state = watch([told], [], float(now_s), state)
    assert [alert.kind for alert in state.alerts] == [AlertKind.STALLED]
    state = watch([told], [], 100.0, state, states={ACME: decided})
    assert AlertKind.STALLED not in [alert.kind for alert in state.alerts]


def test_what_was_removed_has_no_failure_to_decide_and_is_missed_by_nobody():
    silent = report(figures(ACME), figures(BOLT), at_s=0.0)
    failures = [failure(ACME, 0, 5.0), failure(BOLT, 0, 5.0)]
    found = watch([silent], failures, 40.0, states={ACME: State.REMOVED}).alerts
    assert [(alert.kind, alert.tenant) for alert in found] == [
        (AlertKind.DRIVER_LOST, None),
        (AlertKind.QUARANTINED, "bolt"),
    ]
    both = {ACME: State.REMOVED, BOLT: State.REMOVED}
    assert watch([silent], failures, 40.0, states=both).alerts == ()


def test_of_a_stream_that_changed_hands_the_newest_word_counts():
    old, new = report(figures(lag=9), at_s=1.0), report(figures(lag=2), at_s=2.0, driver="two")
    for reports in ([old, new], [new, old]):
        assert newest(reports)[ACME].figures.lag_records == 2


def test_what_cannot_wait_comes_first():
    silent = report(figures(ACME), at_s=0.0)
    found = watch([silent], [failure(BOLT, 0, 5.0)], 40.0).alerts
    assert [alert.severity for alert in found] == [Severity.CRITICAL, Severity.WARNING]
