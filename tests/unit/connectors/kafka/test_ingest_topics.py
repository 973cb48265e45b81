"""Topics are looked up once for all who ask, and nothing is made unless somebody wants it."""

import asyncio
import threading

import pytest

from headrace.connectors.kafka import ingest_topics
from headrace.connectors.kafka.ingest_topics import IngestTopics
from headrace.errors import BrokerUnavailable, ConfigError


class FakeLog:
    """Knows some topics; counts the look-ups."""

    def __init__(self):
        self.names = {"acme.visits"}
        self.asked = []
        self.down = False
        self.error = BrokerUnavailable("nobody answers")
        self.go = threading.Event()
        self.go.set()

    def topics(self, names):
        self.asked.append(sorted(names))
        self.go.wait(120)
        if self.down:
            raise self.error
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
    made = Created()

    def make(_config, partitions, timeout_s):
        made.append(partitions)
        made.timeout_s = timeout_s
        made.go.wait(120)
        log.names |= partitions.keys() - made.refused.keys()
        return {name: error for name, error in made.refused.items() if name in partitions}

    monkeypatch.setattr(ingest_topics, "unmakable_topics", make)
    return made


class Created(list):
    """What was made, by call; ``refused`` cannot be."""

    def __init__(self):
        super().__init__()
        self.refused = {}
        self.timeout_s = None
        self.go = threading.Event()
        self.go.set()


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
        assert [len(question) for question in log.asked] == [1, 5]

    run(play)


def test_everybody_is_told_that_no_broker_answers_and_the_next_one_asks_again(log):
    async def play(topics):
        log.down = True
        asked = [topics.is_there(name) for name in ("a.x", "a.x", "b.x")]
        found = await asyncio.gather(*asked, return_exceptions=True)
        assert [type(error) for error in found] == [BrokerUnavailable] * 3
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
    assert created.timeout_s == 3.0


def test_a_topic_that_cannot_be_made_is_told_to_those_alone_who_asked_for_it(log, created):
    created.refused = {"bad.visits": ConfigError("topic bad.visits cannot be made: denied")}

    async def play(topics):
        names = ("bad.visits", "acme.new", "acme.visits", "bad.visits")
        found = await asyncio.gather(*map(topics.is_there, names), return_exceptions=True)
        assert found[1:3] == [True, True]
        assert [type(error) for error in (found[0], found[3])] == [ConfigError] * 2

    run(play, partitions=3)


def test_who_asks_for_one_that_is_there_does_not_wait_for_one_that_is_made(log, created):
    async def play(topics):
        created.go.clear()
        new = asyncio.create_task(topics.is_there("acme.new"))
        try:
            assert await asyncio.wait_for(topics.is_there("acme.visits"), 60)
            assert not new.done()
        finally:
            created.go.set()
        assert await new

    run(play, partitions=3)


def test_a_topic_that_cannot_be_made_is_tried_again_after_a_second(log, clock, created):
    created.refused = {"bad.visits": ConfigError("denied")}

    async def play(topics):
        for _ in range(3):
            with pytest.raises(ConfigError):
                await topics.is_there("bad.visits")
        assert len(log.asked) == len(created) == 1
        clock[0] += 1.1
        created.refused = {}
        assert await topics.is_there("bad.visits")

    run(play, partitions=3)


def test_an_error_that_nobody_thought_of_leaves_nobody_waiting(log):
    async def play(topics):
        log.down, log.error = True, RuntimeError("of the client")
        with pytest.raises(RuntimeError):
            await asyncio.wait_for(topics.is_there("acme.visits"), 60)
        log.down = False
        assert await topics.is_there("acme.visits")

    run(play)


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
