"""What Spark had kept of a wave is lost, and is read again, when brokers are away or back.

Blocks are dropped as the death of an executor drops them; ``test_spark_cluster.py`` kills one.
"""

import threading
from pathlib import Path

import pytest
from fading_reader import FadingReader
from pyspark.sql import functions as sf

from headrace.model.records import Deployment, LaneStart
from headrace.model.streams import LaneId, Slice, StreamId, Tenant
from headrace.model.waves import Bin, Wave
from headrace.ports import Connections
from headrace.spark.engine import SparkEngine, TaskTools
from headrace.store import SqlPositionsFactory, open_store
from headrace.testing.dead_letters_fake import MemoryDeadLetters
from headrace.use_cases import use_case

pytestmark = [pytest.mark.spark, pytest.mark.slow]
TOPIC = "{tenant}.visits"
TENANTS = ("acme", "bolt")
ALL = [("acme", offset) for offset in range(10)]


def offsets(frame):
    return sorted((row[0], row[1]) for row in frame.select("tenant", "offset").collect())


class Site:
    """A driver's engine, and brokers that a test sends away."""

    def __init__(self, spark, folder):
        self.spark, self.away = spark, folder / "away"
        self.url = f"sqlite:///{folder / 'store.db'}"
        self.store = open_store(self.url)
        self.store.registry.deploy(Deployment("report", "m.py", "0" * 64, TOPIC))
        for name in TENANTS:
            self.store.registry.add_tenant(Tenant(name))
        for stream in self.store.membership.hold([StreamId("report", name) for name in TENANTS]):
            self.store.progress.start_lanes(
                [LaneStart(stream, "id", {f"{stream.tenant}.visits[0]": 0})]
            )
        self.made = 0

    def run(self, handler, records=0, tenants=("acme",), **options):
        """What becomes of a wave; brokers that go give so many records before."""
        reader = FadingReader(away=str(self.away), records=records)
        connections = Connections({}, self.url)
        tools = TaskTools(connections, reader, SqlPositionsFactory(), MemoryDeadLetters())
        engine = SparkEngine(self.spark, tools)
        made = use_case(topic=TOPIC, form="wave", name="report", **options)(handler)
        pieces = (
            Slice(LaneId("report", name, f"{name}.visits[0]"), f"{name}.visits", 0, 10, 1)
            for name in tenants
        )
        self.made += 1
        wave = Wave(f"w{self.made}", "report", tuple(Bin((piece,), 1.0) for piece in pieces), 60.0)
        try:
            engine.take(made, Deployment("report", "m.py", "0" * 64, TOPIC))
            engine.start(wave)
            (result,) = engine.finished(180.0)
        finally:
            engine.close()
        return result

    def lose_blocks(self):
        """Whatever was kept of a frame is gone."""
        master = self.spark.sparkContext._jsc.sc().env().blockManager().master()
        for number in list(self.spark.sparkContext._jsc.getPersistentRDDs().keys()):
            master.removeRdd(int(number), True)


@pytest.fixture
def site(spark, tmp_path):
    spark.sparkContext.addPyFile(str(Path(__file__).with_name("fading_reader.py")))
    made = Site(spark, tmp_path)
    yield made
    made.store.close()


def joined(frame):
    others = frame.select("tenant", sf.col("offset").alias("again"))
    return frame.join(sf.broadcast(others), "tenant").collect()


ACTIONS = {
    "few": lambda frame: frame.limit(3).collect(),
    "group": lambda frame: frame.groupBy("tenant").count().collect(),
    "iterate": lambda frame: list(frame.where("tenant = 'acme'").toLocalIterator()),
    "join": joined,
}


@pytest.mark.parametrize("action", ACTIONS)
def test_a_wave_that_is_read_again_while_no_broker_answers_is_lost_as_a_whole(site, action):
    def report(frame, _wave):
        site.lose_blocks()
        site.away.touch()
        ACTIONS[action](frame)

    result = site.run(report)
    assert result.receipts == ()
    assert (result.error.code, result.error.temporary) == ("ReadOtherwise", True)
    assert "was 10 records up to 10, and when Spark read it again 0 up to 0" in result.error.message
    assert "BrokerUnavailable: no broker answers" in result.error.message


