"""What a scrape shows, and that it shows what is declared."""

from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from headrace.console.metric_list import COUNTER, METRICS, page
from headrace.console.metrics import OTHER, Metrics
from headrace.errors import StoreUnavailable
from headrace.model.statistics import LagIs, LaneFigures
from headrace.model.streams import StreamId
from headrace.testing.statistics_contract import report_of
from headrace.testing.statistics_fake import MemoryStatistics

ROOT = Path(__file__).parents[3]
ACME, BOLT, CORE = (StreamId("score", name) for name in ("acme", "bolt", "core"))
NOW_S = 100.0
LABELS = {metric.name: metric.labels for metric in METRICS}


def scraped(*reports, now_s=NOW_S, metrics=None, **options):
    """Samples by name and labels."""
    told = MemoryStatistics()
    for report in reports:
        told.publish(report)
    metrics = metrics or Metrics(told, now_s=lambda: now_s, **options)
    return samples_of(metrics.exposition())


def samples_of(text):
    found = {}
    for family in text_string_to_metric_families(text.decode()):
        for sample in family.samples:
            key = (sample.name, tuple(sample.labels[label] for label in LABELS[sample.name]))
            assert key not in found, f"{key} is shown twice, and Prometheus takes none of it"
            found[key] = sample.value
    return found


def told(at_s=NOW_S, *streams, **values):
    found = report_of("one", at_s, *streams)
    return replace(found, streams=tuple(replace(stream, **values) for stream in found.streams))


def test_a_scrape_shows_every_declared_metric_with_its_labels_and_nothing_else():
    whole = report_of("one", NOW_S, ACME, BOLT)
    (use_case,) = whole.use_cases
    use_case = replace(use_case, scheduling=use_case.processing, state_hits_total=3)
    text = scraped_text(replace(whole, use_cases=(use_case,)), most_tenants=1)
    shown = {}
    for family in text_string_to_metric_families(text.decode()):
        for sample in family.samples:
            shown[sample.name] = (family.type, set(sample.labels))
    assert shown == {metric.name: (metric.kind, set(metric.labels)) for metric in METRICS}


def scraped_text(*reports, **options):
    statistics = MemoryStatistics()
    for report in reports:
        statistics.publish(report)
    return Metrics(statistics, now_s=lambda: NOW_S, **options).exposition()


def test_names_end_in_their_units_and_counters_in_total():
    for metric in METRICS:
        assert metric.name.endswith("_total") == (metric.kind == COUNTER), metric.name
        assert metric.meaning.endswith("."), metric.name
        if metric.unit == "seconds" and metric.name.startswith("headrace_"):
            assert metric.name.endswith("_seconds"), metric.name


