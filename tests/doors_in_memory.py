"""What doors stand on where neither Kafka nor a producer is there."""

import asyncio
from contextlib import nullcontext

from headrace.connectors.kafka.ingest import Stored
from headrace.connectors.kafka.redrive import Redriven
from headrace.testing.dead_letters_fake import MemoryDeadLetters
from headrace.testing.log_fake import MemoryLog, Row


class Tools:
    """Kafka in memory, with nine visits of acme in each partition; nothing to send back."""

    def __init__(self, partitions=1):
        self.kafka = MemoryLog()
        self.kafka.create_topic("acme.visits", partitions)
        for partition in range(partitions):
            self.kafka.append("acme.visits", partition, [Row(b"{}")] * 9)

    def log(self):
        return nullcontext(self.kafka)

    def letters(self):
        return nullcontext(MemoryDeadLetters())

    def send_back(self, stream, topic, *, generation, limit, dry_run):
        return Redriven(0, (), 0)


class Nowhere:
    """Stores every record at offset 0."""

    async def store(self, _topic, records):
        return [Stored(0, 0) for _ in records]

    def begin(self, _topic, records):
        return Begun([Stored(0, 0) for _ in records])

    async def close(self):
        pass


class Begun:
    """Records that are stored already."""

    def __init__(self, results):
        self.results = results
        self.fates = asyncio.get_running_loop().create_future()
        self.fates.set_result(results)

    async def wait(self):
        pass


class AllTopics:
    """Has every topic."""

    async def is_there(self, _topic):
        return True

    def forget(self, _topic):
        raise AssertionError("nothing was missing")

    async def broker_answers(self):
        return True

    def close(self):
        pass
