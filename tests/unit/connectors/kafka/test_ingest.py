"""Records are told as stored when the client says so, all of a call at once, and no sooner."""

import asyncio
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException

from headrace.connectors.kafka import ingest, ingest_clients
from headrace.connectors.kafka.config import ingest_config
from headrace.connectors.kafka.ingest import Ingest, Stored
from headrace.errors import (
    BrokerUnavailable,
    ConfigError,
    SinkRefused,
    SinkUnavailable,
    TopicMissing,
)
from headrace.gateway.events import Event

CONFIG = {"bootstrap.servers": "127.0.0.1:1"}


class Fatal(KafkaError):
    def fatal(self):
        return True


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

    def __len__(self):
        return len(self.queue)

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

    def breaks(self):
        """As one does of which a record was refused: it tells, and sends nothing more."""
        self.silent = True
        self.settings["error_cb"](Fatal(KafkaError._FATAL))

    def purge(self):
        self.errors = {value: KafkaError(KafkaError._PURGE_QUEUE) for value, _ in self.queue}
        self.silent = False


@pytest.fixture
def opened(monkeypatch):
    monkeypatch.setattr(ingest_clients, "Producer", FakeProducer)

    def make(timeout_s=1.0):
        made = Ingest(CONFIG, delivery_timeout_s=timeout_s, most_bytes=1 << 20)
        return made, client(made, "prompt")

    return make


def client(line, kind):
    """The producer of a kind that is in use."""
    return line._clients._by_kind[kind].producer


@pytest.mark.parametrize("size", [1, 20_000])
def test_tenants_whose_records_go_on_for_days_leave_room_in_the_queue_for_the_others(
    opened, monkeypatch, size
):
    """The queue is one for all; in it a tenant's topics count together."""
    monkeypatch.setattr(ingest, "QUEUE_RECORDS", 1000)

    async def play():
        line, _ = opened()
        line.begin("stuck0.visits", records(b"x"))
        client(line, "patient").silent = True
        taken = 1
        for number in range(40):
            for at in range(20):
                sending = line.begin(f"stuck{number % 8}.{at}", records(*[b"x" * size] * 5))
                taken += 5 * (not sending.fates.done())
        assert len(client(line, "patient")) == taken < 1000
        assert isinstance(sending.results[0], SinkUnavailable)
        acme = line.begin("acme.visits", records(b"x" * 50, b"y" * 50))
        assert not acme.fates.done()
        client(line, "patient").silent = False
        assert await acme.fates == [Stored(3, taken), Stored(3, taken + 1)]
        await asyncio.sleep(0)
        assert (line._queued._taken, line._queued._of) == ((0, 0), {})

    asyncio.run(play())


def records(*values):
    return [Event(value, None, []) for value in values]


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


def test_a_record_of_which_kafka_does_not_say_where_it_is_is_stored_behind_one_that_is(opened):
    async def play():
        line, producer = opened()
        producer.places = {b"b": None}
        assert await line.store("t", records(b"a", b"b")) == [Stored(3, 0), Stored(3, None)]
        assert await line.store("t", records(b"b")) == [Stored(3, None)]

    asyncio.run(play())


def test_with_none_before_it_nobody_knows_since_a_later_one_may_have_been_taken_in_its_stead(
    opened,
):
    async def play():
        line, producer = opened()
        await line.store("other", records(b"a"))
        producer.places = {b"b": None}
        first, second = await line.store("t", records(b"b", b"c"))
        assert isinstance(first, BrokerUnavailable)
        assert "may be stored or not" in str(first)
        assert isinstance(second, Stored)
        assert not line._refusing

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


@pytest.mark.parametrize(
    "broken",
    [KafkaException(KafkaError(KafkaError._FATAL)), SystemError("a result with an exception set")],
)
def test_it_goes_on_polling_after_an_error_that_is_about_no_record(opened, broken):
    async def play():
        line, producer = opened()
        producer.raises = [broken]
        assert await line.store("t", records(b"a")) == [Stored(3, 0)]
        assert await line.store("t", records(b"b")) == [Stored(3, 1)]

    asyncio.run(play())


