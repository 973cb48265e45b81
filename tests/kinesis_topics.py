"""How the suites of logs write to Kinesis, and how readers come by a fake of it."""

from dataclasses import dataclass

from headrace.connectors.kinesis import KinesisLog, KinesisReaderFactory
from headrace.connectors.kinesis.shards import shard_of
from headrace.testing.clock import FakeClock
from headrace.testing.kinesis.contract import Service
from headrace.testing.kinesis.service import FakeKinesis


@dataclass
class Given:
    """What stands for the client of every worker; pickled, it takes a copy along."""

    client: object

    def __call__(self, connections):
        return self.client


@dataclass
class WrittenTo:
    """Streams of one shard, with some time between two records."""

    service: Service

    def make(self):
        return self.service.make()

    def write(self, topic, lane, rows):
        first = next(
            one.keys.first
            for one in self.service.shards(topic)
            if one.number == shard_of(lane).number
        )
        for row in rows:
            key = "k" if row.key is None else row.key.decode()
            self.service.put(topic, row.value, hash_key=first, key=key)
            self.pass_time()

    def pass_time(self):
        """Nothing to do where it passes by itself."""

    def split(self, topic, lane):
        number = shard_of(lane).number
        keys = next(one.keys for one in self.service.shards(topic) if one.number == number)
        self.service.split(topic, number, (keys.first + keys.last + 1) // 2)


class KinesisTopics(WrittenTo):
    """The same of the fake, with a second between two records."""

    def __init__(self, **how):
        self.clock = FakeClock()
        self.kinesis = FakeKinesis(self.clock, **how)
        super().__init__(Service(self.kinesis, self.clock.move))

    def pass_time(self):
        self.clock.move(1)

    def log(self):
        return KinesisLog(self.kinesis, self.clock)

    def readers(self):
        return KinesisReaderFactory(Given(self.kinesis), self.clock, self.clock.move)

    def leave_gap(self, topic, lane):
        self.clock.move(50 * 60)

    def expire(self, topic, lane, records):
        """Let time pass until these are too old, and no others."""
        shard = self.kinesis.streams[topic].shards[shard_of(lane).number]
        last = shard.records[records - 1]
        self.clock.move(last.came_s + self.kinesis.retention_s + 0.5 - self.clock.now_s())
