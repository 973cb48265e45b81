"""The twin keeps the laws of a log and of a reader."""

import itertools

from headrace.ports import Connections
from headrace.testing.log_contract import SEAL_KEY, LogContract, ReaderContract
from headrace.testing.log_twin import LogTwin, ReaderTwinFactory


class OnTwin:
    """How the suites write to a twin."""

    def setup_method(self):
        self.twin = LogTwin()
        self._numbers = itertools.count()

    def make_topic(self, partitions=1):
        name = f"topic-{next(self._numbers)}"
        self.twin.create_topic(name, partitions)
        return name

    def write(self, topic, partition, rows):
        self.twin.append(topic, partition, rows)

    def abort(self, topic, partition, records):
        self.twin.append_gap(topic, partition, records + 1)

    def expire(self, topic, partition, start):
        self.twin.expire(topic, partition, start)

    def delete_topic(self, topic):
        self.twin.delete_topic(topic)


class TestLogTwin(OnTwin, LogContract):
    def make_log(self):
        return self.twin


class TestReaderTwin(OnTwin, ReaderContract):
    def factory(self):
        return ReaderTwinFactory(self.twin)

    def connections(self):
        return Connections(kafka={}, database_url="", seal_key=SEAL_KEY)