def test_a_table_that_is_written_while_no_broker_answers_is_not_there(site, tmp_path):
    def report(frame, _wave):
        frame.count()
        site.lose_blocks()
        site.away.touch()
        frame.write.parquet(str(tmp_path / "table"))

    assert site.run(report).error.code == "ReadOtherwise"
    assert not list((tmp_path / "table").glob("*.parquet"))


def test_a_wave_that_is_read_again_when_brokers_are_back_is_not_given_more(site):
    seen = []

    def report(frame, _wave):
        site.away.unlink()
        site.lose_blocks()
        seen.append(offsets(frame.limit(15)))

    site.away.touch()
    result = site.run(report, records=4)
    assert result.error.code == "ReadOtherwise"
    assert "was 4 records up to 4, and when Spark read it again 10" in result.error.message
    assert seen == []


def test_a_wave_that_is_read_again_and_is_the_same_is_done(site):
    seen = []

    def report(frame, _wave):
        for _ in range(2):
            site.lose_blocks()
            seen.append(offsets(frame))

    result = site.run(report)
    assert (result.error, seen) == (None, [ALL, ALL])
    assert [receipt.reached for receipt in result.receipts] == [10]


def test_what_was_read_before_is_forgotten_with_its_wave(site):
    """The same thread may run the next wave, of which other things were read."""
    site.away.touch()
    assert site.run(lambda frame, _: frame.count(), records=4).error is None
    site.away.unlink()
    seen = []

    def report(frame, _wave):
        site.lose_blocks()
        seen.append(offsets(frame))
        properties = site.spark.sparkContext._jsc.sc().getLocalProperties()
        seen.append([name for name in properties if name.startswith("headrace.read.")])

    assert site.run(report).error is None
    assert seen[0] == ALL
    assert len(seen[1]) == 1


@pytest.mark.parametrize("cause", ["told", "untold"])
def test_a_handler_that_has_other_words_for_it_is_not_blamed(site, cause):
    def report(frame, _wave):
        site.lose_blocks()
        site.away.touch()
        try:
            frame.count()
        except Exception as error:
            raise ValueError("no report today") from (error if cause == "told" else None)

    assert site.run(report).error.code == "ReadOtherwise"


def test_a_wave_that_is_read_again_for_one_tenant_alone_is_lost_as_a_whole(site):
    def report(frame, wave):
        if len(list(wave.slices)) == 2:
            raise ValueError("not both")
        site.lose_blocks()
        site.away.touch()
        frame.count()

    assert site.run(report, tenants=TENANTS).error.code == "ReadOtherwise"


def test_at_most_once_a_wave_that_was_claimed_and_read_otherwise_is_lost(site):
    def report(frame, _wave):
        site.lose_blocks()
        site.away.touch()
        frame.count()

    result = site.run(report, guarantee="at-most-once")
    assert result.error.code == "ReadOtherwise"
    assert {position.next_offset for position in site.store.progress.load_positions()} == {0, 10}


@pytest.mark.parametrize("lost", [False, True])
def test_a_thread_of_the_handlers_own_reads_what_is_kept_and_nothing_again(site, lost):
    seen = []

    def looks(frame):
        try:
            seen.append(offsets(frame))
        except Exception as error:
            seen.append(error)

    def report(frame, _wave):
        if lost:
            site.lose_blocks()
        thread = threading.Thread(target=looks, args=(frame,))
        thread.start()
        thread.join()
        if seen[0] != ALL:
            raise seen[0]

    result = site.run(report)
    if not lost:
        assert (result.error, seen) == (None, [ALL])
    else:
        assert result.error.code == "ReadOtherwise"
        assert "where nobody knows what it was at first" in result.error.message
