"""What an earlier attempt wrote of recorded slices counts, whatever their handler would say now.

A handler may depend on more than its records, as on who is a tenant today. If it calls a record bad
in a replay that the lost attempt had passed on, the slice stops, or the record becomes a dead
letter, beside what stands in the sink. So a sink that says ``asks_first`` is asked what is there
before the handler is called, and what is there is taken as done.

Sinks that replace what an earlier attempt left are not asked: there the last attempt is right.
"""

from __future__ import annotations

from headrace.errors import HeadraceError
from headrace.ports import AskedFirst, Effect, Written
from headrace.spark.portions import Portion
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
    try:
        told = writer.already([_without_rows(portion) for portion in asked])
    except HeadraceError as error:
        for portion in asked:
            tally.stop(portion, error_of(error))
        return [portion for portion in portions if not portion.records.num_rows]
    left = [portion for portion in portions if not portion.records.num_rows]
    for portion, reached in zip(asked, told, strict=True):
        if reached is None:
            left.append(portion)
        else:
            tally.wrote(portion, Written(reached=reached), 0)
    return left


def _without_rows(portion: Portion) -> Effect:
    return Effect(portion.slices, portion.reached, portion.records.slice(0, 0).select([]))
