"""What is decided about a message before and after the broker has it."""

from __future__ import annotations

import os
import re
from dataclasses import replace

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from headrace.connectors.kafka import sink, sink_line, sink_messages
from headrace.connectors.kafka.sink_messages import SLICE_HEADER
from headrace.errors import ConfigError, SinkRefused, SinkUnavailable
from headrace.model.streams import LaneId, Slice
from headrace.ports import Connections, Effect, Site, facts_of
from headrace.sinks import KafkaTopic
from headrace.testing.odd_tables import no_text

#: librdkafka's own broker inside the client: it has no topics, and nothing leaves the process
_INSIDE = {"test.mock.num.brokers": "1"}


def _writer(**properties):
    return KafkaTopic("{tenant}.scores").open(
        Site(Connections({**_INSIDE, **properties}, ""), None)
    )


def _effect(table, tenant="acme"):
    return Effect((Slice(LaneId("score", tenant, "t[0]"), "t", 0, 9, epoch=1),), (9,), table)


@pytest.fixture(autouse=True)
def _no_line_is_left(monkeypatch):
    monkeypatch.setattr(sink_line, "_NEW_TOPIC_WAIT_S", 0.0)
    monkeypatch.setattr(sink, "_lines", {})


@pytest.mark.parametrize("topic", ["", "{tenants}.scores", "{tenant}.{}", "scores}"])
def test_a_topic_with_other_braces_is_refused_when_it_is_named(topic):
    with pytest.raises(ConfigError, match="braces"):
        KafkaTopic(topic)


def test_a_record_is_to_blame_for_what_it_is_and_for_the_topic_that_it_names():
    def code(error, topic="t"):
        return type(sink_messages.translated(KafkaError(error), topic, "t")).__name__

    assert code(KafkaError.MSG_SIZE_TOO_LARGE) == "SinkRefused"
    assert code(KafkaError.TOPIC_AUTHORIZATION_FAILED, "named by a row") == "SinkRefused"
    # a right that is taken away is no record's fault
    assert code(KafkaError.TOPIC_AUTHORIZATION_FAILED) == "TargetMissing"
    assert code(KafkaError.CLUSTER_AUTHORIZATION_FAILED) == "TargetMissing"


@pytest.mark.parametrize(
    "code",
    [
        KafkaError._MSG_TIMED_OUT,
        KafkaError._TRANSPORT,
        KafkaError.NOT_ENOUGH_REPLICAS,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError._PURGE_QUEUE,
        # it was there a moment ago, and is looked for again
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
    ],
)
def test_what_passes_by_itself_is_temporary(code):
    assert isinstance(sink_messages.translated(KafkaError(code), "t"), SinkUnavailable)


def test_a_message_too_large_is_named_by_its_row_before_anything_is_sent():
    table = pa.table({"key": [b"k", b"k"], "value": [b"small", b"x" * 900]})
    writer = _writer(**{"message.max.bytes": "1000"})
    error = writer.write([_effect(table)])[0].error
    assert (error.temporary, error.code) == (False, "SinkRefused")
    assert "row 1 has 1045 bytes" in error.message


def test_a_null_value_is_a_message_too():
    table = pa.table({"key": [b"k"], "value": pa.nulls(1)})
    error = _writer().write([_effect(table)])[0].error
    assert error.message == (
        "topic acme.scores: it is not there; 'headrace topics create score --tenant acme' makes "
        "it, and then 'headrace streams resume acme/score' goes on"
    )


def test_of_a_topic_that_a_row_names_the_record_is_to_blame():
    error = _writer().write([_effect(pa.table({"value": ["a"], "topic": ["nowhere"]}))])[0].error
    assert error.code == "SinkRefused"
    assert "a row names it; make it, and then 'headrace streams resume acme/score'" in error.message


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ({"partitions": 0}, "partitions 0"),
        ({"partitions": 1, "replication": -1}, "replication -1"),
        ({"partitions": 1, "retention": "a week"}, "7d, 12h, 30m or forever"),
        ({"retention": "7d"}, "say partitions too"),
    ],
)
def test_a_topic_that_cannot_be_made_so_is_refused_when_it_is_named(words, told):
    with pytest.raises(ConfigError, match=told):
        KafkaTopic("{tenant}.scores", **words)


