"""Who holds a slot for long, and who waits for one meanwhile.

A stream that waits looks like one of which nothing is wrong: it is active, has records to do and
does none. So where a wave has run for long, its streams are told so, and so are those that could
run and do not. Whose wave it is the others are not told: a tenant sees what is said of its streams,
and has no business with the names of others.

How long it is is told in steps, since whatever changes each second is described anew each time.
"""

from __future__ import annotations

from bisect import bisect_right

from headrace.board import Board, Flight
from headrace.model.streams import StreamId

#: seconds; what runs for less than the first is not worth a word
_STEPS = (10, 30, 60, 120, 300, 600, 1_800, 3_600)


def long_runs(board: Board, now_s: float) -> dict[StreamId, str]:
    """What is to be said as of a second of the steady clock; of most streams nothing is."""
    long = [flight for flight in board.flights.values() if now_s - flight.since_s >= _STEPS[0]]
    if not long:
        return {}
    longest = _told(now_s - min(flight.since_s for flight in long))
    waits = f"waits for a slot: other streams hold theirs for more than {longest}"
    said = {
        held.stream.id: f"{held.limited_by} holds it back" if held.limited_by else waits
        for held in board.runnable(now_s)
        if not board.runs(held) and not held.throttled
    }
    for flight in long:
        run = _run(flight, now_s)
        said |= {piece.lane.stream: run for piece in flight.wave.slices}
    return said


def _run(flight: Flight, now_s: float) -> str:
    use_case, lasts = f"use case {flight.wave.use_case}", _told(now_s - flight.since_s)
    if not flight.cold:
        return f"{use_case} has been handling records of it for more than {lasts}"
    return (
        f"{use_case} has been starting with records of it for more than {lasts}: its workers may "
        "have to start and to load it first, else its handler takes long"
    )


def _told(seconds: float) -> str:
    step = _STEPS[bisect_right(_STEPS, seconds) - 1]
    return f"{step} s" if step < 120 else f"{step // 60} min"
