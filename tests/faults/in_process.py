"""A driver in this process, on fakes but for its store and its sink.

What befalls one commit or one mail needs no processes to be killed, so such rows take seconds.
"""

import itertools
import time

import pyarrow as pa
from acme import DEADLINE_S

from headrace.cycle.driver import Driver, DriverParts
from headrace.model.plans import Limits
from headrace.model.records import Deployment
from headrace.model.streams import BadRecordPolicy, Tenant
from headrace.ports import Connections, Site
from headrace.store import SqlPositionsFactory
from headrace.testing.at_once import at_once
from headrace.testing.clock import FakeClock
from headrace.testing.dead_letters_fake import MemoryDeadLetters
from headrace.testing.engine_fake import InProcessEngine
from headrace.testing.ledger import Found, Ledger, Place
from headrace.testing.log_fake import MemoryLog, MemoryReaderFactory, Row
from headrace.use_cases import use_case

TENANTS = ("acme", "bolt", "cove")
RECORDS = 40
SLICE_RECORDS = 7
ALL_ROWS = sorted(itertools.product(TENANTS, range(RECORDS)))


def keep(table, context):
    tenant = pa.array([context.tenant] * table.num_rows, pa.string())
    return pa.table({"tenant": tenant, "place": table["offset"]})


def judged(rows):
    """What became of all records, by rows of tenant and offset in the order they were made."""
    ledger = Ledger()
    for tenant in TENANTS:
        ledger.topic(tenant, f"{tenant}.visits")
    for tenant, offset in ALL_ROWS:
        ledger.acknowledged(Place(f"{tenant}.visits", 0, offset))
    return ledger.judge(Found(who, Place(f"{who}.visits", 0, at)) for who, at in rows)


class World:
    """A driver that handles 40 records of each of three tenants."""

    def __init__(
        self,
        store,
        watch,
        folder,
        sink,
        guarantee,
        *,
        handler=keep,
        smtp_url=None,
        servers=None,
        **rules,
    ):
        #: the driver's store, and the same one by a way that nobody cuts
        self.store, self.watch = store, watch
        self.log, self.clock, self.letters = MemoryLog(), FakeClock(), MemoryDeadLetters()
        url = store._database.address.url.render_as_string(hide_password=False)
        connections = Connections(
            {}, url, smtp_url=smtp_url, warehouse=str(folder), servers=servers or {}
        )
        limits = Limits(slice_records=rules.pop("slice_records", SLICE_RECORDS), bins_per_wave=2)
        policy = rules.pop("bad_record", BadRecordPolicy.SUSPEND)
        made = use_case(
            topic="{tenant}.visits",
            sink=sink,
            name="keep",
            guarantee=guarantee,
            bad_record=policy.value,
        )(handler)
        deployment = Deployment("keep", "m.py", "00", "{tenant}.visits", bad_record=policy, **rules)
        store.registry.deploy(deployment)
        for name in TENANTS:
            self.log.create_topic(f"{name}.visits", 1)
            store.registry.add_tenant(Tenant(name))
            rows = [Row(b"%d" % offset, timestamp_ms=0) for offset in range(RECORDS)]
            self.log.append(f"{name}.visits", 0, rows)
        sink.prepare(Site(connections, store.positions))
        engine = InProcessEngine(
            connections, MemoryReaderFactory(self.log), SqlPositionsFactory(), self.letters
        )
        parts = DriverParts(store, self.log, engine, self.letters, self.clock)
        self.driver = Driver(parts, "run", limits, threads=at_once)
        engine.take(made, deployment)
        self.driver.take(made, deployment)

    def turn(self):
        self.driver.turn()
        self.clock.move(0.5)

    def until_done(self):
        deadline_s = time.monotonic() + DEADLINE_S
        while self.positions() != dict.fromkeys(TENANTS, RECORDS):
            self.turn()
            assert time.monotonic() < deadline_s, [row.note for row in self.driver.rows()]

    def positions(self):
        return {
            position.lane.tenant: position.next_offset
            for position in self.watch.progress.load_positions()
        }

    @property
    def done(self):
        return sum(row.records_total for row in self.driver.rows())
