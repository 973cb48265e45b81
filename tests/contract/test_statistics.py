"""The promises about statistics, kept by each store and by the fake."""

import json
import zlib
from dataclasses import asdict, replace

import pytest
from sqlalchemy import insert, select, update

from headrace.model.lane_names import number_of
from headrace.store import open_store
from headrace.store.schema import points, reports
from headrace.testing.memory_store import MemoryStore
from headrace.testing.statistics_contract import (
    ACME,
    HOUR_S,
    LATER_S,
    StatisticsContract,
    point_of,
    report_of,
)


class _OnDatabases(StatisticsContract):
    @pytest.fixture
    def stores(self, url):
        made = [open_store(url)]
        yield made
        for store in made:
            store.close()

    @pytest.fixture
    def statistics(self, stores):
        return stores[0].statistics

    @pytest.fixture
    def open_again(self, stores, url):
        def again():
            stores.append(open_store(url))
            return stores[-1].statistics

        return again

    @pytest.mark.parametrize("broken", [b"", b"\x08newer", b"\x01no zlib"])
    def test_a_report_that_cannot_be_read_is_passed_over(self, statistics, stores, broken):
        statistics.publish(report_of("one", 1.0, ACME))
        with stores[0]._database.write() as connection:
            connection.execute(insert(reports).values(driver="bad", at_s=1.0, report=broken))
        assert [report.driver for report in statistics.reports()] == ["one"]

    @pytest.mark.parametrize("form", [b"\x01", b"\x03", b"\x05", b"\x06"])
    def test_a_report_of_a_version_before_is_read(self, statistics, stores, form):
        told = report_of("one", 1.0, ACME)
        statistics.publish(replace(told, streams=()))
        # It wrote no places as wide as the last lane's.
        stream = replace(told.streams[0], lanes=told.streams[0].lanes[:2])
        before = asdict(stream)
        for name in ("retry_at_s", "passed_over_records_total", "topic_trouble"):
            del before[name]
        for lane in before["lanes"]:
            lane["partition"] = number_of(lane.pop("name"))
        with stores[0]._database.write() as connection:
            newest = connection.scalars(select(reports.c.report)).one()
            whole = json.loads(zlib.decompress(newest[1:])) | {"streams": [before]}
            for use_case in whole["use_cases"]:
                del use_case["state_hits_total"], use_case["state_misses_total"]
            older = form + zlib.compress(json.dumps(whole).encode())
            connection.execute(update(reports).values(report=older))
        (found,) = statistics.reports()
        assert found.streams == (replace(stream, retry_at_s=None, topic_trouble=""),)

    def test_a_message_that_holds_half_a_character_is_told_without_it(self, statistics):
        told = report_of("one", 1.0, ACME)
        half = replace(told.streams[0], note="cannot take \ud83d")
        waves = (replace(told.waves[0], error="\udc80"),)
        statistics.publish(replace(told, streams=(half,), waves=waves))
        (found,) = statistics.reports()
        assert (found.streams[0].note, found.waves[0].error) == ("cannot take ?", "?")

    def test_a_point_whose_sketch_cannot_be_read_keeps_its_figures(self, statistics, stores):
        statistics.keep([point_of(ACME, HOUR_S, 1.0), point_of(ACME, HOUR_S + 60, 2.0)])
        with stores[0]._database.write() as connection:
            broken = points.c.from_s == int(HOUR_S)
            connection.execute(update(points).where(broken).values(sketch=b"\xff\x00rubbish"))
        statistics.thin(HOUR_S + 3 * 3600.0)
        (merged,) = statistics.history([ACME], 0.0, LATER_S)
        assert (merged.records_out, merged.delay.count) == (2, 1)


class TestSqliteStatistics(_OnDatabases):
    @pytest.fixture
    def url(self, tmp_path):
        return f"sqlite:///{tmp_path}/store.db"


class TestPostgresStatistics(_OnDatabases):
    @pytest.fixture
    def url(self, made_postgresql_url):
        return made_postgresql_url


class TestMemoryStatistics(StatisticsContract):
    @pytest.fixture
    def store(self):
        return MemoryStore()

    @pytest.fixture
    def statistics(self, store):
        return store.statistics

    @pytest.fixture
    def open_again(self, store):
        return lambda: MemoryStore(store.data).statistics
