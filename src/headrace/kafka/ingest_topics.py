"""Which topics there are, asked often and looked up seldom.

A producer that is given the name of a topic that is not there makes it, where brokers allow that,
or keeps the record until it gives up. A stranger is to cause neither. So a topic is looked up
before its first record, in a way that makes nothing, and known from then on; one that is missing is
asked for again after a second.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from headrace.errors import HeadraceError
from headrace.kafka.log import KafkaLog
from headrace.kafka.topics import create_topics

_KNOWN_S = 60.0
_MISSING_S = 1.0
#: strangers choose no topics but among their tenant's, and tenants come and go
_MOST = 100_000
#: a name nobody has, asked for to see whether anybody answers
_NOBODY = "headrace-is-anybody-there"


class IngestTopics:
    """Topics of one cluster, for one event loop.

    Args:
        config: client properties.
        partitions: of a topic that is made when it is missing; None: none is made.
        timeout_s: how long a look-up may take.
    """

    def __init__(
        self, config: Mapping[str, str], partitions: int | None = None, timeout_s: float = 3.0
    ) -> None:
        self._config = dict(config)
        self._partitions = partitions
        self._log = KafkaLog(config, timeout_s)
        #: until when it is known to be there (True) or not
        self._known: dict[str, tuple[float, bool]] = {}
        self._asked: dict[str, asyncio.Task[bool]] = {}
        # Of its own: whoever else uses the loop's threads is not to wait for Kafka.
        self._threads = ThreadPoolExecutor(2, "topics")

    async def is_there(self, topic: str) -> bool:
        """Whether a topic is there; those who ask at the same time wait for one answer.

        Raises:
            BrokerUnavailable: no broker answers.
        """
        until_s, there = self._known.get(topic, (0.0, False))
        if time.monotonic() < until_s:
            return there
        task = self._asked.get(topic)
        if task is None:
            task = self._asked[topic] = asyncio.ensure_future(self._learn(topic))
            task.add_done_callback(lambda _: self._asked.pop(topic, None))
        return await asyncio.shield(task)

    def forget(self, topic: str) -> None:
        """A record was refused because the topic is gone."""
        self._known.pop(topic, None)

    async def broker_answers(self) -> bool:
        """Whether anybody answers."""
        try:
            await self._in_thread(_NOBODY)
        except HeadraceError:
            return False
        return True

    def close(self) -> None:
        """Give up connections."""
        self._threads.shutdown(wait=True, cancel_futures=True)
        self._log.close()

    async def _learn(self, topic: str) -> bool:
        there = await self._in_thread(topic)
        if not there and self._partitions is not None:
            made = {topic: self._partitions}
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(self._threads, create_topics, self._config, made)
            there = True
        if len(self._known) >= _MOST:
            self._known.clear()
        self._known[topic] = (time.monotonic() + (_KNOWN_S if there else _MISSING_S), there)
        return there

    async def _in_thread(self, topic: str) -> bool:
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(self._threads, self._log.topics, [topic])
        return topic in found