def test_the_page_of_the_documentation_is_the_list():
    assert (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8") == page()


def test_lag_is_told_under_the_names_that_lag_tools_know():
    lanes = (
        LaneFigures("acme.visits[0]", 7, 12, None, 4.5, 5),
        LaneFigures("acme.visits[1]", 4, -1),
    )
    found = scraped(told(NOW_S, ACME, lanes=lanes))
    place = ("headrace.score", "acme.visits", "0")
    assert found["kafka_consumergroup_lag", place] == 5
    assert found["kafka_consumergroup_group_lag", place] == 5
    assert found["kafka_consumergroup_group_lag_seconds", place] == 4.5
    assert found["kafka_consumergroup_current_offset", place] == 7
    assert found["kafka_topic_partition_current_offset", place[1:]] == 12
    assert ("kafka_consumergroup_lag", (*place[:2], "1")) not in found, "nobody knows its end"
    assert found["kafka_consumergroup_group_sum_lag", ("headrace.score",)] == 5
    assert found["kafka_consumergroup_group_max_lag_seconds", ("headrace.score",)] == 4.5


def test_other_tools_are_told_of_partitions_and_not_of_their_buckets():
    lanes = tuple(
        LaneFigures(f"acme.visits[0]#{number}/3", at, 12, None, late_s, 2, LagIs.ABOUT)
        for number, (at, late_s) in enumerate([(9, 1.0), (7, 4.5), (12, 0.0)])
    )
    found = scraped(told(NOW_S, ACME, lanes=lanes))
    place = ("headrace.score", "acme.visits", "0")
    assert found["kafka_consumergroup_current_offset", place] == 7
    assert found["kafka_consumergroup_lag", place] == 12 - 7
    assert found["kafka_consumergroup_group_lag_seconds", place] == 4.5
    assert found["kafka_topic_partition_current_offset", place[1:]] == 12
    assert found["kafka_consumergroup_group_sum_lag", ("headrace.score",)] == 12 - 7


def test_one_record_that_waits_is_one_though_each_bucket_rounds_up_its_share():
    lanes = tuple(
        LaneFigures(f"acme.visits[0]#{number}/16", 11, 12, None, 1.0, 1, LagIs.ABOUT)
        for number in range(16)
    )
    found = scraped(told(NOW_S, ACME, lanes=lanes))
    assert found["kafka_consumergroup_lag", ("headrace.score", "acme.visits", "0")] == 1


def test_two_use_cases_of_one_topic_show_its_end_once():
    other = StreamId("mail", "acme")
    found = scraped(told(NOW_S, ACME, other))
    assert found["kafka_topic_partition_current_offset", ("acme.visits", "0")] == 9


def test_tenants_beyond_the_cap_are_summed_up_and_a_metric_says_how_many():
    report = told(NOW_S, ACME, BOLT, CORE, lag_records=3, lag_s=2.0, records_total=5)
    found = scraped(report, most_tenants=1)
    assert found["headrace_stream_lag_records", ("acme", "score")] == 3
    assert ("headrace_stream_lag_records", ("bolt", "score")) not in found
    assert found["headrace_stream_lag_records", (OTHER, "score")] == 6
    assert found["headrace_stream_lag_seconds", (OTHER, "score")] == 2.0
    assert found["headrace_stream_records_total", (OTHER, "score")] == 10
    assert (found["headrace_tenants", ()], found["headrace_tenants_summed", ()]) == (3, 2)
    assert not any("bolt.visits" in labels for _, labels in found)
    lags = [value for (name, _), value in found.items() if name.endswith("group_sum_lag")]
    assert lags == [6], "the sum of a group is of all its tenants"


def test_topics_that_are_not_as_they_should_be_are_counted_beyond_the_cap():
    report = told(NOW_S, ACME, BOLT, CORE, topic_trouble="")
    streams = [replace(stream, topic_trouble="odd") for stream in report.streams[1:]]
    found = scraped(replace(report, streams=(report.streams[0], *streams)), most_tenants=1)
    assert found["headrace_stream_topic_trouble", ("acme", "score")] == 0
    assert found["headrace_stream_topic_trouble", (OTHER, "score")] == 2


def test_a_summed_counter_does_not_fall_when_one_of_its_streams_begins_at_0_again():
    statistics, clock = MemoryStatistics(), [NOW_S]
    metrics = Metrics(statistics, most_tenants=1, now_s=lambda: clock[0])
    totals = []
    for bolt, core in ((10, 5), (2, 7), (4, 7)):
        report = told(NOW_S, ACME, BOLT, CORE)
        streams = [replace(stream, records_total=10) for stream in report.streams]
        streams[1:] = [
            replace(streams[1], records_total=bolt),
            replace(streams[2], records_total=core),
        ]
        statistics.publish(replace(report, streams=tuple(streams)))
        clock[0] += 5.0
        found = samples_of(metrics.exposition())
        totals.append(found["headrace_stream_records_total", (OTHER, "score")])
    assert totals == [15, 19, 21]


def test_who_has_series_keeps_them_when_others_come():
    statistics, clock = MemoryStatistics(), [NOW_S]
    metrics = Metrics(statistics, most_tenants=1, now_s=lambda: clock[0])
    for streams in ((BOLT,), (ACME, BOLT)):
        statistics.publish(told(NOW_S, *streams))
        clock[0] += 5.0
        found = samples_of(metrics.exposition())
        assert ("headrace_stream_lag_records", ("bolt", "score")) in found


@pytest.mark.parametrize(("age_s", "up"), [(2.0, 1.0), (16.0, 0.0)])
def test_a_driver_that_is_silent_is_not_up(age_s, up):
    found = scraped(told(NOW_S - age_s, ACME))
    assert found["headrace_driver_up", ("one",)] == up
    assert found["headrace_driver_report_age_seconds", ("one",)] == age_s


def test_a_store_that_does_not_answer_is_told_and_the_scrape_succeeds():
    class Down(MemoryStatistics):
        def reports(self):
            raise StoreUnavailable("nobody there")

    metrics = Metrics(Down(), now_s=lambda: NOW_S)
    assert samples_of(metrics.exposition()) == {("headrace_statistics_up", ()): 0}


def test_many_scrapes_within_a_second_read_the_store_once():
    class Counting(MemoryStatistics):
        asked = 0

        def reports(self):
            self.asked += 1
            return super().reports()

    statistics, clock = Counting(), [NOW_S]
    metrics = Metrics(statistics, now_s=lambda: clock[0])
    for _ in range(5):
        metrics.exposition()
    assert statistics.asked == 1
    clock[0] += 1.0
    metrics.exposition()
    assert statistics.asked == 2


def test_where_state_was_found_is_shown_of_use_cases_that_have_some():
    whole = report_of("one", NOW_S, ACME)
    (use_case,) = whole.use_cases
    names = ["headrace_use_case_state_hits_total", "headrace_use_case_state_misses_total"]
    labels = ("one", use_case.use_case)
    for hits, misses, values in ((0, 0, [None, None]), (0, 2, [0, 2]), (3, 0, [3, 0])):
        told = replace(use_case, state_hits_total=hits, state_misses_total=misses)
        found = samples_of(scraped_text(replace(whole, use_cases=(told,))))
        assert [found.get((name, labels)) for name in names] == values
