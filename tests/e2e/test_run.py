"""A whole service by its command line: a YAML file, a use case, real Kafka, real Spark."""

import contextlib
import sys
import time
from contextlib import closing
from pathlib import Path

import psutil
import pyspark
import pytest
from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka.admin import AdminClient
from service import Service, ended

import headrace
from headrace.store import open_store

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow]


@pytest.fixture
def service(tmp_path, kafka):
    return Service(tmp_path, kafka.bootstrap_servers, f"t{time.time_ns()}")


def it_tells_of_acme(service: Service) -> None:
    """Whoever reads the store sees what a driver does."""
    told = service.told(lambda report: any(stream.records_total == 2 for stream in report.streams))
    assert (told.slots, told.executors) == (2, 1)
    assert told.streams[0].delay.p99_s is not None
    ran = {tenant for wave in told.waves for bin_ in wave.bins for tenant in bin_.tenants}
    assert ran == {"acme"}


def it_is_history(service: Service, records: int) -> None:
    """A driver that has left is not missed, and what it did is remembered."""
    with closing(open_store(f"sqlite:///{service.folder}/store.db")) as store:
        assert store.statistics.reports() == []
        points = store.statistics.history(None, 0.0, time.time())
    assert sum(point.records_out for point in points) >= records
    assert "drained" in service.log.read_text()
    (stopped,) = [line for line in service.log_lines() if line["event"] == "lane stopped"]
    assert (stopped["tenant"], stopped["stream"]) == ("acme", "acme/keep")


SEEK_BACK = ("streams", "seek", "bolt", "keep", "--to", "earliest", "--yes")


def test_the_life_of_a_service(service):
    assert service.in_a_shell("use-cases", "deploy").returncode == 0
    assert service.in_a_shell("tenants", "add", "acme").returncode == 0
    service.send("acme", b"a", b"b")
    process = service.run()
    assert sorted(service.until(2)) == [("acme", "a", 1), ("acme", "b", 1)]
    it_tells_of_acme(service)

    # a tenant is added while it runs, before its topic is there
    assert service.headrace("tenants", "add", "bolt").returncode == 0
    service.send("bolt", b"c")
    service.until(3)

    # one is suspended, and resumed
    service.headrace("tenants", "suspend", "acme")
    service.send("bolt", b"d")
    service.until(4)
    service.send("acme", b"e")
    listed = service.headrace("streams", "list").stdout
    assert "suspended" in listed
    service.headrace("tenants", "resume", "acme")
    service.until(5)

    # a new version, which is another helper alone, is taken over without a restart
    service.write(version=2)
    deployed = service.headrace("use-cases", "deploy", "keep")
    assert "keep deployed as" in deployed.stdout
    deadline = time.monotonic() + 90
    while "use case taken over" not in service.log.read_text():
        assert time.monotonic() < deadline, service.log.read_text()
        time.sleep(0.1)
    service.send("acme", b"f")
    assert ("acme", "f", 2) in service.until(6)

    # a seek, while it runs
    assert "of bolt/keep are made again" in service.headrace(*SEEK_BACK).stdout
    service.until(8)

    # a bad record stops its lane alone, is shown, and is skipped into the dead letters
    service.send("acme", b"\xff\xfe")
    service.send("bolt", b"g")
    service.until(9)
    deadline = time.monotonic() + 90
    while "1 lane stopped" not in service.headrace("streams", "list").stdout:
        assert time.monotonic() < deadline
    shown = service.headrace("quarantine", "show", "1").stdout
    assert "UnicodeDecodeError" in shown
    assert "offset 4" in shown
    assert "hex: ff fe" in shown
    service.send("acme", b"h")
    skipped = service.headrace("quarantine", "skip", "1", "--yes")
    assert skipped.returncode == 0, skipped.stderr
    service.until(10)
    counted = service.headrace("quarantine", "redrive", "acme/keep", "--dry-run").stdout
    assert f"to send back to acme.{service.topic}: 1" in counted

    verified = service.in_a_shell("verify")
    assert verified.returncode == 0, verified.stderr
    ended(process, service)
    values = sorted(value for _, value, _ in service.rows())
    assert values == ["a", "b", "c", "c", "d", "d", "e", "f", "g", "h"]
    it_is_history(service, len(values))


