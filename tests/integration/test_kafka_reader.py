"""What the slice reader does on a real cluster that changes under it."""

import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import sys
import time

import pytest
import raw_record

from headrace.connectors.kafka import KafkaSliceReader
from headrace.connectors.kafka import reader as reader_module
from headrace.connectors.kafka.rounds import FetchTimeouts
from headrace.model.buckets import bucket_of, divided
from headrace.model.lane_names import named, number_of
from headrace.model.streams import LaneId
from headrace.spark.bucket_reading import BucketReader
from headrace.spark.key_hash import bucket_of_key
from headrace.testing.kafka_topics import until
from headrace.testing.log_contract.rows import failure, numbered, piece, values
from headrace.testing.log_fake import Row

pytestmark = pytest.mark.kafka
HASTY = FetchTimeouts(idle_s=1.0, look_s=0.2)


@pytest.fixture
def reader(topics):
    with contextlib.closing(KafkaSliceReader(topics.config, HASTY)) as made:
        yield made


def test_a_thousand_small_slices_are_each_complete(topics, reader):
    name = topics.make(partitions=1000)
    for partition in range(1000):
        topics.write(name, partition, numbered(3, first=partition))
    pieces = [piece(name, 1, 3, partition) for partition in range(1000)]
    batches = list(reader.read(pieces, 100))
    assert {batch.slice for batch in batches} == set(pieces)
    for batch in batches:
        first = number_of(batch.slice.lane.name)
        assert values([batch]) == [b"%d" % (first + 1), b"%d" % (first + 2)]
        assert (batch.last, batch.error, batch.reached) == (True, None, 3)


def test_records_of_an_open_transaction_are_waited_for_and_then_given_up(topics, reader):
    name = topics.make()
    topics.write(name, 0, numbered(2))
    producer = topics.transaction(name, 0, records=3)
    batches = list(reader.read([piece(name, 0, 5)], 100))
    assert values(batches) == [b"0", b"1"]
    assert failure(batches, name).temporary
    assert batches[-1].reached == 2
    topics.commit(name, 0, producer)
    assert len(values(list(reader.read([piece(name, 0, 6)], 100)))) == 5


@pytest.mark.parametrize("large", [{"key": bytes(900_000)}, {"headers": (("h", bytes(900_000)),)}])
def test_large_keys_and_headers_are_not_fetched_ahead(topics, reader, monkeypatch, large):
    """The client counts values alone: with its limits it holds all of them that wait."""
    monkeypatch.setattr(reader_module, "_HELD_BYTES", 1_000_000)
    name, records = topics.make(), 80
    topics.write(name, 0, [Row(b"", **large) for _ in range(records)])
    rows = []
    for batch in reader.read([piece(name, 0, records)], 100):
        assert batch.error is None
        rows.append(batch.records.num_rows)
        time.sleep(0.3)  # as a handler does, in which time a client may fetch
    assert sum(rows) == records
    assert max(rows) < records // 2


def test_a_compacted_lane_is_read_over_its_gaps(topics, reader):
    name = topics.make(
        topic_config={
            "cleanup.policy": "compact",
            "segment.ms": "100",
            "min.cleanable.dirty.ratio": "0.001",
            "max.compaction.lag.ms": "100",
        }
    )
    topics.write(name, 0, [Row(b"old", b"k")] * 50)
    end = 50

    def compacted():
        nonlocal end
        topics.write(name, 0, [Row(b"new", b"k")])
        end += 1
        return len(values(list(reader.read([piece(name, 0, end)], 100)))) < end

    until(compacted, deadline_s=60)
    batches = list(reader.read([piece(name, 0, end)], 100))
    assert (batches[-1].reached, batches[-1].error) == (end, None)
    (inside,) = reader.read([piece(name, 3, 6)], 100)
    assert (inside.records.num_rows, inside.reached, inside.error) == (0, 6, None)


def test_a_topic_deleted_while_it_is_read_fails_alone(topics, reader):
    name, sound = topics.make(), topics.make()
    topics.write(name, 0, [Row(b"x" * 1000)] * 100_000)
    topics.write(sound, 0, numbered(5))
    batches = reader.read([piece(name, 0, 100_000), piece(sound, 0, 5)], 1000)
    came = [next(batches), next(batches)]
    topics.delete(name)
    came += batches
    assert failure(came, name).code == "TopicMissing"
    assert values([batch for batch in came if batch.slice.topic == sound])[-1] == b"4"


def test_a_topic_made_again_with_fewer_records_is_out_of_range(topics, reader):
    name = topics.make()
    topics.write(name, 0, numbered(10))
    assert len(values(list(reader.read([piece(name, 0, 10)], 100)))) == 10
    topics.delete(name)
    topics.make_named(name)
    topics.write(name, 0, numbered(3))
    batches = list(reader.read([piece(name, 5, 10)], 100))
    error = failure(batches, name)
    assert error.code == "OffsetOutOfRange"
    assert "0..3" in error.message


def test_large_records_do_not_gather_in_memory(topics, reader, monkeypatch):
    monkeypatch.setattr("headrace.connectors.kafka.reader._HELD_BYTES", 100_000)
    names = [topics.make() for _ in range(3)]
    for name in names:
        topics.write(name, 0, [Row(b"x" * 20_000)] * 30)
    batches = list(reader.read([piece(name, 0, 30) for name in names], 1000))
    assert [
        sum(batch.records.num_rows for batch in batches if batch.slice.topic == name)
        for name in names
    ] == [30, 30, 30]
    assert max(batch.records.nbytes for batch in batches) < 3 * 600_000


