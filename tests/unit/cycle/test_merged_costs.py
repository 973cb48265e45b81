"""Lanes that are merged are one call, and what it costs is learnt of it as one."""

from timed import Timed, TimedEngine

from headrace.model.receipts import Receipt


def test_the_fixed_cost_of_merged_lanes_is_known_and_their_slices_grow():
    """Of each lane alone seconds would be in proportion to its records, whatever a call costs."""
    timed = Timed({"calls": (2.0, 0.0001)}, lanes=2, order="stream", lag=600_000, steady=("calls",))
    timed.run(60.0)
    since_s = timed.clock.steady_s
    timed.run(60.0)
    assert timed.held("calls").cost.contrast.growing < 0.6
    assert timed.done("calls", since_s) / 60.0 > 1_000


def test_lanes_whose_calls_seem_to_take_longer_than_they_may_get_more_than_a_record(monkeypatch):
    """All old records are in one of twenty lanes, which then seem to take two seconds each."""
    whole = TimedEngine._merged

    def oldest(engine, slices):
        first, *others = slices
        yield from whole(engine, [first])
        for piece in others:
            yield Receipt(piece, piece.from_offset, committed=False)

    monkeypatch.setattr(TimedEngine, "_merged", oldest)
    timed = Timed({"calls": (2.0, 0.0001)}, lanes=20, order="stream", lag=200_000)
    timed.run(60.0)
    since_s = timed.clock.steady_s
    timed.run(60.0)
    assert timed.done("calls", since_s) / 60.0 > 1_000
