"""A driver that divides a shared topic, on a real Kafka: in a test, or as a process to be killed.

As a program: `split_app.py SERVERS DATABASE MARK` runs until everything is divided and brought.
"""

from __future__ import annotations

import sys
import time
import uuid

from headrace.connectors.by_topic import ReadersByTopic, open_log
from headrace.connectors.kafka import KafkaDeadLettersFactory
from headrace.cycle.driver import Driver, DriverParts
from headrace.model.places import number_at
from headrace.model.plans import Limits
from headrace.model.records import Deployment
from headrace.ports import Connections
from headrace.process.clock import SystemClock
from headrace.splitting import ByHeader, Topic, split
from headrace.store import SqlPositionsFactory, SqlTenantsFactory, open_store
from headrace.testing.at_once import at_once
from headrace.testing.engine_fake import InProcessEngine

DEADLINE_S = 120.0
SLICE_RECORDS = 50


def pair(mark, **more):
    """The two use cases of a test, with topics of its own."""
    given = {
        "topic": "{tenant}.all",
        "operator": f"shared-{mark}",
        "tenant": ByHeader("customer"),
        "unknown": Topic(f"strangers-{mark}"),
    }
    return split(to="{tenant}.visits", **given | more)


class App:
    """A driver with its store."""

    def __init__(self, servers, url, use_cases, slice_records=SLICE_RECORDS, others=None):
        self.connections = Connections(
            {"bootstrap.servers": servers}, url, servers=others or {}, seal_key=b"k" * 32
        )
        self.store, self.log = open_store(url), open_log(self.connections)
        letters = KafkaDeadLettersFactory()
        self.engine = InProcessEngine(
            self.connections,
            ReadersByTopic(),
            SqlPositionsFactory(),
            letters,
            tenants=SqlTenantsFactory(),
        )
        self._letters = letters.open(self.connections)
        parts = DriverParts(self.store, self.log, self.engine, self._letters, SystemClock())
        limits = Limits(slice_records=slice_records)
        self.driver = Driver(parts, uuid.uuid4().hex, limits, threads=at_once)
        for made in use_cases:
            deployment = Deployment(
                made.name, "m.py", "0" * 64, made.topic, bad_record=made.bad_record
            )
            self.store.registry.deploy(deployment)
            self.engine.take(made, deployment)
            self.driver.take(made, deployment)

    def turns_until(self, done):
        deadline_s = time.monotonic() + DEADLINE_S
        while not done():
            assert time.monotonic() < deadline_s, [
                (str(row.stream), row.state, row.note, row.lag_records)
                for row in self.driver.rows()
            ]
            self.driver.turn()
            time.sleep(0.01)

    def note(self, stream):
        """What is told of a stream."""
        return next((row.note or "" for row in self.driver.rows() if row.stream == stream), "")

    def is_done(self, tenant, use_case):
        """Whether a stream is at the end of its topic."""
        lanes = {
            position.lane.name: position.next_offset
            for position in self.store.progress.load_positions()
            if (position.lane.tenant, position.lane.use_case) == (tenant, use_case)
        }
        ends = self.log.end_offsets(list(lanes))
        return bool(lanes) and all(
            number_at(lanes[lane]) >= number_at(ends.get(lane, sys.maxsize)) for lane in lanes
        )

    def close(self):
        for part in (self._letters, self.log, self.store):
            part.close()


def main(servers, url, mark):
    """Divide until nothing is left."""
    app = App(servers, url, pair(mark))
    app.turns_until(lambda: app.is_done(f"shared-{mark}", "split"))
    app.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
