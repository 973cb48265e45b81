"""Records are told as stored when the client says so, all of a call at once, and no sooner."""

import asyncio
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException

from headrace.errors import BrokerUnavailable, ConfigError, SinkRefused, TopicMissing
from headrace.gateway.events import Event
from headrace.kafka import ingest
from headrace.kafka.ingest import Ingest, Stored, ingest_config

CONFIG = {"bootstrap.servers": "127.0.0.1:1"}


class FakeProducer:
    """Delivers at the next poll but one, what it is not told to fail."""

    def __init__(self, settings):
        self.settings = settings
        self.queue = []
        self.polls = 0
        self.full_at = None
        self.errors = {}
        self.refused = {}
        self.silent = False
        self.offset = 0
        self.places = {}
        self.raises = []

    def produce(self, topic, value, key, on_delivery, headers=()):
        if self.full_at is not None and len(self.queue) >= self.full_at:
            raise BufferError
        if value in self.refused:
            raise KafkaException(self.refused[value])
        self.queue.append((value, on_delivery))

    def poll(self, _):
        self.polls += 1
        if self.raises:
            raise self.raises.pop()
        if self.silent or self.polls < 2:
            return
        for value, told in self.queue:
            at = self.places.get(value, self.offset)
            message = SimpleNamespace(partition=lambda: 3, offset=lambda n=at: n)
            told(self.errors.get(value), message)
            self.offset += 1
        self.queue = []

    def purge(self):
        self.errors = {value: KafkaError(KafkaError._PURGE_QUEUE) for value, _ in self.queue}
        self.silent = False


@pytest.fixture
def opened(monkeypatch):
    monkeypatch.setattr(ingest, "Producer", FakeProducer)

    def make(timeout_s=1.0):
        made = Ingest(CONFIG, delivery_timeout_s=timeout_s, most_bytes=1 << 20)
        return made, made._producer

    return make


def records(*values):
    return [Event(each, None, []) for each in values]


def test_each_record_has_its_own_place(opened):
    async def play():
        line, _ = opened()
        first, second = await asyncio.gather(
            line.store("t", records(b"a", b"b")), line.store("t", records(b"c"))
        )
        assert first == [Stored(3, 0), Stored(3, 1)]
        assert second == [Stored(3, 2)]
        assert line.under_way == 0

    asyncio.run(play())


def test_a_record_of_which_kafka_does_not_say_where_it_is_is_stored(opened):
    async def play():
        line, producer = opened()
        producer.places = {b"b": None}
        assert await line.store("t", records(b"a", b"b")) == [Stored(3, 0), Stored(3, None)]

    asyncio.run(play())


def test_it_polls_only_while_something_is_under_way(opened):
    async def play():
        line, producer = opened()
        await line.store("t", records(b"a"))
        polls = producer.polls
        await asyncio.sleep(0.02)
        assert producer.polls == polls
        await line.store("t", records(b"b"))
        assert producer.polls > polls

    asyncio.run(play())


def test_it_goes_on_polling_after_an_error_that_is_about_no_record(opened):
    async def play():
        line, producer = opened()
        producer.raises = [KafkaException(KafkaError(KafkaError._FATAL))]
        assert await line.store("t", records(b"a")) == [Stored(3, 0)]
        assert await line.store("t", records(b"b")) == [Stored(3, 1)]

    asyncio.run(play())


def test_what_the_client_says_is_said_to_nobody_where_nothing_can_be_written(monkeypatch):
    def full(*_args, **_fields):
        raise OSError("no space left on device")

    monkeypatch.setattr(ingest.log, "warning", full, raising=False)
    ingest._note(KafkaError(KafkaError._TRANSPORT))


def test_nothing_to_store_is_done_at_once(opened):
    assert asyncio.run(opened()[0].store("t", [])) == []


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (KafkaError._MSG_TIMED_OUT, BrokerUnavailable),
        (KafkaError.NOT_ENOUGH_REPLICAS, BrokerUnavailable),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, TopicMissing),
        (KafkaError._UNKNOWN_TOPIC, TopicMissing),
        (KafkaError.MSG_SIZE_TOO_LARGE, SinkRefused),
        (KafkaError.POLICY_VIOLATION, SinkRefused),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, ConfigError),
    ],
)
def test_one_that_fails_says_why_and_spoils_no_other(opened, code, kind):
    async def play():
        line, producer = opened()
        producer.errors = {b"bad": KafkaError(code)}
        producer.refused = {b"worse": KafkaError(code)}
        good, bad, worse = await line.store("t", records(b"good", b"bad", b"worse"))
        assert good == Stored(3, 0)
        assert type(bad) is type(worse) is kind

    asyncio.run(play())


def test_behind_a_full_queue_nothing_is_tried_so_that_order_holds(opened):
    async def play():
        line, producer = opened()
        producer.full_at = 1
        first, *rest = await line.store("t", records(b"a", b"b", b"c"))
        assert first == Stored(3, 0)
        assert [type(each) for each in rest] == [BrokerUnavailable] * 2
        assert line.under_way == 0

    asyncio.run(play())


def test_closing_waits_and_then_gives_up(opened):
    async def play():
        line, producer = opened(timeout_s=0.02)
        producer.silent = True
        waiting = asyncio.create_task(line.store("t", records(b"a")))
        await asyncio.sleep(0)
        await line.close()
        (result,) = await waiting
        assert isinstance(result, BrokerUnavailable)

    asyncio.run(play())


def test_a_sender_that_went_away_disturbs_nobody(opened):
    async def play():
        line, _ = opened()
        gone = asyncio.create_task(line.store("t", records(b"a")))
        await asyncio.sleep(0)
        gone.cancel()
        assert await line.store("t", records(b"b")) == [Stored(3, 1)]
        assert line.under_way == 0

    asyncio.run(play())


def test_what_promises_need_cannot_be_set_otherwise():
    given = {
        **CONFIG,
        "acks": "1",
        "enable.idempotence": "false",
        "linger.ms": "50",
        "partitioner": "consistent",
        "message.timeout.ms": "1",
    }
    made = ingest_config(given, 10.0, 1 << 20)
    assert (made["acks"], made["enable.idempotence"]) == ("all", "true")
    assert made["message.timeout.ms"] == "10000"
    assert (made["linger.ms"], made["partitioner"]) == ("50", "consistent")


def test_a_property_that_is_refused_is_named():
    with pytest.raises(ConfigError, match=r"queue\.buffering"):
        Ingest({**CONFIG, "linger.ms": "soon"}, delivery_timeout_s=1.0, most_bytes=1)
