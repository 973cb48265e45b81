"""What to do about a slice that failed: the state machine of a lane in trouble.

Whoever stops too soon wakes a person at night for a server that was restarting; whoever tries for
ever hides a broken record behind a warning. So three kinds of trouble are told apart::

                      trouble passes by itself          success
       ┌────────── temporary: wait, try again ◄──┐   ┌──────────┐
       │                                         │   │          │
    active ── the handler raised, hung or killed ─► retrying ───┘
       │      its worker: as often as the use        │
       │      case's `retries` say                   │ retries used up
       │                                             ▼
       └── the record itself is bad ─────────► verdict by `bad_record`:
                                               suspend      open failure; the lane stops at it
                                               dead-letter  to <topic>.dlq; the lane goes on
                                                            (after three such in a row: suspend)
                                               fail         the whole use case stops

A suspended lane leaves that state by a person's word alone: retried (goes on at the record),
skipped (goes on behind it, the record being kept in the dead letters) or sought elsewhere.

A stream that hung, whose worker died, or whose own database let others wait, is tried again
*apart*, in bins of its own, and with ever smaller slices: so neighbours are safe, and the record to
blame is found. While few of its lanes are in doubt, these are tried one after the other, and the
others go on in haste (`HeldStream.shown`). When a worker dies and nobody knows at which stream, its
streams are divided into parts that run apart (`divided`), and the part that dies again is divided
again: who comes through is innocent and free.

Nothing here waits, stores or remembers; `cycle/failing.py` does what is decided.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

from headrace.model.receipts import SliceError
from headrace.model.streams import BadRecordPolicy, StreamId
from headrace.policies.retry import Backoff

#: may pass although it looks permanent: a handler often calls something that was down
RETRIED = frozenset({"HandlerError", "HandlerHung", "WorkerKilled"})
#: what a handler gave up, or made a wrong table of: a few in a row, and it is not the records
COUNTED_IN_A_ROW = RETRIED | {"WrongSchema"}
#: what a sink says of a table, and so of all of its records
REFUSED = frozenset({"SinkRefused", "WrongSchema"})
#: hurts whoever shares the bin
HURTS_NEIGHBOURS = frozenset({"HandlerSlow", "HandlerHung", "WorkerKilled", "TenantsSinkSlow"})
#: says something about records; anything else (a topic that is gone) no dead letter can mend
ABOUT_RECORDS = RETRIED | {
    "BadRecord",
    "RecordUnreadable",
    "WrongSchema",
    "SinkRefused",
    "StateRefused",
}
#: after trouble the next slice has so much less
NARROWING = 8
#: a handler that fails at so many records in a row would fail at all of them
MOST_LETTERS = 3
#: parts that the streams of a wave which died are divided into
PARTS = 8


class LaneStep(StrEnum):
    """What becomes of the lane."""

    RETRY = "retry"
    SUSPEND = "suspend"
    DEAD_LETTER = "dead-letter"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class FailureRules:
    """What a use case says about its failures."""

    bad_record: BadRecordPolicy
    retries: int
    backoff: Backoff


@dataclass(frozen=True, slots=True)
class LaneHistory:
    """What is known of a lane's trouble at its present position."""

    #: temporary troubles in a row
    tries: int = 0
    #: failures that count against ``retries``
    attempts: int = 0
    #: dead letters in a row that a handler failed at, with nothing done in between
    letters: int = 0


@dataclass(frozen=True, slots=True)
class Verdict:
    """What to do now."""

    step: LaneStep
    history: LaneHistory
    #: seconds until the next try; 0 unless the step is ``RETRY``
    wait_s: float = 0.0
    #: try again in a bin of its own
    apart: bool = False
    #: most records of the next try; None is no limit
    most_records: int | None = None


def judge(
    rules: FailureRules,
    history: LaneHistory,
    error: SliceError,
    records: int,
    chance: float,
    *,
    claimed: bool = False,
) -> Verdict:
    """Decide about a slice that failed.

    Args:
        rules: what the use case wants.
        history: what happened at this position before.
        error: what happened now.
        records: in the failed slice at most.
        chance: evenly drawn from ``[0, 1)``.
        claimed: its position had moved before, so that nothing of it can be tried again.

    Returns:
        ``RETRY`` for all that is temporary, for ever; for what counts, up to ``retries`` times, and
        not counted as long as a smaller slice may tell more. Else what ``bad_record`` says, but
        ``SUSPEND`` where no record can be blamed.
    """
    apart = error.code in HURTS_NEIGHBOURS
    if error.temporary:
        after = replace(history, tries=history.tries + 1)
        wait_s = _wait_s(rules, history.tries, error, chance)
        return Verdict(LaneStep.RETRY, after, wait_s, apart, narrowed(records))
    after = replace(history, attempts=history.attempts + 1)
    if error.code in RETRIED:
        if apart and error.offset is None and records > 1:
            # Nobody knows which record it was: look closer before anything is held against one.
            same = replace(history, tries=history.tries + 1)
            return Verdict(LaneStep.RETRY, same, rules.backoff.least_s, apart, narrowed(records))
        if after.attempts <= rules.retries:
            wait_s = _wait_s(rules, history.attempts, error, chance)
            return Verdict(LaneStep.RETRY, after, wait_s, apart, narrowed(records))
    if error.code in REFUSED and error.offset is None and records > 1 and not claimed:
        # None of it is there, and smaller slices tell which record it is.
        same = replace(history, tries=history.tries + 1)
        return Verdict(LaneStep.RETRY, same, rules.backoff.least_s, False, narrowed(records))
    step = _final(rules, error)
    if step is LaneStep.DEAD_LETTER and error.code in COUNTED_IN_A_ROW:
        if history.letters >= MOST_LETTERS:
            # It is not the record: what the handler needs is gone for this tenant, or its code is
            # wrong, as with a forgotten return.
            return Verdict(LaneStep.SUSPEND, after)
        after = replace(after, letters=history.letters + 1)
    return Verdict(step, after)


def narrowed(records: int) -> int:
    """Most records of the slice after one of so many failed."""
    return max(1, records // NARROWING)


def divided(streams: Iterable[StreamId], label: str) -> dict[StreamId, str]:
    """Labels for streams of which one hurts the others: at most ``PARTS`` parts, each apart.

    A single stream is its own part, so that after a few rounds the culprit is alone.
    """
    ordered = sorted(set(streams))
    parts = min(PARTS, len(ordered))
    return {stream: f"{label}/{number % parts}" for number, stream in enumerate(ordered)}


def _wait_s(rules: FailureRules, tries: int, error: SliceError, chance: float) -> float:
    if error.retry_after_s is not None:
        return max(error.retry_after_s, rules.backoff.least_s)
    return rules.backoff.wait_s(tries, chance)


def _final(rules: FailureRules, error: SliceError) -> LaneStep:
    if error.code not in ABOUT_RECORDS:
        return LaneStep.SUSPEND
    if rules.bad_record is BadRecordPolicy.DEAD_LETTER:
        return LaneStep.DEAD_LETTER if error.offset is not None else LaneStep.SUSPEND
    return LaneStep.FAIL if rules.bad_record is BadRecordPolicy.FAIL else LaneStep.SUSPEND
