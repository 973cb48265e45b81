"""What a driver tells of itself, and that telling is in nobody's way."""

import threading
import time

import pytest
import structlog

from headrace.errors import StoreUnavailable
from headrace.model.statistics import LaneFigures, Outcome, Spread
from headrace.model.streams import State, StreamId, Throttle
from headrace.telemetry.publishing import EVERY_S
from headrace.testing.statistics_fake import MemoryStatistics

ACME = StreamId("keep", "acme")


class Slow(MemoryStatistics):
    """A store whose answers have to be allowed."""

    def __init__(self):
        super().__init__()
        self.may = threading.Event()
        self.asked = threading.Event()
        self.told = []

    def publish(self, report):
        self.asked.set()
        assert self.may.wait(10.0)
        self.told.append(report.at_s)
        super().publish(report)


class Down(MemoryStatistics):
    """A store that does not answer as long as it is down."""

    down = True

    def publish(self, report):
        if self.down:
            raise StoreUnavailable("nobody there")
        super().publish(report)


@pytest.fixture
def told():
    return MemoryStatistics()


@pytest.fixture
def world(world, told):
    world.statistics = told
    world.deploy()
    return world


def report(world):
    """The last word of a driver."""
    world.driver.close()
    (found,) = world.statistics.reports()
    return found


def stream(world, name=ACME):
    return next(figures for figures in report(world).streams if figures.stream == name)


def test_a_stream_is_told_with_its_records_delays_and_lanes(world):
    world.tenant("acme", records=3, partitions=2)
    world.clock.move(2.0)
    world.start()
    world.turns(60)
    found = stream(world)
    assert (found.topic, found.state, found.lag_records, found.lag_s) == (
        "acme.visits",
        "active",
        0,
        0.0,
    )
    assert (found.records_total, found.delay.count) == (3, 3)
    assert found.delay.p99_s == pytest.approx(2.0, abs=0.5)
    assert found.lanes == (LaneFigures("acme.visits[0]", 3, 3), LaneFigures("acme.visits[1]", 0, 0))
    assert found.out_per_s == pytest.approx(3 / 6.0, rel=0.2)
    assert found.task_share == 1.0


def test_what_came_in_is_told_as_a_rate_and_what_waits_as_records_and_seconds(world):
    world.tenant("acme")
    world.start()
    world.turns(30)
    world.engine.paused = True
    world.send("acme", 10)
    world.turns(50)
    found = stream(world)
    assert found.lag_records == 10
    assert found.lag_s == pytest.approx(5.0, abs=EVERY_S)
    assert found.in_per_s == pytest.approx(10 / 8.0, rel=0.3)
    assert (found.out_per_s, found.delay) == (0.0, Spread())
    assert found.wave


def test_a_stream_that_rests_is_told_as_it_is_and_its_rates_fade(world):
    world.tenant("acme", records=5)
    world.start()
    world.turns(30)
    world.turns(70, seconds=1.0)
    found = stream(world)
    assert (found.in_per_s, found.out_per_s, found.task_share) == (0.0, 0.0, 0.0)
    assert (found.delay, found.records_total) == (Spread(), 5)


def test_what_an_operator_changes_is_told_although_nothing_runs(world):
    world.tenant("acme", records=5)
    world.start()
    world.turns(30)
    world.store.registry.set_tenant_state("acme", State.SUSPENDED)
    world.turns(30)
    assert stream(world).state == "suspended"


def test_a_throttled_stream_says_so(world):
    world.tenant("acme", records=500)
    world.store.registry.set_throttle("acme", Throttle(records_per_s=1.0))
    world.start()
    world.turns(50)
    found = stream(world)
    assert found.throttled
    assert found.state == "throttled"


def test_a_failure_is_told_at_its_lane_with_why(world):
    def fails(table, context):
        raise context.bad_record(0, "no good")

    world.use_cases = [world.make(fails)]
    world.deploy(retries=0)
    world.tenant("acme", records=2)
    world.start()
    world.turns(40)
    found = stream(world)
    assert found.state == "suspended"
    assert found.lanes[0].failure == world.store.failures.every(only_open=True)[0].id
    assert "no good" in found.note


def test_waves_are_told_newest_first_with_who_ran_in_them(world):
    world.tenant("acme", records=2)
    world.tenant("bolt", records=5)
    world.start()
    world.turns(10)
    world.engine.paused = True
    world.send("acme", 4)
    world.turns(30)
    running, *ended = report(world).waves
    assert (running.ended_at_s, running.bins[0].outcome) == (None, Outcome.RUNNING)
    assert (running.bins[0].tenants, running.bins[0].records) == (("acme",), 4)
    assert ended
    assert {bin_.outcome for wave in ended for bin_ in wave.bins} == {Outcome.DONE}
    assert sum(bin_.records for wave in ended for bin_ in wave.bins) == 7
    assert all(wave.ended_at_s >= wave.started_at_s for wave in ended)


