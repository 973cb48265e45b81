"""What every place for statistics must do, as tests.

A subclass gives two fixtures: ``statistics``, empty, and ``open_again``, which opens the same once
more, as a console in another process would::

    class TestMyStatistics(StatisticsContract):
        @pytest.fixture
        def statistics(self): ...

        @pytest.fixture
        def open_again(self, statistics): ...
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from threading import Thread

import numpy as np
import pytest

from headrace.model.places import UNKNOWN, place_at
from headrace.model.statistics import (
    BinFigures,
    LagIs,
    LaneFigures,
    Outcome,
    Point,
    Report,
    Spread,
    StreamFigures,
    UseCaseFigures,
    WaveFigures,
    WriterFigures,
)
from headrace.model.streams import StreamId
from headrace.ports import Statistics
from headrace.telemetry.sketches import FINE, Sketch, packed, spread_of

ACME, BOLT = StreamId("score", "acme"), StreamId("score", "bolt")
#: a whole hour, and a moment a day and a half later
HOUR_S = 1_700_000_000.0 // 3600 * 3600
LATER_S = HOUR_S + 36 * 3600.0

#: as wide as the places of some logs are
_WIDE = place_at(49590338271490256608559692538361571095921575989136588898)

Open = Callable[[], Statistics]


def report_of(driver: str, at_s: float, *streams: StreamId) -> Report:
    """A report with something in every field."""
    spread = Spread(3, 0.1, 0.2, 0.25, None, 0.25)
    told = tuple(
        StreamFigures(
            stream, f"{stream.tenant}.visits", "suspended 1/2", 2, 1.5, 0.5, 0.25, spread,
            True, 0.125, 11, 1, 2, "run-1.0", "HandlerError: \u00e9 \U0001f680",
            (
                LaneFigures(f"{stream.tenant}.visits[0]", place_at(7), place_at(9), lag_records=2),
                LaneFigures(f"{stream.tenant}.visits[1]", place_at(4), place_at(-1), failure=3),
                LaneFigures(f"{stream.tenant}.visits[2]", _WIDE, UNKNOWN, lag_is=LagIs.UNKNOWN),
            ),
            lag_is=LagIs.ABOUT, retry_at_s=12.5, topic_trouble="a key has no shard",
            writers=(WriterFigures("value", "100001", 9, 5.0, 6.5),),
        )
        for stream in streams
    )  # fmt: skip
    bins = (BinFigures(0, ("acme",), 1, 9, Outcome.YIELDED), BinFigures(1, (), 0, 0, Outcome.DONE))
    waves = (WaveFigures("run-1.0", "score", 5.0, None, bins, "lost"),)
    use_cases = (UseCaseFigures("score", 4, spread, Spread(), spread, 1.5, 100.0, None, 50.0),)
    ui = "http://127.0.0.1:4040"
    return Report(driver, at_s, 1.0, 4, 8, 3, 2, ui, told, use_cases, waves)


def point_of(stream: StreamId, from_s: float, *delays_s: float, lag: int = 0) -> Point:
    """A fresh point."""
    sketch = Sketch(FINE)
    sketch.update(np.array(delays_s, np.float32))
    count = len(delays_s)
    told = (lag, lag / 2, count + 1, count, count / 4, spread_of(sketch), packed(sketch))
    return Point(stream, from_s, 60.0, *told)


class _Reports:
    def test_a_report_comes_back_as_it_was_told(
        self, statistics: Statistics, open_again: Open
    ) -> None:
        told = report_of("one", 10.5, ACME, BOLT)
        statistics.publish(told)
        assert open_again().reports() == [told]

    def test_the_latest_word_of_each_driver_counts_by_name(self, statistics: Statistics) -> None:
        statistics.publish(report_of("two", 1.0, ACME))
        statistics.publish(report_of("one", 2.0))
        statistics.publish(report_of("two", 3.0, BOLT))
        assert [(report.driver, report.at_s) for report in statistics.reports()] == [
            ("one", 2.0),
            ("two", 3.0),
        ]
        assert [stream.stream for stream in statistics.reports()[1].streams] == [BOLT]

    def test_a_driver_that_has_left_is_forgotten_and_an_unknown_one_is_let_be(
        self, statistics: Statistics
    ) -> None:
        statistics.publish(report_of("one", 1.0))
        statistics.publish(report_of("two", 1.0))
        statistics.forget("one")
        statistics.forget("nobody")
        assert [report.driver for report in statistics.reports()] == ["two"]

    def test_a_driver_that_is_silent_for_a_day_is_forgotten(self, statistics: Statistics) -> None:
        statistics.publish(report_of("one", LATER_S - 3600.0))
        statistics.publish(report_of("two", LATER_S - 25 * 3600.0))
        statistics.thin(LATER_S)
        assert [report.driver for report in statistics.reports()] == ["one"]


class _History:
    def test_a_point_comes_back_as_it_was_kept(
        self, statistics: Statistics, open_again: Open
    ) -> None:
        told = point_of(ACME, HOUR_S, 0.5, 1.5, lag=3)
        statistics.keep([told])
        assert open_again().history([ACME], HOUR_S, HOUR_S + 1) == [told]

    def test_points_of_a_clock_that_was_wrong_are_dropped_at_once(
        self, statistics: Statistics
    ) -> None:
        statistics.keep([point_of(ACME, 0.0, 0.5), point_of(ACME, 10.0**8, 0.5)])
        fresh = point_of(ACME, LATER_S - 60.0, 0.5)
        statistics.keep([fresh])
        statistics.thin(LATER_S)
        assert statistics.history(None, 0.0, LATER_S) == [fresh]

    def test_a_point_of_the_same_time_is_replaced(self, statistics: Statistics) -> None:
        statistics.keep([point_of(ACME, HOUR_S, 0.5)])
        again = point_of(ACME, HOUR_S, 2.5)
        statistics.keep([again])
        statistics.keep([])
        assert statistics.history(None, 0.0, LATER_S) == [again]

    def test_points_come_by_stream_and_time_from_the_streams_and_the_time_asked_for(
        self, statistics: Statistics
    ) -> None:
        made = [point_of(stream, HOUR_S + 60 * n) for stream in (BOLT, ACME) for n in (2, 0, 1)]
        statistics.keep(made)
        until_s = HOUR_S + 120

        def found(streams: list[StreamId] | None) -> list[tuple[StreamId, float]]:
            points = statistics.history(streams, HOUR_S, until_s)
            return [(point.stream, point.from_s) for point in points]

        acme = [(ACME, HOUR_S), (ACME, HOUR_S + 60)]
        assert found([ACME]) == acme
        assert found(None) == [*acme, (BOLT, HOUR_S), (BOLT, HOUR_S + 60)]
        assert found([]) == []

    def test_after_two_hours_ten_minutes_become_one_point_that_knows_all_its_delays(
        self, statistics: Statistics
    ) -> None:
        minutes = [point_of(ACME, HOUR_S + 60.0 * n, n + 0.5, lag=n) for n in range(12)]
        statistics.keep([*minutes, point_of(BOLT, HOUR_S + 60.0, 9.0)])
        statistics.thin(HOUR_S + 2 * 3600.0 + 659.0)
        merged, *fresh = statistics.history([ACME], HOUR_S, LATER_S)
        assert fresh == minutes[10:]
        assert (merged.from_s, merged.span_s) == (HOUR_S, 600.0)
        assert (merged.records_in, merged.records_out, merged.task_s) == (20, 10, 2.5)
        assert (merged.lag_records, merged.lag_s) == (9, 4.5)
        spread = merged.delay
        assert (spread.count, spread.min_s, spread.max_s) == (10, 0.5, 9.5)
        assert spread.p50_s == pytest.approx(4.5, abs=1.0)
        assert statistics.history([BOLT], HOUR_S, LATER_S)[0].delay.max_s == 9.0

    def test_a_point_that_comes_after_the_others_were_merged_is_merged_as_well(
        self, statistics: Statistics
    ) -> None:
        statistics.keep([point_of(ACME, HOUR_S, 1.0)])
        statistics.thin(HOUR_S + 3 * 3600.0)
        late = point_of(ACME, HOUR_S + 60.0, 3.0)
        statistics.keep([late])
        assert statistics.history([ACME], 0.0, LATER_S) == [late]  # the shortest span tells
        for _ in range(2):
            statistics.thin(HOUR_S + 3 * 3600.0)
            (both,) = statistics.history([ACME], 0.0, LATER_S)
            assert (both.records_out, both.delay.min_s, both.delay.max_s) == (2, 1.0, 3.0)

    def test_two_drivers_that_thin_at_once_count_nothing_twice(
        self, statistics: Statistics, open_again: Open
    ) -> None:
        names = [StreamId("score", f"t{number}") for number in range(8)]
        statistics.keep(
            [point_of(name, HOUR_S + 60.0 * n, 1.0) for name in names for n in range(5)]
        )
        at_s = HOUR_S + 3 * 3600.0
        others = [Thread(target=open_again().thin, args=(at_s,)) for _ in range(2)]
        for other in others:
            other.start()
        for other in others:
            other.join()
        found = statistics.history(None, 0.0, LATER_S)
        assert [(point.stream, point.records_out) for point in found] == [
            (name, 5) for name in names
        ]

    def test_what_is_older_than_a_day_is_dropped(self, statistics: Statistics) -> None:
        statistics.keep([point_of(ACME, HOUR_S + 3600.0 * n, 1.0) for n in range(36)])
        statistics.thin(LATER_S)
        found = statistics.history(None, 0.0, LATER_S)
        assert min(point.from_s for point in found) == LATER_S - 24 * 3600.0
        assert [point.span_s for point in found] == [600.0] * 22 + [60.0] * 2

    def test_a_point_without_delays_has_none_when_it_is_merged(
        self, statistics: Statistics
    ) -> None:
        silent = replace(point_of(ACME, HOUR_S), lag_records=4)
        statistics.keep([silent])
        statistics.thin(LATER_S - 24 * 3600.0)
        (merged,) = statistics.history(None, 0.0, LATER_S)
        assert (merged.delay, merged.sketch, merged.lag_records) == (Spread(), b"", 4)


class StatisticsContract(_Reports, _History):
    """Every promise of ``headrace.ports.Statistics``."""
