"""Who ran where, for how long, and what became of it."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from headrace.model.receipts import Receipt, SliceError
from headrace.model.statistics import Outcome
from headrace.model.streams import LaneId, Slice
from headrace.model.waves import Bin, Wave
from headrace.ports import WaveResult
from headrace.telemetry.timeline import MOST_TENANTS, MOST_WAVES, SHOWN_S, Timeline

ERROR = SliceError(False, "HandlerError", "boom")


def wave(name, *tenants_of_bins):
    bins = tuple(
        Bin(
            tuple(
                Slice(LaneId("score", tenant, "t[0]"), "t", 0, 10, 1, records=10)
                for tenant in tenants
            ),
            0.1,
        )
        for tenants in tenants_of_bins
    )
    return Wave(name, "score", bins, 1.0)


def result(wave, seconds=0.0, error=None, **changes):
    """Everything done, but for changes by tenant."""
    receipts = []
    for piece in wave.slices:
        done = Receipt(piece, piece.until_offset, True, records=piece.records)
        receipts.append(replace(done, **changes.get(piece.lane.tenant, {})))
    return WaveResult(wave, tuple(receipts) if error is None else (), seconds, error)


def ended(*waves, **options):
    line = Timeline()
    for begun in waves:
        line.started(begun, 100.0)
        line.ended(result(begun, **options), 105.0)
    return line.figures(106.0)


def test_what_became_of_each_bin_is_told():
    made = wave("w", ("acme", "bolt"), ("core",), ("done",))
    (found,) = ended(made, acme={"error": ERROR, "reached": 3}, core={"reached": 5, "records": 5})
    assert [bin_.outcome for bin_ in found.bins] == [
        Outcome.FAILED,
        Outcome.YIELDED,
        Outcome.DONE,
    ]
    assert [(bin_.records, bin_.tenants) for bin_ in found.bins[1:]] == [
        (5, ("core",)),
        (10, ("done",)),
    ]


def test_a_wave_that_failed_as_a_whole_says_why():
    (found,) = ended(wave("w", ("acme",), ("bolt",)), error=ERROR)
    assert found.error == "boom"
    assert {bin_.outcome for bin_ in found.bins} == {Outcome.FAILED}


def test_a_slice_that_somebody_else_had_done_did_not_yield():
    (found,) = ended(wave("w", ("acme",)), acme={"reached": 0, "superseded": True})
    assert found.bins[0].outcome is Outcome.DONE


def test_a_wave_ended_when_it_ran_out_and_not_when_somebody_looked():
    (found,) = ended(wave("w", ("acme",)), seconds=2.5)
    assert (found.started_at_s, found.ended_at_s) == (100.0, 102.5)


def test_tenants_with_the_most_records_are_named_first_and_the_others_counted():
    names = [f"t{number:02}" for number in range(30)]
    records = {name: {"records": number} for number, name in enumerate(names)}
    (found,) = ended(wave("w", names), **records)
    (bin_,) = found.bins
    assert bin_.tenants == tuple(reversed(names))[:MOST_TENANTS]
    assert (bin_.tenants_total, bin_.records) == (30, sum(range(30)))


def test_a_recorded_wave_that_runs_again_is_told_each_time():
    again = wave("w", ("acme",))
    assert [figures.ended_at_s for figures in ended(again, again)] == [105.0, 105.0]


def test_the_newest_come_first_and_old_ones_are_dropped():
    line = Timeline()
    for number in range(MOST_WAVES + 50):
        line.started(wave(f"w{number}", ("acme",)), 100.0 + number)
        line.ended(result(wave(f"w{number}", ("acme",))), 100.5 + number)
    last_s = 100.0 + MOST_WAVES + 49
    found = line.figures(last_s + 1)
    assert [figures.started_at_s for figures in found] == [last_s - n for n in range(MOST_WAVES)]
    assert len(line.figures(last_s + SHOWN_S - 9)) == 10
    assert line.figures(last_s + SHOWN_S + 2) == ()


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 4)), max_size=60))
def test_no_two_bins_that_run_at_once_are_in_one_row_and_rows_are_used_again(steps):
    line, running, most = Timeline(), {}, 0
    for number, bins in steps:
        name = f"w{number}"
        if name in running:
            line.ended(result(running.pop(name)), 1.0)
        else:
            running[name] = wave(name, *[("acme",)] * bins)
            line.started(running[name], 0.0)
        most = max(most, sum(len(begun.bins) for begun in running.values()))
        told = [figure for figure in line.figures(1.0) if figure.ended_at_s is None]
        rows = [bin_.slot for wave_ in told for bin_ in wave_.bins]
        assert len(set(rows)) == len(rows)
        assert max(rows, default=0) < max(1, most)
