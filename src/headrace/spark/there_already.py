"""What an earlier attempt wrote of recorded slices counts, whatever their handler would say now.

A handler may depend on more than its records, as on who is a tenant today. If it calls a record bad
in a replay that the lost attempt had passed on, the slice stops, or the record becomes a dead
letter, beside what stands in the sink. So a sink that says ``asks_first`` is asked what is there
before the handler is called, and what is there is taken as done.

Sinks that replace what an earlier attempt left are not asked: there the last attempt is right.
"""

from __future__ import annotations

from headrace.ports import AskedFirst, Effect, Written
from headrace.process.crash_points import PlayedKill
from headrace.spark.portions import Portion
from headrace.spark.process_settings import run_apart
from headrace.spark.sink_answers import answers_of
from headrace.spark.slice_errors import error_of
from headrace.spark.tally import Tally


def not_yet_there(
    writer: AskedFirst | None, portions: list[Portion], tally: Tally
) -> list[Portion]:
    """Portions that are still to be handled; the others are in the tally, done or stopped.

    Args:
        writer: is asked; None: nobody is.
        portions: of recorded slices, no lane twice.
        tally: of their bin.
    """
    asked = [portion for portion in portions if portion.records.num_rows]
    if writer is None or not asked:
        return portions
    left = [portion for portion in portions if not portion.records.num_rows]
    effects = [_without_rows(portion) for portion in asked]
    for portion, answer in zip(asked, _answers(writer, effects), strict=True):
        if answer.error is not None:
            tally.stop(portion, answer.error)
        elif answer.reached is None:
            left.append(portion)
        else:
            tally.wrote(portion, answer, 0)
    return left


def _answers(writer: AskedFirst, effects: list[Effect]) -> list[Written]:
    """How far each came; an error for each, whatever the sink raises, as it may be a user's own."""
    try:
        told = run_apart(lambda: [Written(reached=at) for at in writer.already(effects)])
        return answers_of(effects, told)
    except PlayedKill:
        raise
    except BaseException as error:  # asyncio.CancelledError, say, or a panic of Rust
        return [Written(error=error_of(error))] * len(effects)


def _without_rows(portion: Portion) -> Effect:
    return Effect(portion.slices, portion.reached, portion.records.slice(0, 0).select([]))
