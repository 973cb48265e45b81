"""What the reader leaves behind while somebody works on what it gave, without a broker."""

import tracemalloc
from types import SimpleNamespace

import pytest
from confluent_kafka import Message

from headrace.connectors.kafka import KafkaSliceReader
from headrace.testing.log_contract.rows import piece

KEY_BYTES = 1_000_000


class Consumer:
    """One that brings all messages at once, and remembers whether it fetches."""

    def __init__(self, topics, count):
        self._topics, self._count, self.fetches = topics, count, False

    def assign(self, partitions):
        self.fetches = True

    def unassign(self):
        self.fetches = False

    def consume(self, count, timeout):
        return [
            # Keys of their own, as the client copies each.
            Message(topic=topic, partition=0, offset=offset, value=b"", key=bytes(KEY_BYTES))
            for topic in self._topics
            for offset in range(self._count)
        ]


def reader_on(consumer):
    client = SimpleNamespace(consumer=consumer, refusal=None, learn=lambda topics, timeout_s: "")
    made = KafkaSliceReader({"bootstrap.servers": "broker:9092"})
    made._clients = SimpleNamespace(of=lambda profile: client)
    return made


@pytest.mark.parametrize("topics", ["t", "tu"])
def test_nothing_more_is_fetched_while_what_was_read_is_worked_on(topics):
    consumer = Consumer(topics, 2)
    read = reader_on(consumer).read([piece(topic, 0, 2) for topic in topics], 100)
    first = next(read)
    assert (first.last, consumer.fetches) == (True, False)
    assert [batch.slice.topic for batch in read] == list(topics)[1:]


def test_messages_are_not_kept_beside_the_table_that_was_made_of_them():
    consumer = Consumer("t", 20)
    tracemalloc.start()
    try:
        for batch in reader_on(consumer).read([piece("t", 0, 20)], 5):
            assert batch.records.num_rows == 5
            held_bytes, _ = tracemalloc.get_traced_memory()
            assert held_bytes < KEY_BYTES
    finally:
        tracemalloc.stop()