def driver_of(pid: int) -> psutil.Process:
    """The Python process that spark-submit runs the driver in."""
    for child in psutil.Process(pid).children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if any(word.endswith("__main__.py") for word in child.cmdline()):
                return child
    raise AssertionError("spark-submit has no driver")


def test_through_plain_spark_submit(service):
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    entry = Path(headrace.__file__).with_name("__main__.py")
    yaml = service.folder / "headrace.yaml"
    yaml.write_text(yaml.read_text().replace("master: local[2]\n", ""))
    service.headrace("use-cases", "deploy")
    service.headrace("tenants", "add", "acme")
    service.send("acme", b"a", b"b")
    command = f"{submit} --master local[2] {entry} run -c headrace.yaml"
    process = service.run("env", f"PYSPARK_PYTHON={sys.executable}", *command.split())
    assert sorted(service.until(2)) == [("acme", "a", 1), ("acme", "b", 1)]
    # spark-submit is a JVM with the driver's Python as its child, which is who can drain.
    driver_of(process.pid).terminate()
    assert process.wait(60) == 0, service.log.read_text()
    assert "drained" in service.log.read_text()


def test_a_range_is_read_again_beside_what_is_fresh_and_lag_tools_see_positions(service):
    service.headrace("use-cases", "deploy")
    service.headrace("tenants", "add", "acme")
    service.send("acme", b"a", b"b", b"c")
    process = service.run()
    service.until(3)
    service.write(version=2)
    service.headrace("use-cases", "deploy")
    counted = service.headrace("rerun", "acme/keep", "--from", "1", "--dry-run")
    assert "offsets 1..3, at most 2 records" in counted.stdout, counted.stderr
    begun = service.headrace("rerun", "acme/keep", "--from", "1", "--yes")
    assert "acme/keep~1" in begun.stdout, begun.stderr
    service.send("acme", b"d")
    rows = service.until(6)
    assert [(row[1], row[2]) for row in rows].count(("b", 2)) == 1
    assert sorted(row[1] for row in rows) == ["a", "b", "b", "c", "c", "d"]
    deadline = time.monotonic() + 90
    while "rerun done" not in service.log.read_text():
        assert time.monotonic() < deadline, service.log.read_text()
        time.sleep(0.1)
    ended(process, service)
    # Other services of these tests have a use case of that name as well.
    assert committed(service.config, "headrace.keep")[f"acme.{service.topic}", 0] == 4
    assert len(service.rows()) == 6


def committed(config, group):
    admin = AdminClient(config)
    asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
    found = asked[group].result(30).topic_partitions
    return {(lane.topic, lane.partition): lane.offset for lane in found if "acme" in lane.topic}


def test_a_broker_that_is_down_at_start_and_comes_later(tmp_path):
    from headrace.embedded import EmbeddedKafka  # noqa: PLC0415 - its own broker, stopped and started
    from headrace.embedded.addresses import free_ports  # noqa: PLC0415

    (port,) = free_ports(1)
    service = Service(tmp_path, f"127.0.0.1:{port}", "visits")
    service.headrace("use-cases", "deploy")
    service.headrace("tenants", "add", "acme")
    process = service.run()
    deadline = time.monotonic() + 90
    while "waiting for a server" not in service.log.read_text():
        assert process.poll() is None, service.log.read_text()
        assert time.monotonic() < deadline, service.log.read_text()
        time.sleep(0.1)
    with EmbeddedKafka(tmp_path / "kafka", port):
        service.send("acme", b"late")
        service.until(1)
        ended(process, service)


@pytest.mark.parametrize(
    ("words", "told", "code"),
    [
        (("tenants", "suspend", "nobody"), "nobody", 2),
        (("streams", "seek", "acme", "keep", "--to", "soon"), "acme/keep", 2),
        (("use-cases", "deploy", "other"), "has no use case other", 2),
    ],
)
def test_what_is_not_there_is_named(service, words, told, code):
    done = service.in_a_shell(*words)
    assert done.returncode == code
    assert told in done.stderr


def test_a_bad_yaml_file_is_refused_by_line_and_key(service):
    path = service.folder / "headrace.yaml"
    path.write_text(path.read_text() + "modul: x\n")
    done = service.in_a_shell("run")
    assert done.returncode == 2
    assert "line 6: modul: there is no such key" in done.stderr
