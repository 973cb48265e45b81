"""A service that reads streams of Kinesis under fault: five use cases with a guarantee each.

Every record says which of its key it is, so that each sink can be held against what Kinesis has
acknowledged. Shards are split and merged meanwhile, so order is that of keys, and not of shards.
"""

import itertools
import json
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

import pyarrow.parquet as pq
from driver_process import DriverProcess, until
from matrix import note
from pyarrow.dataset import dataset
from rig import OF_EACH_GUARANTEE

from headrace.connectors.kafka import create_topics
from headrace.testing.kafka_topics import KafkaTopics
from headrace.testing.ledger import Found, Ledger, Place

USE_CASES = (
    """
import pyarrow as pa
from headrace import use_case
from headrace.sinks import KafkaTopic, ParquetFiles, SqlTable

TOPIC = "clicks:{{tenant}}.{name}"
COLUMNS = {{"tenant": "text", "word": "bigint", "number": "bigint"}}

def places(table, context):
    return pa.table({{
        "tenant": pa.array([context.tenant] * table.num_rows, pa.string()),
        "word": pa.array([int(key) for key in table["key"].to_pylist()], pa.int64()),
        "number": pa.array([int(value) for value in table["value"].to_pylist()], pa.int64()),
    }})
"""
    + OF_EACH_GUARANTEE
    + """OUT = KafkaTopic("{{tenant}}.{name}.out", transactional=True, partitions=1)

@use_case(topic=TOPIC, sink=OUT, guarantee="exactly-once")
def transfers(table, context):
    rows = places(table, context).to_pylist()
    return pa.table({{"value": [" ".join(map(str, row.values())) for row in rows]}})
"""
)
ONCE, NAMES = (
    ("transacts", "intends", "transfers"),
    ("transacts", "intends", "repeats", "claims", "transfers"),
)
TENANTS = ("t0", "t1")
KEYS = 8
#: of all keys of all tenants, by turns
PUTS_EVERY_S = 0.25


