"""What a redrive reads, without Kafka; what it sends is tested on a real one."""

import sys

import pytest

from headrace.kafka.letter_headers import headers_of
from headrace.kafka.redrive import redrive
from headrace.model.streams import StreamId
from headrace.ports import Connections
from headrace.testing.dead_letters_contract import letter
from headrace.testing.log_twin import LogTwin, ReaderTwin, Row

module = sys.modules["headrace.kafka.redrive"]
TOPIC = "acme.visits"


class LineTwin:
    """Sends nowhere; nothing was ever sent."""

    def __init__(self, *_):
        self.sent = 0

    def take_over(self):
        pass

    def places(self, partitions):
        return {each.partition: 0 for each in partitions}

    def send(self, partition, messages, place):
        self.sent += len(messages)

    def close(self):
        pass


class CountingReader(ReaderTwin):
    """Counts the letters that were read."""

    def __init__(self, log):
        super().__init__(log)
        self.letters = 0

    def read(self, slices, batch_records):
        for batch in super().read(slices, batch_records):
            self.letters += len(batch.records)
            yield batch


@pytest.fixture
def reader(monkeypatch):
    log = LogTwin()
    log.create_topic(f"{TOPIC}.dlq")
    rows = [Row(b"", headers=tuple(headers_of(letter(TOPIC, n), 10**6))) for n in range(100)]
    log.append(f"{TOPIC}.dlq", 0, rows)
    made = CountingReader(log)
    monkeypatch.setattr(module, "KafkaLog", lambda _: log)
    monkeypatch.setattr(module, "KafkaSliceReader", lambda _: made)
    monkeypatch.setattr(module, "RedriveLine", LineTwin)
    monkeypatch.setattr(module, "_BATCH_LETTERS", 5)
    return made


@pytest.mark.parametrize("dry_run", [False, True])
def test_letters_beyond_the_limit_are_read_and_counted_up_to_a_bound(reader, monkeypatch, dry_run):
    monkeypatch.setattr(module, "_MOST_LEFT", 20)
    connections = Connections({"bootstrap.servers": "b:1"}, database_url="")
    done = redrive(connections, StreamId("pages", "acme"), TOPIC, limit=10, dry_run=dry_run)
    assert (done.sent, done.left, reader.letters) == (10, 20, 30)
