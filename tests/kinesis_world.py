"""A driver on Kinesis: the real log, readers, store and planner, and a fake of the service."""

from dataclasses import dataclass

import pyarrow as pa
from pyarrow.parquet import read_table

from driver_world import World
from headrace.connectors.kinesis import KinesisLog, KinesisReaderFactory
from headrace.connectors.kinesis.aggregated import hash_key_of
from headrace.model.streams import State, Tenant
from headrace.process.clock import SystemClock
from headrace.testing.kinesis.contract import Service
from headrace.testing.kinesis.service import FakeKinesis
from kinesis_topics import Given

STREAM = "acme.visits"
DAY_S = 86_400


@dataclass
class KinesisWorld(World):
    """A tenant, acme, whose topic is a stream of some shards."""

    guarantee: str = "exactly-once"
    #: what plays Kinesis in real time; None: a fake, in the time of the driver
    server: object = None

    def __post_init__(self):
        super().__post_init__()
        if self.server is None:
            self.kinesis, self.time = FakeKinesis(self.clock), self.clock
            self.service = Service(self.kinesis, self.clock.move)
        else:
            self.kinesis, self.time = self.server.client, SystemClock()
            self.service = self.server.service()
        self.log = KinesisLog(self.kinesis, self.time)
        self.use_cases = [self.make(self._keep, guarantee=self.guarantee)]
        self.deploy()
        #: how many records of each key were written
        self.written = {}

    def _keep(self, table, context):
        rows = list(zip(table["key"].to_pylist(), table["value"].to_pylist(), strict=True))
        self.seen += rows
        return pa.table({"key": [key for key, _ in rows], "value": [value for _, value in rows]})

    def readers(self):
        return KinesisReaderFactory(Given(self.kinesis), self.time, self.service.wait)

    def begin(self, shards=1):
        """Acme comes, with a stream; and a driver."""
        self.kinesis.create_stream(StreamName=STREAM, ShardCount=shards)
        self.service.settle(STREAM)
        self.store.registry.add_tenant(Tenant("acme"))
        self.start()

    def put(self, key, records=1):
        """The next records of a key, which say which of it they are."""
        for _ in range(records):
            number = self.written[key] = self.written.get(key, 0) + 1
            self.kinesis.put_record(StreamName=STREAM, Data=b"%d" % number, PartitionKey=key)

    @property
    def shards(self):
        """Those that take records, in the order of their keys."""
        found = (one for one in self.service.shards(STREAM) if not one.closed)
        return sorted(found, key=lambda one: one.keys)

    def split(self, number):
        keys = next(one.keys for one in self.shards if one.number == number)
        self.service.split(STREAM, number, (keys.first + keys.last + 1) // 2)

    def shard_of(self, key):
        """The number of the shard that has a key now."""
        return next(one.number for one in self.shards if hash_key_of(key) in one.keys)

    def settle(self, turns=400, seconds=0.5):
        """Turn until all that was written is in the sink."""
        for _ in range(turns // 10):
            self.turns(10, seconds)
            if len(self.kept()) >= sum(self.written.values()):
                return

    def kept(self):
        """What is in the sink."""
        files = [read_table(path) for path in (self.folder / "out").rglob("*.parquet")]
        return [
            (row["key"].decode(), int(row["value"])) for file in files for row in file.to_pylist()
        ]

    def judge(self):
        """What is lost, what is twice, and of which keys a record came before an older one."""
        kept = self.kept()
        expected = {
            (key, number) for key, last in self.written.items() for number in range(1, last + 1)
        }
        first = dict.fromkeys((key.decode(), int(value)) for key, value in self.seen)
        last, inverted = {}, set()
        for key, number in first:
            if number < last.get(key, 0):
                inverted.add(key)
            last[key] = number
        twice = {row for row in kept if kept.count(row) > 1}
        return expected - set(kept), twice, inverted

    def is_well(self):
        """Nobody stopped, and nothing failed."""
        (stream,) = self.store.registry.streams()
        return stream.state is State.ACTIVE and not self.store.failures.every(stream.id)
