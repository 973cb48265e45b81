"""Records that could not be handled are kept in a topic of letters, whole."""

import contextlib
import os
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
from apart import run_apart
from confluent_kafka import TIMESTAMP_CREATE_TIME, Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from headrace.connectors.kafka import (
    KafkaDeadLetters,
    KafkaDeadLettersFactory,
    KafkaLog,
    KafkaReaderFactory,
)
from headrace.cycle.driver import Driver, DriverParts
from headrace.errors import BrokerUnavailable, ConfigError
from headrace.model.plans import Limits
from headrace.model.records import Deployment
from headrace.model.streams import Tenant
from headrace.model.topic_names import dead_letters_topic
from headrace.ports import Connections
from headrace.process.clock import SystemClock
from headrace.sinks import ParquetFiles
from headrace.store import SqlPositionsFactory, open_store
from headrace.testing.dead_letters_contract import letter
from headrace.testing.engine_fake import InProcessEngine
from headrace.testing.log_fake import Row
from headrace.use_cases import use_case

pytestmark = pytest.mark.kafka


def settings_of(topics, topic):
    admin = AdminClient(topics.config)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    found = admin.describe_configs([resource])[resource].result(60)
    return {name: entry.value for name, entry in found.items()}


def test_the_topic_of_letters_is_as_wide_as_its_source_and_forgets_nothing(topics, letters):
    topic = topics.make(3, {"max.message.bytes": "2000000"})
    letters.keep([letter(topic, 1)])
    lanes = {message.partition() for message in topics.messages(dead_letters_topic(topic))}
    assert lanes == {0}
    settings = settings_of(topics, dead_letters_topic(topic))
    assert (settings["retention.ms"], settings["cleanup.policy"]) == ("-1", "delete")
    assert int(settings["max.message.bytes"]) == 2_000_000 + 64 * 1024
    letters.keep([letter(topic, 1, partition=2)])


def test_many_tasks_may_keep_the_first_letter_at_once(topics):
    topic = topics.make(4)

    def keep(partition):
        with contextlib.closing(KafkaDeadLetters(topics.config)) as mine:
            mine.keep([letter(topic, partition, partition=partition)])

    with ThreadPoolExecutor(4) as tasks:
        list(tasks.map(keep, range(4)))
    assert [message.partition() for message in topics.messages(dead_letters_topic(topic))] == [
        0,
        1,
        2,
        3,
    ]


def test_a_source_that_got_more_partitions_takes_its_letters_along(topics, letters):
    topic = topics.make(2)
    topics.make_named(dead_letters_topic(topic), 1)
    letters.keep([letter(topic, 1, partition=0)])
    letters.keep([letter(topic, 1, partition=1)])
    assert [message.partition() for message in topics.messages(dead_letters_topic(topic))] == [0, 1]


def test_a_record_as_large_as_its_topic_allows_is_kept_whole(topics, letters):
    topic = topics.make()
    largest = b"\x00" * 1_048_000
    producer = Producer({**topics.config, "message.max.bytes": "2000000"})
    producer.produce(topic, largest)
    assert producer.flush(20) == 0
    long_trace = "at line\n" * 100_000 + "ValueError: the end"
    letters.keep([letter(topic, 0, value=largest, message="m" * 100_000, traceback=long_trace)])
    (kept,) = topics.messages(dead_letters_topic(topic))
    assert kept.value() == largest
    said = dict(kept.headers())
    assert said["__connect.errors.exception.stacktrace"].endswith(b"ValueError: the end")


def test_a_narrow_topic_gets_shorter_headers_and_the_whole_record(topics, letters):
    topic = topics.make()
    topics.make_named(dead_letters_topic(topic), 1, {"max.message.bytes": "3000"})
    letters.keep([letter(topic, 0, value=b"v" * 2000, message="m" * 5000, traceback="t" * 5000)])
    (kept,) = topics.messages(dead_letters_topic(topic))
    assert kept.value() == b"v" * 2000


def test_a_record_too_large_for_its_letters_topic_says_what_to_do(topics, letters):
    topic = topics.make()
    topics.make_named(dead_letters_topic(topic), 1, {"max.message.bytes": "3000"})
    with pytest.raises(ConfigError, match=r"offset 5 is too large .* raise max\.message\.bytes"):
        letters.keep([letter(topic, 5, value=os.urandom(4000))])
    letters.keep([letter(topic, 6)])
    assert len(topics.messages(dead_letters_topic(topic))) == 1