@dataclass
class KinesisRig:
    """A service in a folder, and everything that was ever put into its streams."""

    folder: Path
    bootstrap_servers: str
    #: what plays Kinesis
    server: object
    #: where drivers find it
    port: int
    name: str = field(default_factory=lambda: f"f{time.time_ns()}")
    ledger: Ledger = field(default_factory=Ledger)
    kills: int = 0
    reshards: int = 0
    _numbers: itertools.count = field(default_factory=itertools.count)

    def __post_init__(self):
        self.folder.mkdir()
        self.service = self.server.service()
        url = f"kinesis://eu-central-1?endpoint={quote(f'http://127.0.0.1:{self.port}', safe='')}"
        settings = {
            "module": "use_cases.py",
            "kafka": {"bootstrap.servers": self.bootstrap_servers},
            "database_url": f"sqlite:///{self.folder}/store.db",
            "warehouse": str(self.folder / "files"),
            "master": "local[2]",
            "connections": {"clicks": {"url": url, "user": "me", "password": "not a secret"}},
            "driver": {"lease": "3s"},
        }
        (self.folder / "headrace.yaml").write_text(json.dumps(settings))
        (self.folder / "use_cases.py").write_text(USE_CASES.format(name=self.name))
        for tenant in TENANTS:
            self.server.client.create_stream(StreamName=self.stream(tenant), ShardCount=2)
            self.service.settle(self.stream(tenant))
            self.ledger.topic(tenant, self.stream(tenant))
        self._headrace("use-cases", "deploy")
        for tenant in TENANTS:
            self._headrace("tenants", "add", tenant)

    def stream(self, tenant):
        return f"{tenant}.{self.name}"

    def _headrace(self, *words):
        done = subprocess.run(
            [sys.executable, "-m", "headrace", *words, "-c", "headrace.yaml"],
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def start(self, stop_at=""):
        """A driver; with ``stop_at`` it stops for ever at that step."""
        return DriverProcess(self, stop_at, (), {})

    # putting

    def put(self):
        """The next record of each key of each tenant."""
        number = next(self._numbers)
        records = [{"Data": b"%d" % number, "PartitionKey": str(key)} for key in range(KEYS)]
        for tenant in TENANTS:
            stream = self.stream(tenant)
            told = self.server.client.put_records(StreamName=stream, Records=records)
            assert not told["FailedRecordCount"], told
            for key in range(KEYS):
                self.ledger.acknowledged(Place(stream, key, number))

    @contextmanager
    def putting(self):
        """Keep putting until the block ends."""
        over, failed = threading.Event(), []

        def go_on():
            try:
                while not over.wait(PUTS_EVERY_S):
                    self.put()
            except Exception as error:
                failed.append(error)

        thread = threading.Thread(target=go_on, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join(30)
        assert not failed, failed

    def reshard(self):
        """Split a shard of one tenant, and merge two of another, by turns."""
        self.reshards += 1
        for number, tenant in enumerate(TENANTS):
            stream = self.stream(tenant)
            found = (one for one in self.service.shards(stream) if not one.closed)
            low, *others = sorted(found, key=lambda one: one.keys)
            if (self.reshards + number) % 2 and len(others) > 1:
                self.service.merge(stream, others[-2].number, others[-1].number)
            else:
                middle = (low.keys.first + low.keys.last + 1) // 2
                self.service.split(stream, low.number, middle)

    # judging

    def rows(self, table):
        """Effects in a table, in the order they were made."""
        try:
            path = f"file:{self.folder}/store.db?mode=ro"
            with closing(sqlite3.connect(path, uri=True, timeout=30)) as connection:
                asked = f"SELECT tenant, word, number FROM {table} ORDER BY rowid"
                return connection.execute(asked).fetchall()
        except sqlite3.OperationalError:
            return []  # the table is not there yet

    def effects(self, name):
        """Those of a use case; of files, whose order says nothing, in the order of records."""
        if name == "intends":
            folder = self.folder / "files" / name
            paths = dataset(folder, format="parquet").files if folder.is_dir() else []
            rows = [row for path in paths for row in pq.ParquetFile(path).read().to_pylist()]
            return sorted(self._found(*row.values()) for row in rows)
        if name == "transfers":
            topics = KafkaTopics(self.bootstrap_servers)
            outs = [f"{self.stream(tenant)}.out" for tenant in TENANTS]
            create_topics(topics.config, dict.fromkeys(outs, 1))
            rows = [one.value().decode().split() for out in outs for one in topics.messages(out)]
            return [self._found(*row) for row in rows]
        return [self._found(*row) for row in self.rows(name)]

    def _found(self, tenant, key, number):
        return Found(tenant, Place(self.stream(tenant), int(key), int(number)))

    def progressing(self, driver, by=60):
        """Wait until so many more effects are there."""
        before = len(self.rows("transacts"))
        until(lambda: len(self.rows("transacts")) >= before + by, driver.tail)

    def settle(self, deadline_s=180.0):
        """A last life, until all has come; then it drains."""
        names = [name for name in NAMES if name != "claims"]
        with self.start() as driver:
            for name in names:
                until(
                    lambda name=name: {one.place for one in self.effects(name)} >= self.ledger.sent,
                    lambda name=name: (name, driver.tail()),
                    deadline_s,
                )
            driver.drain()

    def judge(self, row):
        """Hold every guarantee against the ledger; note the result of this row of the matrix."""
        found = {name: self.ledger.judge(self.effects(name)) for name in NAMES}
        note(row, found, faults=self.kills, records=len(self.ledger))
        assert self.reshards
        for name in ONCE:
            assert found[name].clean, (name, str(found[name]))
        assert not found["repeats"].lost, str(found["repeats"])
        assert not found["repeats"].out_of_order, str(found["repeats"])
        assert not found["claims"].twice, str(found["claims"])