def test_use_cases_are_told_with_rates_and_delays(world):
    world.tenant("acme", records=6)
    world.clock.move(1.0)
    world.start()
    world.turns(30)
    (found,) = report(world).use_cases
    assert (found.use_case, found.pace_per_s) == ("keep", None)
    assert found.bytes_out_per_s > 0
    assert found.waves_total == found.processing.count > 0
    assert found.records_per_s == pytest.approx(6 / 3.0, rel=0.3)
    assert found.delay.count == 6


def test_each_minute_of_a_stream_that_did_something_becomes_a_point(world):
    start_s = world.clock.wall_s // 60 * 60
    world.clock.move(start_s + 60 - world.clock.wall_s)
    world.tenant("acme")
    world.tenant("idle")
    world.start()
    world.turns(10, seconds=1.0)
    world.send("acme", 4)
    world.turns(115, seconds=1.0)
    world.driver.close()
    (point,) = world.statistics.history(None, 0.0, world.clock.wall_s)
    assert (point.stream, point.from_s, point.span_s) == (ACME, start_s + 60, 60.0)
    assert (point.records_in, point.records_out, point.delay.count) == (4, 4, 4)
    assert point.sketch


def test_a_slow_store_holds_up_no_turn_and_is_given_the_newest_report(world):
    world.statistics = slow = Slow()
    world.tenant("acme", records=3)
    world.start()
    world.turns(1)
    assert slow.asked.wait(10.0)
    world.turns(100)
    assert world.positions() == {("acme", 0): 3}
    slow.may.set()
    world.driver.close()
    first, *others = slow.told
    assert first == pytest.approx(world.clock.wall_s - 10.1)
    assert len(others) <= 2, "every report was kept"
    assert others[-1] == world.clock.wall_s


def test_a_store_that_does_not_answer_is_logged_once_and_told_again_when_it_does(world):
    world.statistics = down = Down()
    world.tenant("acme", records=3)
    with structlog.testing.capture_logs() as lines:
        world.start()
        for _ in range(4):
            world.turns(21)
            _written(world)
        down.down = False
        world.driver.close()
    assert [line["event"] for line in lines if "statistics" in line["event"]] == [
        "statistics not written; they go on by themselves"
    ]
    assert len(down.reports()) == 1


def test_a_report_that_cannot_be_told_does_not_end_the_telling(world):
    class Odd(Down):
        def publish(self, report):
            if self.down:
                raise TypeError("Type is not JSON serializable: numpy.float64")
            super().publish(report)

    world.statistics = odd = Odd()
    world.tenant("acme", records=3)
    with structlog.testing.capture_logs() as lines:
        world.start()
        world.turns(21)
        _written(world)
        odd.down = False
        world.driver.close()
    assert "statistics could not be told, and are left out" in [line["event"] for line in lines]
    assert len(odd.reports()) == 1


def test_a_minute_that_a_store_did_not_take_is_written_when_it_answers(world):
    world.statistics = down = Down()
    world.tenant("acme", records=3)
    world.start()
    world.turns(130, seconds=1.0)
    _written(world)
    assert down.history(None, 0.0, world.clock.wall_s) == []
    down.down = False
    world.turns(3, seconds=1.0)
    _written(world)
    (point,) = down.history(None, 0.0, world.clock.wall_s)
    assert point.records_out == 3


def test_a_driver_that_leaves_is_forgotten_and_one_that_only_stops_is_not(world):
    world.tenant("acme", records=3)
    world.start()
    world.turns(30)
    world.driver.close()
    assert len(world.statistics.reports()) == 1
    world.start()
    world.turns(30)
    world.driver.drain()
    world.driver.leave()
    world.driver.close()
    assert world.statistics.reports() == []


def test_a_driver_that_leaves_something_running_is_missed(world):
    world.tenant("acme", records=3)
    world.start()
    world.turns(30)
    world.engine.paused = True
    world.send("acme", 1)
    world.turns(3)
    world.driver.drain()
    world.driver.leave()
    world.driver.close()
    assert [report.driver for report in world.statistics.reports()] == ["driver"]


def _written(world):
    """Wait until nothing waits to be written."""
    deadline_s = time.monotonic() + 60.0
    while world.driver.publisher.is_busy:
        assert time.monotonic() < deadline_s
        time.sleep(0.001)
