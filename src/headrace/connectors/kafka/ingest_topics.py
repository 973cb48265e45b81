"""Which topics there are, asked often and looked up seldom.

A producer that is given the name of a topic that is not there makes it, where brokers allow that,
or keeps the record until it gives up. A stranger is to cause neither. So a topic is looked up
before its first record, in a way that makes nothing, and known from then on; one that is missing is
asked for again after a second. There is one look-up at a time, for all that were asked for
meanwhile, so that a broker which does not answer makes nobody wait for longer than two.

A topic that cannot be made is the matter of those who asked for it: the others are answered before
anything is made, and the refusal is remembered for a second like a topic that is missing.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from headrace.connectors.kafka.log import KafkaLog
from headrace.connectors.kafka.topics import unmakable_topics
from headrace.errors import HeadraceError

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
        timeout_s: how long a look-up may take, and how long making topics may.
    """

    def __init__(
        self, config: Mapping[str, str], partitions: int | None = None, timeout_s: float = 3.0
    ) -> None:
        self._config = dict(config)
        self._partitions = partitions
        self._timeout_s = timeout_s
        self._log = KafkaLog(config, timeout_s)
        #: until when it is known to be there (True), or not, or why it cannot be made
        self._known: dict[str, tuple[float, bool | HeadraceError]] = {}
        self._wanted: dict[str, asyncio.Future[bool]] = {}
        self._looking: asyncio.Task[None] | None = None
        # Of its own: whoever else uses the loop's threads is not to wait for Kafka.
        self._thread = ThreadPoolExecutor(1, "topics")

    async def is_there(self, topic: str) -> bool:
        """Whether a topic is there.

        Raises:
            BrokerUnavailable: no broker answers.
            ConfigError: it is missing, and we may not make it.
        """
        until_s, there = self._known.get(topic, (0.0, False))
        if time.monotonic() < until_s:
            if isinstance(there, HeadraceError):
                # Raised many times, it would keep the frames of each.
                raise there.with_traceback(None)
            return there
        return await self._answer(topic)

    def forget(self, topic: str) -> None:
        """A record was refused because the topic is gone."""
        self._known.pop(topic, None)

    async def broker_answers(self) -> bool:
        """Whether anybody answers."""
        try:
            await self._answer(_NOBODY)
        except HeadraceError:
            return False
        return True

    def close(self) -> None:
        """Give up connections."""
        self._thread.shutdown(wait=True, cancel_futures=True)
        self._log.close()

    async def _answer(self, topic: str) -> bool:
        answer = self._wanted.get(topic)
        if answer is None:
            answer = self._wanted[topic] = asyncio.get_running_loop().create_future()
        if self._looking is None:
            self._looking = asyncio.ensure_future(self._look())
        return await asyncio.shield(answer)

    async def _look(self) -> None:
        try:
            while self._wanted:
                asked, self._wanted = self._wanted, {}
                try:
                    await self._look_up(asked)
                except Exception as error:
                    # Also what nobody thought of: whoever is told nothing waits for ever.
                    for answer in asked.values():
                        _tell(answer, error)
        finally:
            self._looking = None

    async def _look_up(self, asked: Mapping[str, asyncio.Future[bool]]) -> None:
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(self._thread, self._log.topics, asked.keys())
        missing = asked.keys() - found.keys()
        to_make: dict[str, int] = {}
        if self._partitions is not None:
            to_make = dict.fromkeys(missing - {_NOBODY}, self._partitions)
        self._learn(asked, {topic: topic in found for topic in asked.keys() - to_make.keys()})
        if to_make:
            refused = await loop.run_in_executor(
                self._thread, unmakable_topics, self._config, to_make, self._timeout_s
            )
            self._learn(asked, {topic: refused.get(topic, True) for topic in to_make})

    def _learn(
        self,
        asked: Mapping[str, asyncio.Future[bool]],
        learned: Mapping[str, bool | HeadraceError],
    ) -> None:
        if len(self._known) >= _MOST:
            self._known.clear()
        now_s = time.monotonic()
        for topic, there in learned.items():
            self._known[topic] = (now_s + (_KNOWN_S if there is True else _MISSING_S), there)
            _tell(asked[topic], there)


def _tell(answer: asyncio.Future[bool], there: bool | Exception) -> None:
    if answer.done():
        return
    if isinstance(there, Exception):
        answer.set_exception(there)
        # Who asked may have gone away, and nobody else is to hear of it.
        answer.exception()
    else:
        answer.set_result(there)
