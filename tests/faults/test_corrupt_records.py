"""A hundred thousand records of rubbish: each is done, or kept as a dead letter, bytes and all.

Real Kafka, the real reader and the real task code; the engine is the fake. A record in a
hundred is one that the handler has to give up, the others are any bytes at all in key, value and
headers. The handler decodes each as JSON, and event times are looked for in each.
"""

import json
import random
import time
from dataclasses import replace

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as KafkaPartition
from matrix import note

from headrace.connectors.kafka import (
    KafkaDeadLettersFactory,
    KafkaLog,
    KafkaReaderFactory,
    create_topics,
    producer_config,
)
from headrace.cycle.driver import Driver, DriverParts
from headrace.model.records import Deployment
from headrace.model.streams import BadRecordPolicy, Tenant
from headrace.payload.event_times import json_time
from headrace.ports import Connections, Site
from headrace.process.clock import SystemClock
from headrace.sinks import SqlTable
from headrace.store import SqlPositionsFactory, open_store
from headrace.testing.engine_fake import InProcessEngine
from headrace.testing.ledger import Found, Ledger, Place
from headrace.use_cases import use_case

pytestmark = [pytest.mark.kafka, pytest.mark.slow]
RECORDS = 100_000
PARTITIONS = 2
POISON = b"\xff\x00give this one up\x00\xff"
COLUMNS = {"partition": "bigint", "record": "bigint", "decoded": "boolean"}


def rubbish(chance):
    """Any bytes, often those that break decoders; or nothing at all."""
    kind = chance.randrange(7)
    if kind == 0:
        return None
    if kind == 3:
        wrong = chance.choice(["1e999", "-1", '"never"', "[]", "1e15", "true", '"2026-13-01"'])
        return f'{{"at": {wrong}}}'.encode()
    if kind == 1:
        return b'{"open": [' * chance.randrange(1, 30)
    if kind == 2:
        return "\ud800\udfff\x00".encode("utf-8", "surrogatepass") * chance.randrange(4)
    return chance.randbytes(chance.choice([0, 1, 3, 40, 400]))


def send(config, topic, ledger):
    """The corpus; returns what was in the records that are to be given up."""
    chance, poisoned = random.Random(5), {}
    producer = Producer({**producer_config(config), "queue.buffering.max.messages": 200_000})

    def done(error, message):
        assert error is None
        place = Place(message.topic(), message.partition(), message.offset())
        ledger.acknowledged(place)
        if (message.value() or b"").startswith(POISON):
            poisoned[place] = message.value()

    for number in range(RECORDS):
        value = POISON + chance.randbytes(20) if number % 100 == 0 else rubbish(chance)
        headers = [("h", rubbish(chance)) for _ in range(chance.randrange(3))]
        producer.produce(
            topic,
            value,
            rubbish(chance),
            partition=number % PARTITIONS,
            headers=headers,
            on_delivery=done,
        )
        producer.poll(0)
    assert producer.flush(120) == 0
    return poisoned


def keep(table, context):
    for row, value in enumerate(table["value"].to_pylist()):
        if value is not None and value.startswith(POISON):
            raise context.bad_record(row, "it is of no use")
    decoded = [is_json(value) for value in table["value"].to_pylist()]
    return pa.table(
        {
            "partition": table["partition"].cast(pa.int64()),
            "record": table["offset"].cast(pa.int64()),
            "decoded": pa.array(decoded, pa.bool_()),
        }
    )


def is_json(value):
    try:
        json.loads(value or b"")
    except ValueError:
        return False
    return True


def letters(config, topic, wanted):
    """Values of the dead letters, by the place that their headers name."""
    consumer = Consumer({**config, "group.id": "none", "auto.offset.reset": "earliest"})
    partitions = consumer.list_topics(topic, timeout=30).topics[topic].partitions
    consumer.assign([KafkaPartition(topic, partition, 0) for partition in partitions])
    found, deadline_s = {}, time.monotonic() + 60
    while len(found) < wanted and time.monotonic() < deadline_s:
        for message in consumer.consume(1000, 1.0):
            headers = dict(message.headers())
            names = ("topic", "partition", "offset")
            told = [headers[f"__connect.errors.{name}"].decode() for name in names]
            found[Place(told[0], int(told[1]), int(told[2]))] = message.value()
    consumer.close()
    return found


def test_rubbish_is_done_or_kept_to_the_last_byte(kafka, tmp_path):
    config = {"bootstrap.servers": kafka.bootstrap_servers}
    name = f"rubbish{time.time_ns()}"
    topic, ledger = f"acme.{name}", Ledger()
    create_topics(config, {topic: PARTITIONS})
    ledger.topic("acme", topic)
    poisoned = send(config, topic, ledger)
    connections = Connections(config, f"sqlite:///{tmp_path}/store.db", warehouse=str(tmp_path))
    store, log = open_store(connections.database_url), KafkaLog(config)
    factory = KafkaDeadLettersFactory()
    sink = SqlTable("seen", columns=COLUMNS)
    made = use_case(
        topic=f"{{tenant}}.{name}",
        sink=sink,
        guarantee="exactly-once",
        bad_record="dead-letter",
        event_time=json_time("/at"),
        name="keep",
    )(keep)
    deployment = Deployment(
        "keep", "m.py", "0" * 64, made.topic, bad_record=BadRecordPolicy.DEAD_LETTER
    )
    sink.prepare(Site(connections, store.positions))
    store.registry.deploy(deployment)
    store.registry.add_tenant(Tenant("acme"))
    engine = InProcessEngine(connections, KafkaReaderFactory(), SqlPositionsFactory(), factory)
    dead_letters = factory.open(connections)
    driver = Driver(DriverParts(store, log, engine, dead_letters, SystemClock()), "run")
    engine.take(made, deployment)
    driver.take(made, deployment)
    deadline_s = time.monotonic() + 500
    while sum(position.next_offset for position in store.progress.load_positions()) < RECORDS:
        assert time.monotonic() < deadline_s, [(row.state, row.note) for row in driver.rows()]
        driver.turn()
    with store.positions.begin() as connection:
        wanted = "SELECT partition, record, decoded FROM seen ORDER BY rowid"
        rows = connection.exec_driver_sql(wanted).all()
    done = [Found("acme", Place(topic, *row[:2])) for row in rows]
    for part in (dead_letters, log, store):
        part.close()
    kept = letters(config, f"{topic}.dlq", len(poisoned))
    assert kept == poisoned
    verdict = ledger.judge(done)
    # What was given up is not lost: it is a dead letter, and was compared.
    rest = replace(verdict, lost=tuple(set(verdict.lost) - set(poisoned)))
    note("corrupt records", {"transacts": rest}, faults=1, records=RECORDS)
    assert rest.clean, str(rest)
    assert set(verdict.lost) == set(poisoned)
    assert RECORDS // 10 < sum(row[2] for row in rows) < RECORDS // 5
