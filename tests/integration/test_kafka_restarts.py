"""Streams that were left alone on a real Kafka: what they pass over, by its own offsets and times.

Nobody waits here: records say that they are old, and the store is made to have been asleep.
"""

import sqlite3
import time
from contextlib import closing

import pytest
from two_tenants import BOLT, Service

from headrace.model.restarts import Restart
from headrace.model.streams import PassedRange
from headrace.testing.kafka_topics import KafkaTopics
from headrace.testing.log_fake import Row

pytestmark = pytest.mark.kafka
OLD_S = 400.0
_TIMES = [("headrace_positions", "moved_s"), ("headrace_streams", "expected_s")]


class LeftAlone(Service):
    """One whose streams nobody may have committed for long."""

    def __init__(self, folder, topics, **more):
        self.folder = folder
        super().__init__(folder, topics, **more)

    def send_of_age(self, tenant, records, age_s=OLD_S, partition=0):
        row = Row(b"x", timestamp_ms=int((time.time() - age_s) * 1000))
        self.topics.write(self.topic(tenant), partition, [row] * records)

    def long_ago(self):
        """All that was committed was so before the old records came."""
        with closing(sqlite3.connect(f"{self.folder}/store.db")) as connection, connection:
            for table, column in _TIMES:
                connection.execute(f"UPDATE {table} SET {column} = {column} - ?", [OLD_S])

    def holders(self):
        return {stream.id.tenant: stream.holder for stream in self.store.registry.streams()}

    def reads_on(self, tenant, count):
        """So many records more than it had seen at first, and no other."""
        first = {"acme": 5, "bolt": 3}[tenant]
        self.until(lambda: len(self.seen[tenant]) >= first + count)
        return self.seen[tenant][first:]


@pytest.fixture
def service(tmp_path, kafka):
    made = []

    def make(restart, partitions=1):
        topics = KafkaTopics(kafka.bootstrap_servers)
        made.append(LeftAlone(tmp_path, topics, partitions=partitions, restart=restart))
        made[0].begin()
        return made[0]

    yield make
    for driver in made:
        driver.close()


def test_what_a_killed_driver_left_alone_is_passed_over_by_exact_offsets(service):
    killed = service(Restart(300.0))
    killed.send_of_age("acme", 7)
    killed.send_of_age("bolt", 2, age_s=20.0)
    killed.long_ago()
    killed.start()
    killed.until(killed.notes)
    killed.send("acme", 1)
    assert killed.reads_on("acme", 1) == [(0, 12)]
    assert (killed.notes(), killed.told) == ([(0, 5, 12)], [PassedRange(5, 12)])
    assert killed.reads_on("bolt", 2) == [(0, 3), (0, 4)]
    killed.bolt_is_undisturbed(sent=5)


def test_a_stream_in_good_order_passes_nothing_over(service):
    drained = service(Restart(300.0))
    drained.driver.drain()
    drained.until(lambda: drained.driver.drained)
    drained.driver.leave()
    drained.send_of_age("acme", 7)
    drained.long_ago()
    drained.start()
    assert drained.reads_on("acme", 7) == [(0, offset) for offset in range(5, 12)]
    assert (drained.notes(), drained.told) == ([], [])


def test_of_a_drain_that_took_too_long_only_what_still_ran_is_passed_over(service):
    cut = service(Restart(300.0))
    cut.send_of_age("acme", 1)
    cut.slice_in_flight()
    cut.driver.drain()
    cut.driver.leave()
    assert cut.holders() == {"acme": "driver", "bolt": None}
    for tenant in ("acme", "bolt"):
        cut.send_of_age(tenant, 6)
    cut.long_ago()
    cut.start()
    assert cut.reads_on("bolt", 6) == [(0, offset) for offset in range(3, 9)]
    assert cut.store.failures.every(BOLT) == []
    cut.until(cut.notes)
    cut.send("acme", 1)
    assert cut.reads_on("acme", 1) == [(0, 12)]
    assert (cut.notes(), cut.told) == ([(0, 5, 12)], [PassedRange(5, 12)])


def test_it_goes_on_where_records_are_young_enough_in_each_partition(service):
    killed = service(Restart(300.0, max_age_s=60.0), partitions=2)
    killed.send_of_age("acme", 4)
    killed.send_of_age("acme", 2, age_s=10.0)
    killed.send_of_age("acme", 3, partition=1)
    killed.long_ago()
    killed.start()
    assert killed.reads_on("acme", 2) == [(0, 9), (0, 10)]
    assert sorted(killed.notes()) == [(0, 5, 9), (1, 0, 3)]
    killed.send("acme", 1, partition=1)
    assert killed.reads_on("acme", 3)[2:] == [(1, 3)]
    assert sorted(killed.told) == [PassedRange(0, 3), PassedRange(5, 9)]