def test_a_bad_property_fails_the_slices_and_not_the_worker(topics):
    reader = KafkaSliceReader({**topics.config, "no.such.property": "1"}, HASTY)
    (batch,) = reader.read([piece("any", 0, 5)], 100)
    assert (batch.error.code, batch.error.temporary) == ("ConfigError", False)
    assert "no.such.property" in batch.error.message


def test_no_broker_is_a_temporary_error_of_every_slice():
    reader = KafkaSliceReader({"bootstrap.servers": "127.0.0.1:1"}, HASTY)
    batches = list(reader.read([piece("a", 0, 5), piece("b", 0, 5)], 100))
    assert [batch.error.code for batch in batches] == ["BrokerUnavailable"] * 2
    assert all(batch.error.temporary and batch.last for batch in batches)


def test_refused_credentials_are_told_at_once(topics):
    config = {
        **topics.config,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanisms": "PLAIN",
        "sasl.username": "acme",
        "sasl.password": "hunter2",
    }
    reader = KafkaSliceReader(config, FetchTimeouts(idle_s=20))
    (batch,) = reader.read([piece("a", 0, 5)], 100)
    assert batch.error.code == "ConfigError"
    assert "hunter2" not in batch.error.message


FORKED = """
import gc, os, sys
from headrace.connectors.kafka import KafkaSliceReader
from headrace.testing.log_contract.rows import piece, values

reader = KafkaSliceReader({"bootstrap.servers": sys.argv[1]})
assert len(values(list(reader.read([piece(sys.argv[2], 0, 5)], 100)))) == 5
if os.fork() == 0:
    for _ in range(2):
        assert values(list(reader.read([piece(sys.argv[2], 1, 3)], 100))) == [b"1", b"2"]
        gc.collect()
    os._exit(7)
sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
"""


def test_a_reader_works_in_a_process_forked_after_its_first_read(topics):
    name = topics.make()
    topics.write(name, 0, numbered(5))
    # A process of its own: the other tests' clients must not be there to be forked.
    command = [sys.executable, "-c", FORKED, topics.config["bootstrap.servers"], name]
    process = subprocess.Popen(command, start_new_session=True)
    try:
        assert process.wait(90) == 7
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_reading_joins_no_consumer_group(topics, reader):
    name = topics.make()
    topics.write(name, 0, numbered(5))
    list(reader.read([piece(name, 0, 5)], 100))
    groups = topics._admin.list_consumer_groups().result(60).valid
    assert not [group.group_id for group in groups if group.group_id.startswith("headrace-reader")]


def test_buckets_of_partitions_are_each_given_their_own(topics, reader):
    name = topics.make(partitions=3)
    keys = [None, *(b"user-%d" % number for number in range(20))]
    for partition in range(3):
        rows = [Row(b"%d" % at, key=keys[at % len(keys)]) for at in range(200)]
        topics.write(name, partition, rows)
    pieces = [
        dataclasses.replace(piece(name, 10 * partition, 200), lane=LaneId("score", "acme", bucket))
        for partition in range(3)
        for bucket in divided(named(name, partition), 5)
    ]
    found = {}
    for batch in BucketReader(reader).read(pieces, 30):
        assert batch.error is None
        found.setdefault(batch.slice.lane.name, []).extend(batch.records["offset"].to_pylist())
        assert set(batch.records["partition"].to_pylist()) <= {number_of(batch.slice.lane.name)}
    for one in pieces:
        bucket = bucket_of(one.lane.name)
        assert found[one.lane.name] == [
            at
            for at in range(one.from_offset, 200)
            if bucket_of_key(keys[at % len(keys)], 5) == bucket.number
        ]


READ = """
import json, sys
from headrace.connectors.kafka import KafkaReaderFactory
from headrace.ports import Connections
from headrace.testing.log_contract.rows import piece
servers, *asked = json.loads(sys.argv[1])
kafka = {"bootstrap.servers": servers}
reader = KafkaReaderFactory().open(Connections(kafka, "", seal_key=b"k" * 32))
told = []
for batch in reader.read([piece(*of) for of in asked], 100):
    error = batch.error and [batch.error.code, batch.error.offset]
    told.append((batch.slice.topic, batch.records.num_rows, error))
print(json.dumps(told))
"""


@pytest.mark.parametrize("name", [b"\xff\xfe", b"\xed\xa0\x80"])
def test_a_header_that_the_client_cannot_tell_is_one_records_trouble(topics, name):
    """To ask for it twice ends the process, so each reading is in one of its own."""
    bad, good, servers = topics.make(), topics.make(), topics.config["bootstrap.servers"]
    for at in range(6):
        headers = [(name if at == 3 else b"h", b"x")]
        raw_record.send(servers, bad, b"%d" % at, headers)
    topics.write(good, 0, numbered(6))
    unreadable = ["RecordUnreadable", 3]

    def read(*asked):
        told = json.dumps([servers, *asked])
        command = [sys.executable, "-c", READ, told]
        done = subprocess.run(command, check=False, capture_output=True, timeout=120)
        assert done.returncode == 0, done.stderr.decode()[-2000:]
        return {topic: [rows, error] for topic, rows, error in json.loads(done.stdout)}

    assert read((bad, 0, 3), (good, 0, 3)) == {bad: [3, None], good: [3, None]}
    assert read((bad, 0, 1), (good, 0, 6)) == {bad: [1, None], good: [6, None]}
    assert read((bad, 1, 6), (good, 0, 6)) == {bad: [2, unreadable], good: [6, None]}
    assert read((bad, 3, 6)) == {bad: [0, unreadable]}
    assert read((bad, 4, 6)) == {bad: [2, None]}
