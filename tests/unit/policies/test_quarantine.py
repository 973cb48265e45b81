"""What is decided about slices that fail."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.model.receipts import SliceError
from headrace.model.streams import BadRecordPolicy, StreamId
from headrace.policies.quarantine import (
    ABOUT_RECORDS,
    HURTS_NEIGHBOURS,
    PARTS,
    RETRIED,
    FailureRules,
    LaneHistory,
    LaneStep,
    divided,
    judge,
)
from headrace.policies.retry import Backoff

BACKOFF = Backoff(first_s=0.2, most_s=30.0)
RAISED = SliceError(temporary=False, code="HandlerError", message="no", offset=7)
CODES = sorted(
    RETRIED
    | ABOUT_RECORDS
    | HURTS_NEIGHBOURS
    | {"OffsetOutOfRange", "TopicMissing", "TargetMissing", "TaskLost"}
)


def rules(bad_record=BadRecordPolicy.SUSPEND, retries=3):
    return FailureRules(bad_record, retries, BACKOFF)


def steps(error, *, records=1, most=40, **chosen):
    """The verdicts of trouble that never ends, up to the first that is not a retry."""
    history, found = LaneHistory(), []
    for _ in range(most):
        verdict = judge(rules(**chosen), history, error, records, 0.5)
        found.append(verdict)
        history = verdict.history
        records = min(records, verdict.most_records or records)
        if verdict.step is not LaneStep.RETRY:
            break
    return found


@pytest.mark.parametrize("retries", [0, 1, 5])
def test_a_handler_that_raises_is_retried_so_often_and_then_stops(retries):
    found = steps(RAISED, retries=retries)
    assert [verdict.step for verdict in found] == [LaneStep.RETRY] * retries + [LaneStep.SUSPEND]
    assert found[-1].history.attempts == retries + 1


@pytest.mark.parametrize(
    ("policy", "step"),
    [
        (BadRecordPolicy.SUSPEND, LaneStep.SUSPEND),
        (BadRecordPolicy.DEAD_LETTER, LaneStep.DEAD_LETTER),
        (BadRecordPolicy.FAIL, LaneStep.FAIL),
    ],
)
def test_a_bad_record_is_no_use_trying_again(policy, step):
    error = replace(RAISED, code="BadRecord")
    assert [step.step for step in steps(error, bad_record=policy)] == [step]


@pytest.mark.parametrize("policy", BadRecordPolicy)
def test_trouble_of_no_record_suspends_whatever_the_policy(policy):
    error = replace(RAISED, code="OffsetOutOfRange")
    assert [step.step for step in steps(error, bad_record=policy)] == [LaneStep.SUSPEND]


def test_no_record_no_dead_letter():
    error = replace(RAISED, offset=None)
    found = steps(error, bad_record=BadRecordPolicy.DEAD_LETTER, retries=0)
    assert [verdict.step for verdict in found] == [LaneStep.SUSPEND]


@pytest.mark.parametrize("code", ["SinkRefused", "WrongSchema"])
@pytest.mark.parametrize("policy", BadRecordPolicy)
def test_what_a_sink_refuses_as_a_whole_is_looked_at_more_closely(code, policy):
    refused = replace(RAISED, code=code, offset=None)
    found = steps(refused, records=1000, bad_record=policy)
    assert [verdict.step for verdict in found[:-1]] == [LaneStep.RETRY] * 3
    assert [verdict.most_records for verdict in found[:-1]] == [125, 15, 1]
    assert all(verdict.history.attempts == 0 for verdict in found[:-1])
    assert found[-1].step is not LaneStep.RETRY
    claimed = judge(rules(policy), LaneHistory(), refused, 1000, 0.5, claimed=True)
    assert claimed.step is not LaneStep.RETRY


@pytest.mark.parametrize("code", ["HandlerError", "WrongSchema"])
def test_who_gives_up_every_record_is_suspended_and_not_emptied_into_the_dead_letters(code):
    chosen = rules(BadRecordPolicy.DEAD_LETTER, retries=0)
    history, found = LaneHistory(), []
    for _ in range(4):
        verdict = judge(chosen, history, replace(RAISED, code=code), 1, 0.5)
        found.append(verdict.step)
        history = replace(verdict.history, attempts=0)
    assert found == [LaneStep.DEAD_LETTER] * 3 + [LaneStep.SUSPEND]


def test_records_that_are_bad_themselves_are_set_aside_however_many():
    chosen = rules(BadRecordPolicy.DEAD_LETTER)
    history = LaneHistory(letters=100)
    verdict = judge(chosen, history, replace(RAISED, code="BadRecord"), 1, 0.5)
    assert verdict.step is LaneStep.DEAD_LETTER


def test_temporary_trouble_is_tried_for_ever_with_growing_waits():
    error = SliceError(temporary=True, code="SinkUnavailable", message="down")
    found = steps(error, records=1000)
    assert all(verdict.step is LaneStep.RETRY and not verdict.apart for verdict in found)
    assert found[-1].history.attempts == 0
    assert found[0].wait_s < found[5].wait_s <= BACKOFF.most_s


def test_a_wait_that_the_other_side_asks_for_is_kept():
    error = SliceError(True, "SinkUnavailable", "429", retry_after_s=17.0)
    assert judge(rules(), LaneHistory(), error, 1, 0.0).wait_s == 17.0


def test_a_wait_of_nothing_is_no_hot_loop():
    error = SliceError(True, "SinkUnavailable", "429", retry_after_s=0.0)
    assert judge(rules(), LaneHistory(), error, 1, 0.0).wait_s == BACKOFF.least_s


@pytest.mark.parametrize("code", ["HandlerHung", "WorkerKilled"])
def test_who_hurts_is_looked_at_more_closely_before_it_counts(code):
    error = SliceError(False, code, "gone")
    found = steps(error, records=1000, retries=2)
    sizes = [verdict.most_records for verdict in found if verdict.step is LaneStep.RETRY]
    assert sizes == [125, 15, 1, 1, 1, 1][: len(sizes)]
    assert all(verdict.apart for verdict in found if verdict.step is LaneStep.RETRY)
    assert found[-1].history.attempts == 3


ERRORS = st.builds(
    SliceError,
    temporary=st.booleans(),
    code=st.sampled_from(CODES),
    message=st.just("no"),
    offset=st.none() | st.integers(0, 9),
)


@given(
    error=ERRORS,
    records=st.integers(1, 100_000),
    retries=st.integers(0, 6),
    policy=st.sampled_from(BadRecordPolicy),
    chance=st.floats(0, 1, exclude_max=True),
)
def test_whatever_is_permanent_comes_to_an_end(error, records, retries, policy, chance):
    history, most = LaneHistory(), records
    for _ in range(retries + 10):
        verdict = judge(rules(policy, retries), history, error, most, chance)
        if verdict.step is not LaneStep.RETRY:
            assert not error.temporary
            return
        assert verdict.wait_s >= BACKOFF.least_s
        assert 1 <= (verdict.most_records or 1) <= max(1, most)
        history, most = verdict.history, verdict.most_records or most
    assert error.temporary


@given(names=st.sets(st.text("abcdef", min_size=1, max_size=4), min_size=1))
def test_a_divided_wave_comes_down_to_single_streams(names):
    streams = {StreamId("keep", name) for name in names}
    rounds = 0
    while len(streams) > 1:
        labels = divided(streams, "w")
        assert set(labels) == streams
        assert len(set(labels.values())) <= PARTS
        culprit = min(streams)
        streams = {stream for stream in streams if labels[stream] == labels[culprit]}
        rounds += 1
    assert rounds <= 6