def test_how_a_topic_is_made_says_nothing_of_where_effects_go():
    plain, made = KafkaTopic("t"), KafkaTopic("t", partitions=3, retention="forever")
    assert facts_of(plain) == facts_of(made)


def test_a_missing_topic_is_a_refusal_of_its_own_tenant():
    outcomes = _writer().write(
        [_effect(pa.table({"value": ["a"]})), _effect(pa.table({"value": ["a"]}).slice(1), "bolt")]
    )
    assert outcomes[0].error.code == "TargetMissing"
    assert outcomes[1].error is None


def test_the_mark_of_an_earlier_sink_is_replaced():
    headers = [{"key": SLICE_HEADER, "value": b"old"}, {"key": "trace", "value": b"1"}]
    assert sink_messages._pairs(headers) == [("trace", b"1")]


def test_for_whom_a_record_was_sent_back_is_not_passed_on():
    names = ("use-case", "count", "seal", "place", "")
    own = [{"key": f"headrace.redrive.{name}", "value": b"1"} for name in names]
    others = [{"key": "headrace.redriven", "value": b"1"}, {"key": "trace", "value": None}]
    pairs = sink_messages._pairs([others[0], *own, others[1]])
    assert pairs == [("headrace.redriven", b"1"), ("trace", None)]


def test_one_producer_serves_all_bins_of_a_worker():
    assert sink._line(_INSIDE) is sink._line(dict(_INSIDE))


def test_other_credentials_have_a_producer_of_their_own():
    other = {**_INSIDE, "client.id": "bolt"}
    assert sink._line(_INSIDE) is not sink._line(other)


def test_a_forked_child_does_not_use_its_parents_producer(monkeypatch):
    mine = sink._line(_INSIDE)
    monkeypatch.setattr(os, "getpid", lambda: -1)
    assert sink._line(_INSIDE) is not mine


def test_a_producer_is_forgotten_after_a_fatal_error():
    line = sink._line(_INSIDE)
    note = sink._noted({}, 0, line, own="t")
    note(KafkaError(KafkaError._MSG_TIMED_OUT), "t")
    assert sink._line(_INSIDE) is line
    note(KafkaError(KafkaError._FATAL, "fenced", fatal=True), "t")
    assert sink._line(_INSIDE) is not line


def test_the_guarantee_cannot_be_configured_away():
    with pytest.raises(ConfigError, match=r"kafka: .*max\.in\.flight"):
        _writer(**{"max.in.flight": "99"}).write([])


class Broken:
    """A producer after a fatal error, which comes out of the one call or the other."""

    def __init__(self, call, error=None):
        self._call, self._error = call, error

    def __len__(self):
        return 0

    def produce(self, *_args, **_message):
        self._maybe("produce")

    def poll(self, _timeout):
        self._maybe("poll")

    def flush(self, _timeout):
        self._maybe("flush")
        return 0

    def _maybe(self, call):
        if call == self._call:
            raise self._error


@pytest.mark.parametrize("call", ["produce", "poll", "flush"])
@pytest.mark.parametrize(
    "error",
    [KafkaException(KafkaError(KafkaError._FATAL)), SystemError("a result with an exception set")],
)
def test_a_producer_that_broke_is_trouble_that_passes_and_is_made_anew(call, error):
    writer = _writer()
    line = sink._line(writer._properties)
    line.topics, line.producer = {"acme.scores"}, Broken(call, error)
    (outcome,) = writer.write([_effect(pa.table({"value": ["a"]}))])
    assert outcome.error.code == "SinkUnavailable"
    assert sink._line(writer._properties) is not line


