"""Topics are looked up once for all who ask, and nothing is made unless somebody wants it."""

import asyncio
import threading

import pytest

from headrace.errors import BrokerUnavailable
from headrace.kafka import ingest_topics
from headrace.kafka.ingest_topics import IngestTopics


class FakeLog:
    """Knows some topics; counts the look-ups."""

    def __init__(self):
        self.names = {"acme.visits"}
        self.asked = []
        self.down = False
        self.go = threading.Event()
        self.go.set()

    def topics(self, names):
        self.asked.append(sorted(names))
        self.go.wait(10)
        if self.down:
            raise BrokerUnavailable("nobody answers")
        return {name: None for name in names if name in self.names}

    def close(self):
        pass


@pytest.fixture
def log(monkeypatch):
    made = FakeLog()
    monkeypatch.setattr(ingest_topics, "KafkaLog", lambda *_: made)
    return made


@pytest.fixture
def clock(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(ingest_topics.time, "monotonic", lambda: now[0])
    return now


@pytest.fixture
def created(monkeypatch, log):
    made = []

    def create(_config, partitions):
        made.append(partitions)
        log.names |= partitions.keys()

    monkeypatch.setattr(ingest_topics, "create_topics", create)
    return made


def run(play, **more):
    async def whole():
        topics = IngestTopics({"bootstrap.servers": "b:1"}, **more)
        try:
            await play(topics)
        finally:
            topics.close()

    asyncio.run(whole())


def test_a_topic_that_is_there_is_asked_for_once_a_minute(log, clock):
    async def play(topics):
        for _ in range(3):
            assert await topics.is_there("acme.visits")
        assert len(log.asked) == 1
        clock[0] += 61
        assert await topics.is_there("acme.visits")
        assert len(log.asked) == 2

    run(play)


def test_a_missing_topic_is_asked_for_again_after_a_second_and_not_made(log, clock, created):
    async def play(topics):
        assert not await topics.is_there("acme.new")
        log.names.add("acme.new")
        assert not await topics.is_there("acme.new")
        clock[0] += 1.1
        assert await topics.is_there("acme.new")

    run(play)
    assert created == []


def test_one_look_up_answers_all_who_ask_meanwhile(log):
    async def play(topics):
        log.go.clear()
        first = asyncio.create_task(topics.is_there("acme.visits"))
        while not log.asked:
            await asyncio.sleep(0)
        rest = [asyncio.create_task(topics.is_there(f"t{n % 5}.visits")) for n in range(50)]
        await asyncio.sleep(0)
        log.go.set()
        assert await first
        assert await asyncio.gather(*rest) == [False] * 50
        assert [len(each) for each in log.asked] == [1, 5]

    run(play)


def test_everybody_is_told_that_no_broker_answers_and_the_next_one_asks_again(log):
    async def play(topics):
        log.down = True
        asked = [topics.is_there(name) for name in ("a.x", "a.x", "b.x")]
        found = await asyncio.gather(*asked, return_exceptions=True)
        assert [type(each) for each in found] == [BrokerUnavailable] * 3
        assert not await topics.broker_answers()
        log.down = False
        assert await topics.is_there("acme.visits")
        assert await topics.broker_answers()

    run(play)


def test_a_missing_topic_is_made_where_somebody_wants_that(log, created):
    async def play(topics):
        assert await topics.is_there("acme.new")
        assert await topics.is_there("acme.visits")
        assert await topics.broker_answers()

    run(play, partitions=3)
    assert created == [{"acme.new": 3}]


def test_one_that_is_gone_is_looked_up_again(log):
    async def play(topics):
        assert await topics.is_there("acme.visits")
        log.names.clear()
        topics.forget("acme.visits")
        assert not await topics.is_there("acme.visits")

    run(play)


def test_who_gave_up_waiting_spoils_nothing_for_the_others(log):
    async def play(topics):
        log.go.clear()
        gone = asyncio.create_task(topics.is_there("acme.visits"))
        stays = asyncio.create_task(topics.is_there("acme.visits"))
        while not log.asked:
            await asyncio.sleep(0)
        gone.cancel()
        log.go.set()
        assert await stays

    run(play)