def test_what_the_client_says_is_said_to_nobody_where_nothing_can_be_written(monkeypatch):
    def full(*_args, **_fields):
        raise OSError("no space left on device")

    monkeypatch.setattr(ingest_clients.log, "warning", full, raising=False)
    ingest_clients.Health().note(KafkaError(KafkaError._TRANSPORT))


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
        assert type(bad) is kind
        # what the client does not even take is not stored for sure
        assert type(worse) is (SinkUnavailable if kind is BrokerUnavailable else kind)

    asyncio.run(play())


def test_behind_a_full_queue_nothing_is_tried_so_that_order_holds(opened):
    async def play():
        line, producer = opened()
        producer.full_at = 1
        first, *rest = await line.store("t", records(b"a", b"b", b"c"))
        assert first == Stored(3, 0)
        assert [type(error) for error in rest] == [SinkUnavailable] * 2
        assert line.under_way == 0

    asyncio.run(play())


def test_a_record_that_may_be_sent_again_is_gone_on_with_after_its_sender_was_answered(opened):
    async def play():
        line, _ = opened(timeout_s=0.02)
        first = line.begin("t", records(b"a"))
        assert await first.fates == [Stored(3, 0)]
        patient = client(line, "patient")
        patient.silent = True
        sending = line.begin("t", records(b"b", b"c"))
        await sending.wait()
        assert sending.results == [None, None]
        assert line.under_way == 2
        patient.silent = False
        assert await sending.fates == sending.results == [Stored(3, 1), Stored(3, 2)]
        assert int(patient.settings["message.timeout.ms"]) > 20 * 86_400_000
        assert client(line, "prompt").settings["message.timeout.ms"] == "20"
        assert line.under_way == 0

    asyncio.run(play())


def test_a_client_that_broke_sends_nothing_again_and_another_goes_on(opened):
    async def play():
        line, _ = opened(timeout_s=0.02)
        await line.begin("t", records(b"a")).wait()
        broken = client(line, "patient")
        assert broken.settings["enable.gapless.guarantee"] == "true"
        broken.silent = True
        sending = line.begin("t", records(b"b"))
        broken.breaks()
        assert await line.begin("t", records(b"c")).fates == [Stored(3, 0)]
        assert client(line, "patient") is not broken
        (given_up,) = await sending.fates
        assert isinstance(given_up, BrokerUnavailable)
        assert line.under_way == 0
        assert await line.begin("t", records(b"d")).fates == [Stored(3, 1)]
        assert len(list(line._clients)) == 2

    asyncio.run(play())


def test_a_client_that_is_found_broken_is_replaced(opened):
    async def play():
        line, _ = opened()
        await line.begin("t", records(b"a")).wait()
        client(line, "patient").refused = {b"b": KafkaError(KafkaError._FATAL)}
        (result,) = await line.begin("t", records(b"b")).fates
        assert isinstance(result, SinkUnavailable)
        assert await line.begin("t", records(b"b")).fates == [Stored(3, 0)]

    asyncio.run(play())


def test_topics_that_have_refused_a_record_harm_only_each_other(opened):
    async def play():
        line, _ = opened(timeout_s=60.0)
        await line.begin("good", records(b"a")).wait()
        shared = client(line, "patient")
        shared.errors = {b"bad": KafkaError(KafkaError.INVALID_RECORD)}
        (refused,) = await line.begin("bad", records(b"bad")).fates
        assert isinstance(refused, SinkRefused)
        await line.begin("bad", records(b"b")).wait()
        apart = client(line, "apart")
        apart.silent = True
        open_ = line.begin("bad", records(b"c"))
        apart.breaks()
        # one at a time: whoever makes them break makes no more of them
        (later,) = await line.begin("bad", records(b"d")).fates
        assert isinstance(later, SinkUnavailable)
        assert await line.begin("good", records(b"e")).fates == [Stored(3, 2)]
        assert client(line, "patient") is shared
        apart.silent = False
        assert await open_.fates == [Stored(3, 1)]
        assert await line.begin("bad", records(b"d")).fates == [Stored(3, 0)]

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
