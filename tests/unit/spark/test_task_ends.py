"""Calls of a task that take too long, and what the next attempt finds after a worker died."""

import contextvars
import gc
import threading
import time

import pytest
from task_bench import ListSink, by_tenant, of_acme, with_tenant

from headrace.errors import TenantsSinkSlow
from headrace.model.lane_names import number_of
from headrace.model.streams import LaneId, Slice, StreamId
from headrace.ports import Written
from headrace.process.crash_points import PlayedKill
from headrace.spark.crash_markers import CrashMarkers
from headrace.spark.slice_errors import error_of


class DeadCrumbs(CrashMarkers):
    """Nobody is there any more to clear them up."""

    def during(self, planned, call):
        kept = bytes(self._map)
        try:
            return super().during(planned, call)
        except PlayedKill:
            number = self._number[planned].to_bytes(4, "little")
            kept = kept[: self._at] + number + kept[self._at + len(number) :]
            raise
        finally:
            self._map[:] = kept


def hangs_at(value):
    def hangs(table, context):
        if context.tenant == "acme" and value in table["value"].to_pylist():
            time.sleep(60)
        return with_tenant(table, context)

    return hangs


def test_in_company_a_call_that_takes_too_long_is_ended_and_the_neighbours_go_on(bench):
    bench.limits = {"timeout_s": 0.6}
    receipts = by_tenant(bench.run(ListSink(), handler=hangs_at(b"3")))
    assert receipts["acme"].error.code == "HandlerSlow"
    assert receipts["acme"].error.temporary
    assert receipts["bolt"].reached == 10


OVER = threading.Event()


@pytest.fixture(autouse=True, scope="module")
def _over():
    """Tests of other files do not wait for what these left."""
    yield
    OVER.set()


class Left:
    """What a call has opened, and hangs where it is closed."""

    def __del__(self):
        """Wait for a server."""
        if not OVER.is_set():
            time.sleep(60)


#: what ends the call is raised there, and Python says that it is lost
ENDED_WHERE_IT_IS_FREED = pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)
KEPT = contextvars.ContextVar("kept")


def grow_old(left):
    """Have Python collect by itself, as behind a parser that makes many objects."""
    objects = []
    while all(one is not left for one in gc.get_objects(2)):
        objects.append([[] for _ in range(1_000)])


def fails(left):
    """A call that holds what it was given."""
    raise ValueError(type(left))


def error_of_a_call(left):
    """An error that came through one."""
    try:
        fails(left)
    except ValueError as error:
        return error


class Holding(ValueError):
    """Has what it is about, for whoever catches it."""

    def __init__(self, left):
        self.left = left


def waits_after(error):
    """As before another try."""
    try:
        raise error
    except Holding:
        time.sleep(60)


HOW = ["ring", "old ring", "error", "group", "context", "attribute", "caught"]


def leaves(how, value):
    """A handler that leaves something at a record of acme: in a ring, errors or a context.

    An ``old`` ring is in the oldest generation when the call is over.
    """

    def handler(table, context):
        if context.tenant == "acme" and value in table["value"].to_pylist():
            left = Left()
            if how in ("ring", "old ring"):
                left.me = left
            if how == "old ring":
                grow_old(left)
            if how == "context":
                KEPT.set(left)
            if how == "error":
                raise ValueError("no")
            if how == "group":
                raise ExceptionGroup("all", [error_of_a_call(left)])
            if how == "attribute":
                raise Holding(left)
            if how == "caught":
                waits_after(Holding(left))
        return with_tenant(table, context)

    return handler


@ENDED_WHERE_IT_IS_FREED
@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("guarantee", ["at-most-once", "at-least-once"])
def test_what_a_call_leaves_that_hangs_is_its_own_trouble_in_company(bench, guarantee, how):
    bench.limits = {"timeout_s": 0.6}
    receipts = by_tenant(bench.run(ListSink(), handler=leaves(how, b"3"), guarantee=guarantee))
    assert receipts["acme"].error.code == "HandlerSlow"
    assert (receipts["bolt"].reached, receipts["bolt"].error) == (10, None)
    assert receipts["bolt"].lost == 0


@ENDED_WHERE_IT_IS_FREED
@pytest.mark.parametrize("how", HOW)
def test_what_a_call_leaves_that_hangs_is_a_hang_where_it_is_alone(bench, how):
    bench.limits = {"timeout_s": 1.5}
    alone = tuple(piece for piece in bench.slices() if piece.lane.tenant == "acme")
    sink = ListSink()
    (receipt,) = bench.run(sink, handler=leaves(how, b"3"), slices=alone)
    assert (receipt.error.code, receipt.error.offset, receipt.reached) == ("HandlerHung", 3, 3)
    assert of_acme(sink) == [b"0", b"1", b"2"]


class HeldUp(ListSink):
    """Says of one tenant that its own database took long, and came to nothing."""

    def _write(self, effect):
        if effect.slices[0].lane.tenant != "acme":
            return super()._write(effect)
        return Written(error=error_of(TenantsSinkSlow("locked")), seconds=5.0)


def test_a_tenant_whose_own_database_hangs_pays_for_that_and_its_neighbours_do_not(bench):
    receipts = by_tenant(bench.run(HeldUp()))
    assert (receipts["acme"].records, receipts["bolt"].records) == (0, 10)
    assert receipts["acme"].seconds > 5.0
    assert receipts["bolt"].seconds < 1.0


class RunsOut(ListSink):
    """Has no time left for one tenant."""

    def _write(self, effect):
        if effect.slices[0].lane.tenant != "acme":
            return super()._write(effect)
        return Written(untried=True)


