"""A slice that is read again is what it was, or nobody is given anything of it."""

import pytest

from headrace.errors import BrokerUnavailable, ReadOtherwise
from headrace.model.receipts import Receipt
from headrace.model.streams import LaneId, Slice
from headrace.model.waves import Bin
from headrace.spark.reading_again import FIRST, Seen, compare, heard, read_otherwise, to_tell
from headrace.spark.slice_errors import error_of

PIECES = tuple(
    Slice(LaneId("report", "acme", f"acme.visits[{lane}]"), "acme.visits", 0, 10, 1)
    for lane in range(3)
)
BINS = (Bin(PIECES[:1], 1.0), Bin(PIECES[1:], 1.0))
READ = [Receipt(piece, 10, committed=False, records=8, bytes=80) for piece in PIECES]


def test_what_was_read_is_told_bin_by_bin_in_whatever_order_it_came():
    text = to_tell(BINS, [READ[2], READ[0], Receipt(PIECES[1], 4, committed=False, records=4)])
    assert heard(text, 0, BINS[0]) == {PIECES[0]: (10, 8)}
    assert heard(text, 1, BINS[1]) == {PIECES[1]: (4, 4), PIECES[2]: (10, 8)}
    assert heard(FIRST, 1, BINS[1]) is None


def test_whoever_was_told_nothing_reads_nothing():
    with pytest.raises(ReadOtherwise, match="nobody knows"):
        heard(None, 0, BINS[0])


def test_the_same_records_are_the_same_whatever_they_took():
    before = {PIECES[0]: Seen(10, 8)}
    compare(before, Receipt(PIECES[0], 10, committed=False, records=8, bytes=99, seconds=7.0))


@pytest.mark.parametrize(("reached", "records"), [(10, 7), (9, 8), (0, 0), (10, 9)])
def test_other_records_are_refused(reached, records):
    now = Receipt(
        PIECES[0],
        reached,
        committed=False,
        records=records,
        error=error_of(BrokerUnavailable("away")),
    )
    with pytest.raises(ReadOtherwise, match=f"again {records} .* {reached} .*able: away"):
        compare({PIECES[0]: Seen(10, 8)}, now)


def told_by_spark():
    """A Java error in whose text Python's is quoted."""
    text = "Job aborted.\nTraceback ...\nheadrace.errors.ReadOtherwise: it was 8\n\tat org.apache"
    return RuntimeError(text)


def test_what_spark_and_a_handler_made_of_it_is_seen_through():
    told = told_by_spark()
    assert str(read_otherwise(told)) == "it was 8"
    mine = ValueError("no report")
    mine.__context__ = told
    assert str(read_otherwise(mine)) == "it was 8"
    told.__context__ = mine
    assert str(read_otherwise(mine)) == "it was 8"
    assert read_otherwise(ValueError("ReadOtherwise: no")) is None


def test_an_error_without_words_is_somebody_elses():
    class Wordless(Exception):
        def __str__(self):
            raise KeyError

    assert read_otherwise(Wordless()) is None
