"""The embedded broker: its data, its errors and its end."""

import subprocess
import sys
import time

import psutil
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.embedded import EmbeddedKafka
from headrace.embedded.addresses import answers
from headrace.errors import ServerError

pytestmark = pytest.mark.kafka


@pytest.fixture
def broker(tmp_path):
    """A broker of the test's own, not yet started."""
    # a controller that soon gives up a dead broker
    soon = {"broker.session.timeout.ms": "1000", "broker.heartbeat.interval.ms": "200"}
    made = EmbeddedKafka(tmp_path / "kafka", quick_start=True, properties=soon)
    yield made
    made.stop()


def config(broker):
    return {"bootstrap.servers": broker.bootstrap_servers, "log_level": 0}


def write(broker, topic, values):
    admin = AdminClient(config(broker))
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)
    producer = Producer(config(broker))
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(30) == 0


def read(broker, topic, count):
    reader = Consumer({**config(broker), "group.id": "test"})
    reader.assign([TopicPartition(topic, 0, 0)])
    try:
        return [message.value() for message in reader.consume(count, timeout=30)]
    finally:
        reader.close()


def test_data_is_kept_over_stop_and_kill(broker):
    broker.start()
    write(broker, "stopped", [b"a", b"b"])
    broker.stop()
    assert not broker.running
    broker.start()
    write(broker, "killed", [b"c"])
    broker.kill()
    broker.start()
    assert read(broker, "stopped", 2) == [b"a", b"b"]
    assert read(broker, "killed", 1) == [b"c"]


def test_a_folder_in_use_is_refused(kafka):
    with pytest.raises(ServerError, match=f"folder {kafka.folder} is in use"):
        EmbeddedKafka(kafka.folder).start()
    assert kafka.running


def test_a_taken_port_is_refused(kafka, tmp_path):
    with pytest.raises(ServerError, match=f"Kafka broker cannot listen on.*:{kafka.port}"):
        EmbeddedKafka(tmp_path, port=kafka.port).start()


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ServerError, match=f"{tmp_path}/file/kafka cannot be written"):
        EmbeddedKafka(tmp_path / "file" / "kafka").start()


@pytest.mark.parametrize(
    "wrong",
    [{"log.cleaner.threads": "-1"}, {"authorizer.class.name": "no.such.Authorizer"}],
    ids=["found when the folder is made ready", "found when the broker starts"],
)
def test_a_wrong_property_is_named(tmp_path, wrong):
    broker = EmbeddedKafka(tmp_path, quick_start=True, properties=wrong)
    with pytest.raises(ServerError, match=r"log\.cleaner\.threads|no\.such\.Authorizer"):
        broker.start()
    assert not broker.running


def test_a_mistyped_topic_is_not_made(kafka):
    admin = AdminClient(config(kafka))
    admin.list_topics("no-such-topic", timeout=30)
    assert "no-such-topic" not in admin.list_topics(timeout=30).topics


def test_a_small_topic_takes_little_disk(kafka, make_topic):
    topic = make_topic()
    producer = Producer(config(kafka))
    producer.produce(topic, b"one")
    assert producer.flush(30) == 0
    files = (kafka.folder / "data" / f"{topic}-0").iterdir()
    assert sum(file.stat().st_blocks * 512 for file in files) < 100_000


def test_no_broker_is_left_when_its_parent_is_killed(tmp_path):
    script = (
        "import sys, time\n"
        "from headrace.embedded import EmbeddedKafka\n"
        f"broker = EmbeddedKafka({str(tmp_path)!r}, quick_start=True)\n"
        "broker.start()\n"
        "print('up', broker.pid, broker.port, flush=True)\n"
        "time.sleep(600)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True
    ) as parent:
        words = next(line.split() for line in parent.stdout if line.startswith("up"))
        pid, port = int(words[1]), int(words[2])
        assert answers(port)
        parent.kill()
    # the folder's lock is held until the broker is gone, so this start waits for that
    began_s = time.monotonic()
    with EmbeddedKafka(tmp_path, quick_start=True):
        assert not psutil.pid_exists(pid)
        assert not answers(port)
        assert time.monotonic() - began_s < 60
