"""Waves on a real Spark: several at once, lost workers, new versions, and nothing secret shown.

Handlers are pickled by value only for modules that Headrace loads, so those here import what they
use inside, as a function typed at a prompt would.
"""
# ruff: noqa: PLC0415

import os
import signal
import threading
import time

import pyarrow as pa
import pytest

from headrace.model.records import Deployment, LaneStart
from headrace.model.streams import LaneId, Slice, StreamId, Tenant
from headrace.model.waves import Bin, Wave
from headrace.ports import Connections
from headrace.sinks import ParquetFiles
from headrace.spark.engine import SparkEngine, Tools
from headrace.store import SqlPositionsFactory, open_store
from headrace.testing.numbers_reader import NumbersReader
from headrace.use_cases import use_case

pytestmark = [pytest.mark.spark, pytest.mark.slow]
SECRET = "hunter2-canary"
TOPIC = "{tenant}.visits"


@pytest.fixture
def site(tmp_path):
    url = f"sqlite:///{tmp_path / 'store.db'}"
    store = open_store(url)
    store.deploy(Deployment("quick", "m.py", "0" * 64, TOPIC))
    for name in ("acme", "bolt"):
        store.add_tenant(Tenant(name))
    epochs = store.hold([StreamId("quick", name) for name in ("acme", "bolt")])
    for stream in epochs:
        store.start_lanes([LaneStart(stream, "id", {0: 0})])
    connections = Connections({"sasl.password": SECRET}, url, warehouse=str(tmp_path / "files"))
    yield store, connections, epochs
    store.close()


@pytest.fixture
def engine(spark, site):
    _, connections, _ = site
    made = SparkEngine(spark, Tools(connections, NumbersReader(), SqlPositionsFactory()))
    yield made
    made.close()


def wave(number, *tenants, use_case_name="quick", until=10):
    slices = (
        Slice(LaneId(use_case_name, name, 0), f"{name}.visits", 0, until, 1) for name in tenants
    )
    return Wave(f"w{number}", use_case_name, tuple(Bin((each,), 1.0) for each in slices), 60.0)


def results(engine, count, timeout_s=60.0):
    found, deadline = [], time.monotonic() + timeout_s
    while len(found) < count and time.monotonic() < deadline:
        found += engine.finished(1.0)
    return {each.wave.id: each for each in found}


def made(handler, name="quick", **options):
    return use_case(topic=TOPIC, sink=ParquetFiles("out"), name=name, **options)(handler)


def numbers(table, _context):
    return table.select(["offset"])


def test_a_wave_comes_back_with_a_receipt_for_each_slice(engine):
    engine.deploy(made(numbers), {})
    engine.start(wave(1, "acme", "bolt"))
    result = results(engine, 1)["w1"]
    assert result.error is None
    assert sorted((each.slice.lane.tenant, each.reached) for each in result.receipts) == [
        ("acme", 10),
        ("bolt", 10),
    ]


def test_a_straggler_does_not_hold_back_another_wave(engine, tmp_path):
    gate = tmp_path / "gate"

    def waits(table, _context, path=str(gate)):
        import os.path
        import time

        deadline = time.monotonic() + 60
        while not os.path.exists(path) and time.monotonic() < deadline:
            time.sleep(0.01)
        return table.select(["offset"])

    engine.deploy(made(numbers), {})
    engine.deploy(made(waits, name="slow"), {})
    engine.start(wave(1, "acme", use_case_name="slow"))
    engine.start(wave(2, "bolt"))
    assert list(results(engine, 1)) == ["w2"]
    gate.touch()
    assert list(results(engine, 1)) == ["w1"]


def test_a_new_version_of_a_use_case_needs_no_restart(engine, site, tmp_path):
    engine.deploy(made(lambda _t, _c: pa.table({"version": [1]})), {})
    engine.start(wave(1, "acme"))
    results(engine, 1)
    engine.deploy(made(lambda _t, _c: pa.table({"version": [2]})), {})
    engine.start(wave(2, "bolt"))
    results(engine, 1)
    written = {
        path.parent.name: pa.parquet.read_table(path, partitioning=None)["version"].to_pylist()
        for path in (tmp_path / "files").rglob("*.parquet")
    }
    assert written == {"tenant=acme": [1], "tenant=bolt": [2]}


def test_a_killed_python_worker_is_run_again_with_the_same_slices(engine, tmp_path):
    flag = tmp_path / "killed"

    def dies_once(table, _context, path=str(flag)):
        import os
        import os.path
        import signal

        if not os.path.exists(path):
            with open(path, "w"):
                pass
            os.kill(os.getpid(), signal.SIGKILL)
        return table.select(["offset"])

    engine.deploy(made(dies_once), {})
    engine.start(wave(1, "acme"))
    result = results(engine, 1)["w1"]
    assert flag.exists()
    assert result.error is None
    assert [each.reached for each in result.receipts] == [10]


def test_a_worker_that_always_dies_is_a_lost_task_and_not_the_end(engine):
    def dies(_table, _context):
        os.kill(os.getpid(), signal.SIGKILL)

    engine.deploy(made(dies), {})
    engine.start(wave(1, "acme"))
    result = results(engine, 1, timeout_s=120)["w1"]
    assert result.error is not None
    assert result.error.temporary
    assert result.error.code == "TaskLost"
    engine.deploy(made(numbers), {})
    engine.start(wave(2, "acme"))
    assert results(engine, 1)["w2"].error is None


