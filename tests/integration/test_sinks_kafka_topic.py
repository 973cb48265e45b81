"""What readers find in a topic that the Kafka sink wrote."""

from __future__ import annotations

import os
import time
import uuid
from dataclasses import replace

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
)

from headrace.connectors.kafka.sink_messages import SLICE_HEADER
from headrace.model.streams import LaneId, Slice
from headrace.ports import Connections, Effect, Site
from headrace.sinks import KafkaTopic
from headrace.testing.kafka_topics import KafkaTopics

pytestmark = pytest.mark.kafka
_PARTITIONS = 3
_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


@pytest.fixture
def topics(kafka):
    """Topics ``<mark>-acme`` and ``<mark>-bolt``."""
    mark = uuid.uuid4().hex
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    names = [f"{mark}-acme", f"{mark}-bolt"]
    for made in admin.create_topics([NewTopic(name, _PARTITIONS, 1) for name in names]).values():
        made.result(30)
    yield f"{mark}-{{tenant}}"
    for gone in admin.delete_topics(names).values():
        gone.result(30)


def _write(kafka, topic, effects):
    site = Site(Connections({"bootstrap.servers": kafka.bootstrap_servers}, ""), positions=None)
    return KafkaTopic(topic).open(site).write(effects)


def _effect(table, tenant="acme"):
    return Effect((Slice(LaneId("score", tenant, "t[2]"), "t", 7, 50, epoch=1),), (9,), table)


def _read(kafka, topic):
    settings = {
        "bootstrap.servers": kafka.bootstrap_servers,
        "group.id": "unused",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "fetch.wait.max.ms": 10,  # or an end is told half a second later
    }
    reader = Consumer(settings)
    reader.assign([TopicPartition(topic, partition, 0) for partition in range(_PARTITIONS)])
    messages, ended = [], 0
    while ended < _PARTITIONS:
        message = reader.poll(30)
        assert message is not None, "the broker answers within half a minute"
        if message.error() is None:
            messages.append(message)
        else:
            ended += 1
    reader.close()
    return messages


def test_rows_of_a_key_keep_their_order_over_effects(kafka, topics):
    tables = [
        pa.table({"key": [f"k{n % 5}" for n in rows], "value": [f"{n:03d}" for n in rows]})
        for rows in (range(100), range(100, 200))
    ]
    _write(kafka, topics, [_effect(table) for table in tables])
    messages = _read(kafka, topics.format(tenant="acme"))
    assert len(messages) == 200
    for key in {message.key() for message in messages}:
        values = [message.value() for message in messages if message.key() == key]
        assert values == sorted(values)


def test_a_message_carries_its_headers_and_the_mark_of_its_slice(kafka, topics):
    headers = pa.array([[{"key": "trace", "value": b"1"}]], _HEADERS)
    _write(kafka, topics, [_effect(pa.table({"value": [b"a"], "headers": headers}))])
    (message,) = _read(kafka, topics.format(tenant="acme"))
    assert message.headers() == [("trace", b"1"), (SLICE_HEADER, b"score/acme/2:7-9")]
    assert message.key() is None


def test_each_tenant_has_its_topic_unless_a_row_names_another(kafka, topics):
    acme, bolt = (topics.format(tenant=name) for name in ("acme", "bolt"))
    moved = pa.table({"value": ["to bolt", "stays"], "topic": [bolt, None]})
    _write(kafka, topics, [_effect(moved), _effect(pa.table({"value": ["own"]}), "bolt")])
    assert [message.value() for message in _read(kafka, acme)] == [b"stays"]
    assert sorted(message.value() for message in _read(kafka, bolt)) == [b"own", b"to bolt"]


def test_a_missing_topic_delays_and_hurts_nobody_else(kafka, topics):
    table = pa.table({"value": ["a"]})
    effects = [_effect(table, "nobody"), _effect(table, "acme")]
    outcomes = _write(kafka, topics, effects)
    assert [outcome.error and outcome.error.code for outcome in outcomes] == ["TargetMissing", None]
    assert len(_read(kafka, topics.format(tenant="acme"))) == 1


def test_a_missing_topic_is_made_as_the_sink_says(kafka):
    mark = uuid.uuid4().hex
    sink = KafkaTopic(f"{mark}-{{tenant}}", partitions=_PARTITIONS, retention="12h")
    properties = {"bootstrap.servers": kafka.bootstrap_servers}
    writer = sink.open(Site(Connections(properties, ""), positions=None))
    effects = [_effect(pa.table({"value": ["a"]}), tenant) for tenant in ("acme", "bolt")]
    assert [outcome.error for outcome in writer.write(effects)] == [None, None]
    assert [message.value() for message in _read(kafka, f"{mark}-acme")] == [b"a"]
    admin = AdminClient(properties)
    asked = ConfigResource(ConfigResource.Type.TOPIC, f"{mark}-bolt")
    (told,) = admin.describe_configs([asked]).values()
    assert told.result(30)["retention.ms"].value == "43200000"
    for gone in admin.delete_topics([f"{mark}-acme", f"{mark}-bolt"]).values():
        gone.result(30)


@pytest.mark.parametrize("made_again", [False, True])
def test_a_topic_that_goes_away_under_a_producer_is_no_records_fault(kafka, made_again):
    topics = KafkaTopics(kafka.bootstrap_servers)
    topic = topics.make(_PARTITIONS)
    site = Site(Connections(topics.config, ""), positions=None)
    writer = KafkaTopic(topic).open(site)
    (first,) = writer.write([_effect(pa.table({"value": ["a"]}))])
    assert first.error is None
    topics.delete(topic)
    if made_again:
        topics.make_named(topic)
    codes = []
    ends_s = time.monotonic() + 60
    while (not codes or codes[-1] == "SinkUnavailable") and time.monotonic() < ends_s:
        (found,) = writer.write([_effect(pa.table({"value": ["b"], "key": ["k"]}))])
        codes.append(found.error and found.error.code)
    assert codes[-1] == (None if made_again else "TargetMissing")
    if made_again:
        assert [message.value() for message in topics.messages(topic)][-1] == b"b"
        topics.delete(topic)


def test_a_message_too_large_for_its_topic_takes_none_along_that_has_one_chance(kafka, topics):
    topic = topics.format(tenant="acme")
    limit = ConfigEntry("max.message.bytes", "100000", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[limit])
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    admin.incremental_alter_configs([resource])[resource].result(30)
    fits = [b"%02d" % number + os.urandom(20_000) for number in range(40)]
    tables = {
        "acme": pa.table({"key": [b"k"] * 40, "value": fits}),
        "bolt": pa.table({"key": [b"k"], "value": [os.urandom(200_000)]}),
        "cern": pa.table({"key": [b"k"] * 3, "value": [b"a", b"b", b"c"]}),
    }
    effects = [
        replace(_effect(table, tenant), may_repeat=False) for tenant, table in tables.items()
    ]
    codes = [outcome.error and outcome.error.code for outcome in _write(kafka, topic, effects)]
    assert codes == [None, "SinkRefused", None]
    assert [message.value() for message in _read(kafka, topic)] == [*fits, b"a", b"b", b"c"]