def test_a_record_of_a_time_that_its_letters_topic_refuses_says_what_to_do(topics, letters):
    topic = topics.make()
    in_a_week_ms = int((time.time() + 7 * 86_400) * 1000)
    with pytest.raises(ConfigError, match=r"the time of record .* message\.timestamp\.after\.max"):
        letters.keep([letter(topic, 5, timestamp_ms=in_a_week_ms)])
    name = dead_letters_topic(topic)
    raised = ConfigEntry(
        "message.timestamp.after.max.ms",
        str(2**62),
        incremental_operation=AlterConfigOpType.SET,
    )
    resource = ConfigResource(ConfigResource.Type.TOPIC, name, incremental_configs=[raised])
    admin = AdminClient(topics.config)
    admin.incremental_alter_configs([resource])[resource].result(30)
    letters.keep([letter(topic, 5, timestamp_ms=in_a_week_ms)])
    assert [message.timestamp()[1] for message in topics.messages(name)] == [in_a_week_ms]


def test_a_topic_of_letters_deleted_meanwhile_is_made_again(topics, letters):
    topic = topics.make()
    letters.keep([letter(topic, 1)])
    topics.delete(dead_letters_topic(topic))
    with contextlib.suppress(BrokerUnavailable):
        letters.keep([letter(topic, 2)])
    letters.keep([letter(topic, 3)])
    assert topics.messages(dead_letters_topic(topic))


FORKED = """
import gc, os, sys
from headrace.connectors.kafka import KafkaDeadLetters
from headrace.testing.dead_letters_contract import letter

letters = KafkaDeadLetters({"bootstrap.servers": sys.argv[1]})
letters.keep([letter(sys.argv[2], 1)])
if os.fork() == 0:
    letters.keep([letter(sys.argv[2], 2)])
    letters.close()
    del letters
    gc.collect()
    os._exit(7)
code = os.waitstatus_to_exitcode(os.wait()[1])
letters.keep([letter(sys.argv[2], 3)])
sys.exit(code)
"""


def test_letters_are_kept_in_a_process_forked_after_the_first(topics):
    topic = topics.make()
    assert run_apart(FORKED, topics.config["bootstrap.servers"], topic) == 7
    assert len(topics.messages(dead_letters_topic(topic))) == 3


def test_a_letter_of_the_driver_is_the_record_as_it_came(topics, letters, tmp_path):
    """A handler that raises is judged by the driver, which keeps the letter itself."""

    def raises(_table, _context):
        raise ValueError("no")

    name = f"t{uuid.uuid4().hex[:8]}"
    topic = f"acme.{name}"
    topics.make_named(topic, 1)
    rows = [Row(b"v", b"k", (("trace", b"1"),), timestamp_ms=1_700_000_000_123)]
    topics.write(topic, 0, rows)
    url = f"sqlite:///{tmp_path}/store.db"
    connections = Connections(topics.config, url, warehouse=str(tmp_path))
    keep = use_case(
        topic=f"{{tenant}}.{name}", sink=ParquetFiles("out"), name="keep", bad_record="dead-letter"
    )(raises)
    deployment = Deployment(
        "keep", "m.py", "0" * 64, keep.topic, bad_record=keep.bad_record, retries=0
    )
    engine = InProcessEngine(
        connections, KafkaReaderFactory(), SqlPositionsFactory(), KafkaDeadLettersFactory()
    )
    with closing(open_store(url)) as store, closing(KafkaLog(topics.config)) as log:
        store.registry.deploy(deployment)
        store.registry.add_tenant(Tenant("acme"))
        driver = Driver(DriverParts(store, log, engine, letters, SystemClock()), "run1", Limits())
        engine.take(keep, deployment)
        driver.take(keep, deployment)
        give_up_s = time.monotonic() + 90
        while [position.next_offset for position in store.progress.load_positions()] != [1]:
            assert time.monotonic() < give_up_s, driver.rows()
            driver.turn()
        engine.close()
    (kept,) = topics.messages(dead_letters_topic(topic))
    assert (kept.key(), kept.value(), kept.headers()[0]) == (b"k", b"v", ("trace", b"1"))
    assert kept.timestamp() == (TIMESTAMP_CREATE_TIME, 1_700_000_000_123)