def test_at_most_once_survives_a_worker_killed_after_its_claim(engine, site, tmp_path):
    store, _, _ = site
    flag = tmp_path / "killed"

    def dies_once(table, _context, path=str(flag)):
        import os
        import os.path
        import signal

        if not os.path.exists(path):
            with open(path, "w"):
                pass
            os.kill(os.getpid(), signal.SIGKILL)
        return table.select(["offset"])

    engine.deploy(made(dies_once, guarantee="at-most-once"), {})
    engine.start(wave(1, "acme"))
    (receipt,) = results(engine, 1)["w1"].receipts
    assert receipt.superseded
    assert receipt.error is None
    position = store.load_positions([StreamId("quick", "acme")])[0]
    assert position.next_offset == 10
    assert not list((tmp_path / "files").rglob("*.parquet"))


def test_a_cancelled_wave_comes_back_and_frees_its_slot(engine):
    def hangs(_table, _context):
        import time

        time.sleep(600)

    engine.deploy(made(hangs), {})
    engine.start(wave(1, "acme"))
    canceller = threading.Timer(2.0, engine.cancel, ["w1"])
    canceller.start()
    result = results(engine, 1)["w1"]
    canceller.join()
    assert result.error is not None
    engine.deploy(made(numbers), {})
    engine.start(wave(2, "acme"))
    assert results(engine, 1)["w2"].error is None


# --- use cases of form wave ------------------------------------------------------------------


def of_form_wave(handler, **options):
    return use_case(topic=TOPIC, form="wave", name="quick", **options)(handler)


def test_a_dataframe_handler_sees_the_whole_wave_with_its_tenants(engine):
    seen = {}

    def report(frame, wave):
        seen[wave.id] = {
            row["tenant"]: row["count"] for row in frame.groupBy("tenant").count().collect()
        }
        seen["columns"] = frame.columns

    engine.deploy(of_form_wave(report), {})
    engine.start(wave(1, "acme", "bolt"))
    result = results(engine, 1)["w1"]
    assert result.error is None
    assert seen["w1"] == {"acme": 10, "bolt": 10}
    assert seen["columns"] == [
        "tenant",
        "topic",
        "partition",
        "offset",
        "timestamp",
        "key",
        "value",
        "headers",
    ]
    assert all(each.reached == 10 and each.records == 10 for each in result.receipts)


def test_a_dataframe_is_kept_so_that_two_actions_read_kafka_once(engine):
    seen = {}

    def twice(frame, _wave):
        seen["kept"] = frame.sparkSession.sparkContext._jsc.getPersistentRDDs().size()
        seen["counts"] = (frame.count(), frame.count())

    engine.deploy(of_form_wave(twice), {})
    engine.start(wave(1, "acme", "bolt"))
    assert results(engine, 1)["w1"].error is None
    assert seen == {"kept": 1, "counts": (20, 20)}
    assert engine.session.sparkContext._jsc.getPersistentRDDs().size() == 0


def test_a_failing_dataframe_handler_is_split_by_stream_to_find_the_culprit(engine):
    done = []

    def picky(frame, wave):
        tenants = {row["tenant"] for row in frame.select("tenant").distinct().collect()}
        if "acme" in tenants:
            raise ValueError("not acme")
        done.append((wave.id, tenants))

    engine.deploy(of_form_wave(picky), {})
    engine.start(wave(1, "acme", "bolt"))
    receipts = {each.slice.lane.tenant: each for each in results(engine, 1)["w1"].receipts}
    assert receipts["acme"].reached == 0
    assert receipts["acme"].error.code == "HandlerError"
    assert receipts["bolt"].reached == 10
    assert receipts["bolt"].error is None
    assert done == [("w1.1", {"bolt"})]


def test_a_dataframe_handler_at_most_once_moves_positions_first(engine, site):
    store, _, _ = site
    at_call = {}

    def looks(frame, _wave):
        at_call["records"] = frame.count()
        at_call["positions"] = {each.next_offset for each in store.load_positions()}

    engine.deploy(of_form_wave(looks, guarantee="at-most-once"), {})
    engine.start(wave(1, "acme", "bolt"))
    results(engine, 1)
    assert at_call == {"records": 20, "positions": {10}}
    engine.start(wave(2, "acme", "bolt"))
    again = results(engine, 1)["w2"]
    assert all(each.superseded for each in again.receipts)
    assert at_call["records"] == 20


# --- what anybody could read -----------------------------------------------------------------


def test_no_secret_is_in_sparks_settings_or_event_log(engine, spark, event_log):
    engine.deploy(made(numbers), {})
    engine.start(wave(1, "acme", "bolt"))
    results(engine, 1)
    assert all(SECRET not in value for _, value in spark.sparkContext.getConf().getAll())
    written = b"".join(path.read_bytes() for path in event_log.rglob("*") if path.is_file())
    assert b"w1" in written
    assert SECRET.encode() not in written
