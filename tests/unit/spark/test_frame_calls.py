"""What receipts say of slices that a DataFrame handler did not do."""

import pytest

from headrace.errors import ReadOtherwise
from headrace.model.receipts import Receipt
from headrace.model.streams import LaneId, Slice
from headrace.model.waves import Bin, Wave
from headrace.spark.frame_calls import FrameCalls, with_share
from headrace.use_cases import use_case

PIECES = tuple(
    Slice(LaneId("report", "acme", f"acme.visits[{lane}]"), "acme.visits", 0, 10, 1)
    for lane in (0, 1)
)
WAVE = Wave("w1", "report", (Bin(PIECES, 1.0),), 1.0)
READ = [
    Receipt(piece, 10, committed=False, records=8, bytes=80, timestamps_s=(1.0,), seconds=0.5)
    for piece in PIECES
]


class Positions:
    def __init__(self, *answers):
        self.answers = answers

    def advance(self, moves):
        return self.answers[: len(moves)]


class Frame:
    given = None

    def without(self, _slices):
        return self

    def of(self, _tenant):
        return self


def handled(handler, *answers, **options):
    made = use_case(topic="{tenant}.visits", form="wave", name="report", **options)(handler)
    return FrameCalls(made, lambda: Positions(*answers)).handle(WAVE, Frame(), READ)


def fails(_frame, _wave):
    raise ValueError("no")


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt, GeneratorExit])
def test_what_is_no_exception_is_an_error_of_the_handler(kind):
    def leaves(_frame, _wave):
        raise kind("enough")

    for each in handled(leaves):
        assert each.error.message == f"{kind.__name__}: enough"


def test_what_failed_counts_no_records_and_was_not_reached():
    for told in handled(fails):
        assert (told.reached, told.records, told.bytes, told.timestamps_s) == (0, 0, 0, ())
        assert told.error.code == "HandlerError"


def test_a_frame_that_is_another_by_now_is_the_waves_own_trouble():
    def looks(_frame, _wave):
        raise ValueError("Job aborted: headrace.errors.ReadOtherwise: it was 8 records")

    with pytest.raises(ReadOtherwise, match=r"^it was 8 records$"):
        handled(looks)


def test_at_most_once_what_failed_is_moved_over_and_counts_no_records():
    for told in handled(fails, True, True, guarantee="at-most-once"):
        assert (told.reached, told.committed, told.error.code) == (10, True, "HandlerError")
        assert (told.records, told.bytes, told.timestamps_s) == (0, 0, ())
        assert (told.lost_from, told.lost) == (0, 8)


def test_what_somebody_else_has_claimed_counts_no_records():
    ours, theirs = handled(lambda _f, _w: None, True, False, guarantee="at-most-once")
    assert (ours.records, ours.bytes, ours.committed) == (8, 80, True)
    assert (theirs.records, theirs.bytes, theirs.superseded) == (0, 0, True)


def test_exactly_once_is_not_handed_what_is_somebody_elses_by_now():
    given = []

    def handler(_frame, wave):
        given.extend(wave.slices)

    ours, theirs = handled(handler, True, False, guarantee="exactly-once")
    assert given == [PIECES[0]]
    assert (ours.reached, ours.committed, ours.superseded) == (10, False, False)
    assert (theirs.records, theirs.bytes, theirs.superseded) == (0, 0, True)


def test_exactly_once_is_not_called_when_all_of_it_is_somebody_elses():
    told = handled(fails, False, False, guarantee="exactly-once")
    assert [each.superseded for each in told] == [True, True]


def test_a_failed_call_took_its_time_all_the_same():
    shared = with_share(handled(fails), READ, 4.0)
    assert sum(told.seconds for told in shared) == pytest.approx(5.0)
