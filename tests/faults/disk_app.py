"""A driver whose store lives on a disk of its own, run as a process so that the disk can fail.

``python disk_app.py FOLDER full`` fills the disk under the running driver and frees it again;
``python disk_app.py FOLDER flaky`` is run where flushing to the disk fails for a while. Prints one
line of JSON: what was committed, what was found, and what the driver had to say.
"""

import json
import sys
from pathlib import Path

import pyarrow as pa
import structlog

from headrace.cycle.driver import Driver, DriverParts
from headrace.model.records import Deployment
from headrace.model.streams import Tenant
from headrace.ports import Connections, Site
from headrace.sinks import SqlTable
from headrace.store import SqlPositionsFactory, open_store
from headrace.testing.at_once import at_once
from headrace.testing.clock import FakeClock
from headrace.testing.dead_letters_fake import MemoryDeadLetters
from headrace.testing.engine_fake import InProcessEngine
from headrace.testing.log_fake import MemoryLog, MemoryReaderFactory, Row
from headrace.use_cases import use_case

TENANTS = ("acme", "bolt", "corp")
COLUMNS = {"tenant": "text", "record": "bigint", "pad": "text"}
RECORDS = 300


def places(table, context):
    rows = table.num_rows
    return pa.table(
        {
            "tenant": pa.array([context.tenant] * rows, pa.string()),
            "record": table["offset"].cast(pa.int64()),
            "pad": pa.array(["x" * 500] * rows, pa.string()),
        }
    )


def main(folder, mode):
    url = f"sqlite:///{folder}/store.db"
    store, log, clock = open_store(url), MemoryLog(), FakeClock()
    made = use_case(
        topic="{tenant}.visits",
        sink=SqlTable("seen", columns=COLUMNS),
        guarantee="exactly-once",
        name="keep",
    )(places)
    connections = Connections({}, url, warehouse=str(folder))
    engine = InProcessEngine(
        connections, MemoryReaderFactory(log), SqlPositionsFactory(), MemoryDeadLetters()
    )
    deployment = Deployment("keep", "m.py", "0" * 64, "{tenant}.visits")
    store.registry.deploy(deployment)
    for tenant in TENANTS:
        log.create_topic(f"{tenant}.visits", 1)
        store.registry.add_tenant(Tenant(tenant))
    driver = Driver(
        DriverParts(store, log, engine, MemoryDeadLetters(), clock), "run", threads=at_once
    )
    made.sink.prepare(Site(connections, store.positions))
    engine.take(made, deployment)
    driver.take(made, deployment)
    said = []
    structlog.configure(processors=[lambda _l, _m, event: kept(said, event)])
    try:
        drive(driver, log, clock, Path(folder), mode)
    finally:
        found = seen(store)
        store.close()
    trouble = [line["error"] for line in said if "error" in line]
    print(json.dumps({**found, "trouble": trouble}))


def kept(said, event):
    said.append(event)
    raise structlog.DropEvent


def drive(driver, log, clock, folder, mode):
    ballast = folder / "ballast"
    for number in range(RECORDS):
        for tenant in TENANTS:
            log.append(f"{tenant}.visits", 0, [Row(b"x", timestamp_ms=1)])
        if mode == "full" and number == RECORDS // 3:
            fill(ballast)
        if mode == "full" and number == 2 * RECORDS // 3:
            ballast.unlink()
        driver.turn()
        clock.move(0.1)
    for _ in range(2000):
        driver.turn()
        clock.move(1.0)
        if driver.idle:
            return


def fill(path):
    """Take all that is left of the disk."""
    with path.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"\0" * 4096)
        except OSError:
            return


def seen(store):
    positions = sorted(
        [position.lane.tenant, position.next_offset] for position in store.progress.load_positions()
    )
    with store.positions.begin() as connection:
        rows = connection.exec_driver_sql("SELECT tenant, record FROM seen ORDER BY rowid")
        return {"positions": positions, "rows": [list(row) for row in rows]}


if __name__ == "__main__":
    main(*sys.argv[1:])