def test_a_message_that_the_queue_can_never_hold_is_refused(monkeypatch):
    writer = _writer()
    line = sink._line(writer._properties)
    line.topics, line.producer = {"acme.scores"}, Broken("")

    def full(*_args, **_message):
        raise BufferError

    monkeypatch.setattr(line.producer, "produce", full)
    (outcome,) = writer.write([_effect(pa.table({"value": ["a"]}))])
    assert (outcome.error.code, outcome.error.temporary) == ("SinkRefused", False)
    assert "queue.buffering.max.kbytes" in outcome.error.message


def test_what_may_not_repeat_is_sent_by_a_producer_that_sends_nothing_again():
    writer = _writer(retries="9", **{"max.in.flight": "5"})
    writer.write([replace(_effect(pa.table({"value": ["a"]})), may_repeat=False)])
    writer.write([_effect(pa.table({"value": ["a"]}))])
    once, again = (dict(settings) for _, settings in sink._lines)
    assert once["enable.idempotence"] == "false"
    assert once["message.send.max.retries"] == "0"
    assert once["max.in.flight.requests.per.connection"] == "1"
    assert "retries" not in once
    assert again["enable.idempotence"] == "true"


_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def _with_headers(*headers):
    values = pa.array([b"v"] * len(headers), pa.binary())
    return pa.table({"value": values, "headers": pa.array(headers, _HEADERS)})


@pytest.mark.parametrize(
    "bad", [None, {"key": None, "value": b"1"}, {"key": "a\0b", "value": b"1"}]
)
def test_a_header_that_cannot_be_sent_is_named_by_its_row_before_anything_is_sent(bad):
    good = [{"key": "k", "value": None}]
    table = _with_headers(good, None, [*good, bad], good)
    with pytest.raises(SinkRefused, match="row 2 has a header without a name"):
        sink_messages.check(table, "t", 1000)
    sink_messages.check(table.slice(0, 2), "t", 1000)
    sink_messages.check(table.slice(3), "t", 1000)


def test_a_topic_that_is_no_text_refuses_its_own_effect_alone():
    odd = pa.table({"value": ["a"]}).append_column("topic", no_text(1))
    outcomes = _writer().write([_effect(odd), _effect(pa.table({"value": ["a"]}), "bolt")])
    assert [outcome.error.code for outcome in outcomes] == ["SinkRefused", "TargetMissing"]


def test_headers_and_the_effects_name_count_to_the_size_of_a_message():
    big = [{"key": "big", "value": b"x" * 400}]
    table = _with_headers(None, [{"key": "k", "value": None}], [*big, *big], [])
    writer = _writer(**{"message.max.bytes": "1000"})
    assert writer.write([_effect(table)])[0].error.code == "TargetMissing"
    pieces = tuple(Slice(LaneId("score", "acme", f"t[{p}]"), "t", 0, 9, epoch=1) for p in range(8))
    error = writer.write([Effect(pieces, (9,) * 8, table)])[0].error
    assert error.code == "SinkRefused"
    assert "row 2 has 1090 bytes" in error.message
    small = table.slice(3)
    assert writer.write([Effect(pieces, (9,) * 8, small)])[0].error.code == "TargetMissing"


def test_the_client_takes_what_was_counted():
    headers = [{"key": "k" * size, "value": b"v" * size} for size in (0, 1, 7, 900)]
    for many in (1, 3, 40):
        rows = _with_headers(headers * many, [], None)
        with pytest.raises(SinkRefused, match="row 0") as refusal:
            sink_messages.check(rows, "t", 1)
        counted = int(re.search(r"has (\d+) bytes", str(refusal.value))[1])
        pairs = [(header["key"], header["value"]) for header in headers * many]
        producer = Producer({**_INSIDE, "message.max.bytes": str(counted)})
        producer.produce("t", b"v", headers=pairs)
        producer.purge()
