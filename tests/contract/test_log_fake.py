"""The fake keeps the laws of a log and of a reader."""

import itertools

from headrace.ports import Connections
from headrace.testing.log_contract import SEAL_KEY, LogContract, ReaderContract
from headrace.testing.log_fake import MemoryLog, MemoryReaderFactory


class InMemory:
    """How the suites write to a fake."""

    def setup_method(self):
        self.fake = MemoryLog()
        self._numbers = itertools.count()

    def make_topic(self, partitions=1):
        name = f"topic-{next(self._numbers)}"
        self.fake.create_topic(name, partitions)
        return name

    def write(self, topic, partition, rows):
        self.fake.append(topic, partition, rows)

    def abort(self, topic, partition, records):
        self.fake.append_gap(topic, partition, records + 1)

    def expire(self, topic, partition, start):
        self.fake.expire(topic, partition, start)

    def delete_topic(self, topic):
        self.fake.delete_topic(topic)


class TestMemoryLog(InMemory, LogContract):
    def make_log(self):
        return self.fake


class TestMemoryReader(InMemory, ReaderContract):
    def factory(self):
        return MemoryReaderFactory(self.fake)

    def connections(self):
        return Connections(kafka={}, database_url="", seal_key=SEAL_KEY)
