"""A sink of a user's own that answers nonsense: nothing is lost by it, and no neighbour waits."""

import math

import numpy as np
import pytest
from task_bench import ListSink, by_tenant, with_tenant

from headrace.errors import SinkRefused, SinkUnavailable
from headrace.ports import RefusedRow, Written
from headrace.spark.slice_errors import error_of

NEVER, LATER = error_of(SinkRefused("no such value")), error_of(SinkUnavailable("full"))
ROW = (RefusedRow(0, NEVER),)

ODD = {
    "forgot its return": None,
    "says yes": True,
    "error and rows": Written(error=LATER, refused=ROW),
    "superseded and rows": Written(superseded=True, refused=ROW),
    "untried and rows": Written(untried=True, refused=ROW),
    "superseded and reached": Written(superseded=True, reached=(10,)),
    "an exception as error": Written(error=SinkRefused("no")),
    "an exception of a row": Written(refused=(RefusedRow(1, SinkRefused("no")),)),
    "positions that are not its own": Written(committed=True),
    "reached more": Written(reached=(11,)),
    "reached what is before": Written(reached=(-1,)),
    "reached nothing": Written(reached=()),
    "reached words": Written(reached=("7",)),
    "a row before the first": Written(refused=(RefusedRow(-1, NEVER),)),
    "a row behind the last": Written(refused=(RefusedRow(10, NEVER),)),
    "rows in no order": Written(refused=(RefusedRow(2, NEVER), RefusedRow(1, NEVER))),
    "a row twice": Written(refused=(RefusedRow(2, NEVER), RefusedRow(2, NEVER))),
    "a row that is no number": Written(refused=(RefusedRow("2", NEVER),)),
    "rows that are none": Written(refused=(3, 4)),
    "rows that are not many": Written(refused=7),
    "rows that can be looked at once": Written(refused=iter(ROW)),
    "rows that compare to no yes or no": Written(refused=np.array([1, 2])),
    "places that compare to no yes or no": Written(reached=np.array([7, 8])),
    "seconds of words": Written(seconds="1"),
    "seconds of another day": Written(seconds=-1e6),
    "seconds without end": Written(seconds=math.inf),
}


class Odd(ListSink):
    """Answers nonsense for one tenant."""

    def __init__(self, answer):
        super().__init__()
        self.answer = answer

    def _write(self, effect):
        return self.answer if effect.slices[0].lane.tenant == "acme" else super()._write(effect)


@pytest.mark.parametrize("guarantee", ["at-least-once", "at-most-once"])
@pytest.mark.parametrize("answer", ODD.values(), ids=ODD.keys())
def test_what_means_nothing_stops_the_lane_by_name_and_no_other(bench, answer, guarantee):
    receipts = by_tenant(bench.run(Odd(answer), guarantee=guarantee, bad_record="dead-letter"))
    acme, bolt = receipts["acme"], receipts["bolt"]
    assert (acme.error.code, acme.error.temporary) == ("TargetMissing", False)
    assert "write()" in acme.error.message
    lost = 0 if guarantee == "at-most-once" else None
    assert (acme.records, acme.lost_from, bench.dead_letters.letters) == (0, lost, [])
    assert (bolt.reached, bolt.records, bolt.error) == (10, 10, None)


def test_what_comes_only_once_is_not_left_untried(bench):
    receipts = by_tenant(bench.run(Odd(Written(untried=True)), guarantee="at-most-once"))
    assert receipts["acme"].error.code == "TargetMissing"
    assert receipts["acme"].lost_from == 0


class Short(ListSink):
    """Leaves an answer out where it was given several effects, or gives one more."""

    def __init__(self, more):
        super().__init__()
        self.more = more

    def write(self, effects):
        told = [*super().write(effects)]
        if len(effects) < 2:
            return told
        return [*told, Written()] if self.more else told[1:]


@pytest.mark.parametrize("more", [True, False])
def test_answers_that_are_not_one_for_each_are_asked_for_one_by_one(bench, more):
    receipts = bench.run(Short(more))
    assert [(each.reached, each.error) for each in receipts] == [(10, None)] * len(receipts)


class Nothing(ListSink):
    """Forgets its return."""

    def write(self, effects):
        super().write(effects)


def test_a_sink_without_an_answer_stops_its_lanes_and_no_record_is_set_aside(bench):
    receipts = bench.run(Nothing(), handler=with_tenant, bad_record="dead-letter")
    assert {receipt.error.code for receipt in receipts} == {"TargetMissing"}
    assert bench.dead_letters.letters == []


@pytest.mark.parametrize("answer", [Written(refused=[]), Written(superseded=True, refused=[])])
def test_no_rows_are_none_as_a_list_too(bench, answer):
    receipts = by_tenant(bench.run(Odd(answer)))
    assert receipts["acme"].error is None
