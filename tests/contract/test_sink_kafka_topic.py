"""The laws of a sink, on a topic of a real broker."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import ClassVar
from unittest import mock

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.connectors.kafka import sink, sink_transaction_line
from headrace.connectors.kafka.sink_messages import SLICE_HEADER
from headrace.formats import AvroOutput, Text
from headrace.ports import Connections, Sink, Site
from headrace.process.crash_points import PlayedKill
from headrace.sinks import KafkaTopic
from headrace.testing.odd_tables import no_text
from headrace.testing.schemas_fake import MemorySchemas
from headrace.testing.sink_contract import USE_CASE, InBuckets, Seen, SinkContract

pytestmark = pytest.mark.kafka


class TestKafkaTopic(SinkContract):
    cannot_have: ClassVar[Mapping[str, str]] = {
        "refusing for now": "brokers that are away need processes to end (tests/faults)",
        "ambiguous time-out": "the client's own numbers let it ask again in safety",
        "replay after the target forgot": "nothing is asked of earlier messages",
    }

    @pytest.fixture(autouse=True)
    def _topic(self, kafka):
        self.bootstrap = kafka.bootstrap_servers
        self.topic = f"contract-{uuid.uuid4().hex}"
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        admin.create_topics([NewTopic(self.topic, 1, 1)])[self.topic].result(30)
        yield
        admin.delete_topics([self.topic])[self.topic].result(30)

    def make_sink(self) -> Sink:
        return KafkaTopic(self.topic)

    def site(self) -> Site:
        return Site(Connections({"bootstrap.servers": self.bootstrap}, ""), positions=None)

    def table(self, values):
        columns = {"key": [b"one"] * len(values), "value": [value.encode() for value in values]}
        schema = pa.schema([("key", pa.binary()), ("value", pa.binary())])
        return pa.table(columns, schema=schema)

    def refused_table(self):
        return self.table(["small", "x" * 1_000_001])

    def odd_tables(self):
        kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
        odd = {
            "a header without a name": [{"key": None, "value": b"1"}],
            "a null among headers": [None],
            "a NUL in a header's name": [{"key": "a\0b", "value": b"1"}],
        }
        # The first row could be sent.
        return {
            what: self.table(["odd", "even"]).append_column(
                "headers", pa.array([[], headers], kind)
            )
            for what, headers in odd.items()
        } | {"a topic that is no UTF-8": self.table(["odd"]).append_column("topic", no_text(1))}

    def wrong_table(self):
        return pa.table({"value": [1]})

    @contextmanager
    def dying_in_a_write(self):
        send = sink._send

        def sent_and_killed(*args):
            send(*args)
            raise PlayedKill

        with mock.patch.object(sink, "_send", sent_and_killed):
            yield

    def read_back(self):
        reader = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": "unused",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                # An end is told when there was nothing for so long; half a second, if not said.
                "fetch.wait.max.ms": 10,
                "isolation.level": "read_committed",
            }
        )
        reader.assign([TopicPartition(self.topic, 0, 0)])
        seen = []
        while True:
            message = reader.poll(30)
            assert message is not None, "the broker answers within half a minute"
            if message.error() is not None:
                break
            mark = dict(message.headers())[SLICE_HEADER].decode()
            seen.append(
                Seen(f"{mark}:{message.value()}", (message.value() or b"").decode(errors="replace"))
            )
        error = message.error()
        reader.close()
        if error.code() != error._PARTITION_EOF:
            raise KafkaException(error)
        return seen


class TestKafkaTopicInBuckets(InBuckets, TestKafkaTopic):
    """Headers that name buckets; those of transactions cannot."""


class Everywhere:
    """Positions of lanes that are wherever somebody believes them to be."""

    def advance(self, moves):
        return [True] * len(moves)


class TestTransactionalKafkaTopic(TestKafkaTopic):
    """As above, by transactions, read by readers of committed messages."""

    dying_in_a_write = SinkContract.dying_in_a_write

    def forgetting(self):
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        for gone in admin.delete_consumer_groups([f"headrace.tx.{USE_CASE}"]).values():
            gone.result(30)
        return True

    def test_case_5_a_crash_at_the_write(self, monkeypatch):
        # Here the producer outlives its writer, and what it has open is waited for in vain.
        monkeypatch.setattr(sink_transaction_line, "_OFFSETS_S", 1.0)
        super().test_case_5_a_crash_at_the_write()

    @pytest.fixture(autouse=True)
    def _sources(self, kafka):
        # Offsets are committed of topics only that are there.
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
        names = [f"{tenant}.visits" for tenant in ("acme", "bolt", "cern")]
        for name, made in admin.create_topics([NewTopic(name, 2, 1) for name in names]).items():
            if (error := made.exception(30)) is not None:
                assert error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS, name

    def make_sink(self) -> Sink:
        return KafkaTopic(self.topic, transactional=True)

    def site(self) -> Site:
        connections = Connections({"bootstrap.servers": self.bootstrap}, "")
        # The topic is new for each test, and so is the use of these lanes.
        return Site(connections, Everywhere(), wave_id=self.topic, fence="contract-0")


class TestEncodingKafkaTopic(TestTransactionalKafkaTopic):
    """As above, with values in Avro whose schema a registry has."""

    schemas = MemorySchemas()
    wrong_column = "text"

    def make_sink(self) -> Sink:
        schema = {
            "type": "record",
            "name": "Contract",
            "fields": [{"name": "text", "type": "string"}],
        }
        encode = AvroOutput(schema)
        return KafkaTopic(self.topic, transactional=True, encode=encode, encode_key=Text())

    def site(self) -> Site:
        secret = {"schema.registry.url": "http://me:hunter2@registry"}
        connections = replace(super().site().connections, registry=secret)
        return replace(super().site(), connections=connections, schemas=self.schemas)

    def table(self, values):
        columns = {"key": ["one"] * len(values), "text": list(values)}
        return pa.table(columns, schema=pa.schema([("key", pa.string()), ("text", pa.string())]))

    def refused_table(self):
        return pa.table({"key": ["one", "two"], "text": ["small", None]})

    def wrong_table(self):
        return pa.table({"key": ["one"], "value": ["no text"]})

    def read_back(self):
        # Short texts: after the zero byte and the id is their length in one byte.
        seen = super().read_back()
        assert all(one.value.startswith("\0\0\0\0\1") for one in seen)
        return [Seen(one.identity, one.value[6:]) for one in seen]