@pytest.mark.parametrize("order", ["lane", "stream"])
def test_what_a_sink_had_no_time_to_try_is_not_reached_and_has_no_error(bench, order):
    receipts = by_tenant(bench.run(RunsOut(), order=order))
    acme, bolt = receipts["acme"], receipts["bolt"]
    assert (acme.reached, acme.error, acme.records) == (0, None, 0)
    assert not acme.superseded
    assert (bolt.reached, bolt.records) == (10, 10)


class SeesCompany(ListSink):
    """Keeps whether others waited."""

    def open(self, site):
        self.in_company = site.in_company
        return self


def test_a_sink_knows_whether_others_wait(bench):
    sink = SeesCompany()
    bench.run(sink)
    assert sink.in_company
    bench.run(sink, slices=bench.slices()[:1])
    assert not sink.in_company


def test_alone_in_haste_a_call_has_no_more_patience_than_in_company(bench):
    bench.limits = {"timeout_s": 0.6}
    alone = tuple(piece for piece in bench.slices() if piece.lane.tenant == "acme")
    (receipt,) = bench.run(ListSink(), handler=hangs_at(b"3"), slices=alone, hurried=True)
    assert (receipt.error.code, receipt.error.temporary) == ("HandlerSlow", True)


def test_alone_a_call_that_hangs_is_ended_and_its_record_found(bench):
    bench.limits = {"timeout_s": 1.0}
    alone = tuple(piece for piece in bench.slices() if piece.lane.tenant == "acme")
    sink = ListSink()
    (receipt,) = bench.run(sink, handler=hangs_at(b"3"), slices=alone)
    assert (receipt.error.code, receipt.error.offset) == ("HandlerHung", 3)
    assert receipt.reached == 3
    assert of_acme(sink) == [b"0", b"1", b"2"]


def test_a_hang_that_is_of_no_single_record_blames_none(bench):
    bench.limits = {"timeout_s": 0.6}
    alone = tuple(piece for piece in bench.slices() if piece.lane.tenant == "acme")

    def hangs(table, context):
        if table.num_rows > 4:
            time.sleep(60)
        return with_tenant(table, context)

    (receipt,) = bench.run(ListSink(), handler=hangs, slices=alone)
    assert (receipt.error.code, receipt.error.offset) == ("HandlerHung", None)
    assert receipt.reached == 0


def test_a_spent_budget_ends_a_group_between_two_portions(bench):
    def slow(table, context):
        time.sleep(0.06)
        return with_tenant(table, context)

    receipts = by_tenant(bench.run(ListSink(), handler=slow, budget_s=0.05))
    assert sorted(receipt.reached for receipt in receipts.values()) == [0, 10]


def test_the_next_attempt_passes_over_the_slice_that_killed_the_worker(bench, tmp_path):
    def kills(table, context):
        if context.tenant == "acme":
            raise PlayedKill
        return with_tenant(table, context)

    slices = bench.slices()
    with pytest.raises(PlayedKill):
        bench.run(ListSink(), handler=kills, markers=DeadCrumbs(tmp_path / "marker", slices))
    receipts = by_tenant(
        bench.run(ListSink(), handler=kills, markers=CrashMarkers(tmp_path / "marker", slices))
    )
    assert receipts["acme"].error.code == "WorkerKilled"
    assert receipts["acme"].reached == 0
    assert receipts["bolt"].reached == 10


@pytest.mark.parametrize(("until", "named"), [(3, None), (1, 0)])
def test_a_record_that_is_a_batch_of_its_own_is_not_blamed_for_a_later_one(
    bench, tmp_path, monkeypatch, until, named
):
    """The marker says at which slice a worker died, and not at which batch of it."""

    def kills(table, context):
        if table["offset"][-1].as_py() == until - 1:
            raise PlayedKill
        return with_tenant(table, context)

    monkeypatch.setattr("headrace.spark.task.BATCH_RECORDS", 1)
    path, slices = tmp_path / "marker", bench.slices(until=until)[:1]
    with pytest.raises(PlayedKill):
        bench.run(ListSink(), handler=kills, slices=slices, markers=DeadCrumbs(path, slices))
    markers = CrashMarkers(path, slices)
    (receipt,) = bench.run(ListSink(), handler=kills, slices=slices, markers=markers)
    assert (receipt.error.code, receipt.error.offset) == ("WorkerKilled", named)


def test_with_order_stream_a_killer_is_named_on_its_own_lane(bench, tmp_path):
    def kills(_table, _context):
        raise PlayedKill

    epoch = bench.epochs[StreamId("keep", "acme")]
    # Both go on, so nothing younger than the last record of either is taken: that of lane 1.
    slices = tuple(
        Slice(
            LaneId("keep", "acme", f"acme.visits[{lane}]"),
            "acme.visits",
            start,
            start + 1,
            epoch,
            more=True,
        )
        for lane, start in ((0, 5), (1, 0))
    )
    path = tmp_path / "marker"
    markers = DeadCrumbs(path, slices)
    with pytest.raises(PlayedKill):
        bench.run(ListSink(), handler=kills, slices=slices, order="stream", markers=markers)
    receipts = bench.run(
        ListSink(), handler=kills, slices=slices, order="stream", markers=CrashMarkers(path, slices)
    )
    errors = {number_of(receipt.slice.lane.name): receipt.error for receipt in receipts}
    assert errors[0] is None
    assert (errors[1].code, errors[1].offset) == ("WorkerKilled", 0)
