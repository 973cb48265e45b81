"""Keys of 10 MB, with order by key: what a worker holds of them, and what they cost the others.

Each task that has buckets of a partition reads all of it and hashes each key. So few records fill
what may be held, and the rest of each bucket is read by itself. Five other use cases go on beside.
"""

import threading
import time
from collections import defaultdict
from contextlib import suppress

import psutil
from confluent_kafka import Producer
from driver_process import until
from matrix import ROW
from rig import TENANTS, Rig

from headrace.connectors.kafka import producer_config
from headrace.testing.kafka_topics import KafkaTopics

pytestmark = ROW
RECORDS, KEYS, KEY_BYTES = 150, 6, 10_000_000
#: less than all that waits: what a reader holds, in some copies, and what is imported
MOST_OF_A_WORKER = 1_000_000_000
#: without an effect of five use cases that get 50 records a second
LONGEST_PAUSE_S = 10.0
LARGE = """
import pyarrow.compute as pc

@use_case(
    topic=TOPIC + ".large", sink=SqlTable("large", columns=COLUMNS), guarantee="exactly-once",
    order="key", buckets=4,
)
def large(table, context):
    assert pc.min(pc.binary_length(table["key"])).as_py() == {key_bytes}
    return places(table, context)
"""


def send_large(rig, topic):
    """Records with a few keys, in turn; returns the key of each offset."""
    largest = {"message.max.bytes": str(2 * KEY_BYTES)}
    producer = Producer({**producer_config(rig.config), **largest})
    for number in range(RECORDS):
        key = b"%d" % (number % KEYS)
        producer.produce(topic, b"", key.ljust(KEY_BYTES, b"."), partition=0)
        assert producer.flush(60) == 0
    return [number % KEYS for number in range(RECORDS)]


class Watch:
    """The largest worker, and the longest pause of what others do."""

    def __init__(self, rig, driver):
        self.most_bytes, self.longest_s = 0, 0.0
        self._rig, self._driver, self._over = rig, driver, threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self._thread.join(30)

    def _look(self):
        seen, at_s = self._rig.count("transacts"), time.monotonic()
        while not self._over.wait(0.1):
            self.most_bytes = max(self.most_bytes, *self._workers())
            count, now_s = self._rig.count("transacts"), time.monotonic()
            self.longest_s = max(self.longest_s, now_s - at_s)
            if count > seen:
                seen, at_s = count, now_s

    def _workers(self):
        yield 0
        for process in self._driver.tree():
            with suppress(psutil.Error):
                if "python" in process.name() and process.pid != self._driver.process.pid:
                    yield process.memory_info().rss


def test_large_keys_are_in_order_and_neither_fill_a_worker_nor_hold_up_others(kafka, tmp_path):
    more = LARGE.replace("{key_bytes}", str(KEY_BYTES))
    rig = Rig(tmp_path / "service", kafka.bootstrap_servers, more=more)
    topic = f"{rig.topic(TENANTS[0])}.large"
    KafkaTopics(kafka.bootstrap_servers).make_named(
        topic, 1, {"max.message.bytes": str(2 * KEY_BYTES)}
    )
    with rig.sending(50.0), rig.start() as driver:
        rig.progressing(driver)
        with Watch(rig, driver) as watch:
            keys = send_large(rig, topic)
            until(lambda: rig.count("large") >= RECORDS, driver.tail, 120.0)
        driver.drain()
    done = defaultdict(list)
    for _, _, made in rig.made("large"):
        done[keys[made.place.offset]].append(made.place.offset)
    assert dict(done) == {key: list(range(key, RECORDS, KEYS)) for key in range(KEYS)}
    with rig.store() as store:
        buckets = [p for p in store.progress.load_positions() if p.lane.use_case == "large"]
    assert len(buckets) == 4
    assert watch.most_bytes < MOST_OF_A_WORKER, f"{watch.most_bytes / 2**20:.0f} MiB"
    assert watch.longest_s < LONGEST_PAUSE_S, f"{watch.longest_s:.1f} s"
    rig.settle()
    rig.judge("keys of 10 MB beside others")
