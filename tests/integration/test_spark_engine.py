"""Waves on a real Spark: positions that move first, DataFrames, and nothing secret shown.

What every engine promises is in the contract suite, and what handlers can do to a worker in
``test_spark_hostile_handlers.py``. Handlers are pickled by value only for modules that Headrace
loads, so those here import what they use inside, as a function typed at a prompt would.
"""
# ruff: noqa: PLC0415

import asyncio
import subprocess
import sys
import threading
import time

import pyarrow as pa
import pytest

from headrace.formats import Text
from headrace.model.records import Deployment, LaneStart
from headrace.model.streams import LaneId, Slice, StreamId, Tenant
from headrace.model.waves import Bin, Wave
from headrace.ports import Connections
from headrace.sinks import ParquetFiles
from headrace.spark.engine import SparkEngine, TaskTools
from headrace.store import SqlPositionsFactory, open_store
from headrace.testing.dead_letters_fake import MemoryDeadLetters
from headrace.testing.numbers_reader import NumbersReader
from headrace.use_cases import use_case

pytestmark = [pytest.mark.spark, pytest.mark.slow]
SECRET = "hunter2-canary"
TOPIC = "{tenant}.visits"


@pytest.fixture
def site(tmp_path):
    url = f"sqlite:///{tmp_path / 'store.db'}"
    store = open_store(url)
    store.registry.deploy(Deployment("quick", "m.py", "0" * 64, TOPIC))
    for name in ("acme", "bolt"):
        store.registry.add_tenant(Tenant(name))
    epochs = store.membership.hold([StreamId("quick", name) for name in ("acme", "bolt")])
    for stream in epochs:
        store.progress.start_lanes([LaneStart(stream, "id", {f"{stream.tenant}.visits[0]": 0})])
    connections = Connections({"sasl.password": SECRET}, url, warehouse=str(tmp_path / "files"))
    yield store, connections, epochs
    store.close()


@pytest.fixture
def engine(spark, site):
    _, connections, _ = site
    tools = TaskTools(connections, NumbersReader(), SqlPositionsFactory(), MemoryDeadLetters())
    made = SparkEngine(spark, tools)
    yield made
    made.close()


def wave(number, *tenants, use_case_name="quick", until=10):
    slices = (
        Slice(LaneId(use_case_name, name, f"{name}.visits[0]"), f"{name}.visits", 0, until, 1)
        for name in tenants
    )
    return Wave(f"w{number}", use_case_name, tuple(Bin((piece,), 1.0) for piece in slices), 60.0)


def results(engine, count, timeout_s=60.0):
    found, deadline = [], time.monotonic() + timeout_s
    while len(found) < count and time.monotonic() < deadline:
        found += engine.finished(1.0)
    return {result.wave.id: result for result in found}


def made(handler, name="quick", **options):
    return use_case(topic=TOPIC, sink=ParquetFiles("out"), name=name, **options)(handler)


def take(engine, made):
    engine.take(made, Deployment(made.name, "m.py", "0" * 64, TOPIC))


def numbers(table, _context):
    return table.select(["offset"])


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

    take(engine, made(dies_once, guarantee="at-most-once"))
    engine.start(wave(1, "acme"))
    (receipt,) = results(engine, 1)["w1"].receipts
    assert receipt.superseded
    assert receipt.error is None
    position = store.progress.load_positions([StreamId("quick", "acme")])[0]
    assert position.next_offset == 10
    assert not list((tmp_path / "files").rglob("*.parquet"))


def test_calls_in_flight_are_not_told_that_their_wave_is_cancelled(engine, tmp_path):
    """As by a drain that took too long: they end with their worker, and give nothing."""
    folder = tmp_path / "calls"
    folder.mkdir()

    async def asks(record, _context, folder=str(folder)):
        import asyncio
        from pathlib import Path

        call = Path(folder) / f"{record['offset']}.begun"
        call.touch()
        try:
            await asyncio.sleep(600)
        finally:
            call.with_suffix(".told").touch()
        return {"offset": record["offset"]}

    columns = pa.schema([("offset", pa.int64())])
    take(engine, made(asks, output=columns, call_timeout_s=50.0))
    engine.start(wave(1, "acme"))
    until_s = time.monotonic() + 60
    while len(list(folder.iterdir())) < 10 and time.monotonic() < until_s:
        engine.finished(0.1)
    engine.cancel("w1")
    result = results(engine, 1)["w1"]
    assert (result.receipts, result.error.temporary) == ((), True)
    assert {path.suffix for path in folder.iterdir()} == {".begun"}
    assert len(list(folder.iterdir())) == 10
    assert not list((tmp_path / "files").rglob("*.parquet"))


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

    take(engine, of_form_wave(report))
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
    assert all(receipt.reached == 10 and receipt.records == 10 for receipt in result.receipts)


def test_a_dataframe_handler_joins_history_that_tasks_read(engine):
    """By the frame that `CassandraTable` makes; in the place of the server a function answers."""
    import datetime as dt

    from headrace.connectors.cassandra import frames, history

    def told_back(tenant, *, since, until):
        import pyarrow as pa

        yield pa.table({"tenant": [tenant], "days": [(until - since).days]})

    monday, seen = dt.datetime(2026, 2, 2, tzinfo=dt.UTC), []

    def report(frame, _wave):
        asked = [
            history.Asked((name,), monday, monday + dt.timedelta(days=3), week=False)
            for name in ("acme", "cove")
        ]
        kinds = {"tenant": "text", "days": "bigint"}
        past = frames.frame(frame.sparkSession, told_back, asked, kinds)
        seen.extend(frame.join(past, "tenant").groupBy("tenant").sum("days").collect())

    take(engine, of_form_wave(report))
    engine.start(wave(1, "acme", "bolt"))
    result = results(engine, 1)["w1"]
    assert result.error is None
    assert all(receipt.reached == 10 and not receipt.error for receipt in result.receipts)
    assert [tuple(row) for row in seen] == [("acme", 10 * 3)]


def test_a_dataframe_has_decoded_columns_in_the_place_of_the_value(engine):
    seen = {}

    def report(frame, _wave):
        seen["types"] = dict(frame.dtypes)
        seen["values"] = sorted(row["value"] for row in frame.select("value").collect())

    take(engine, of_form_wave(report, decode=Text()))
    engine.start(wave(1, "acme"))
    result = results(engine, 1)["w1"]
    assert [receipt.error for receipt in result.receipts] == [None]
    assert (seen["types"]["value"], seen["types"]["key"]) == ("string", "binary")
    assert seen["values"] == [str(number) for number in range(10)]


def test_a_dataframe_use_case_tells_when_its_records_happened(engine):
    def at_noon(records):
        return [1_700_049_600.0] * records.num_rows

    take(engine, of_form_wave(lambda frame, _: frame.count(), event_time=at_noon))
    engine.start(wave(1, "acme"))
    result = results(engine, 1)["w1"]
    assert result.error is None
    assert {stamp_s for receipt in result.receipts for stamp_s in receipt.timestamps_s} == {
        1_700_049_600.0
    }


def test_a_dataframe_is_kept_so_that_two_actions_read_kafka_once(engine):
    seen = {}

    def twice(frame, _wave):
        seen["kept"] = frame.sparkSession.sparkContext._jsc.getPersistentRDDs().size()
        seen["counts"] = (frame.count(), frame.count())

    take(engine, of_form_wave(twice))
    engine.start(wave(1, "acme", "bolt"))
    assert results(engine, 1)["w1"].error is None
    assert seen == {"kept": 1, "counts": (20, 20)}
    assert engine.session.sparkContext._jsc.getPersistentRDDs().size() == 0


@pytest.mark.parametrize("raised", [ValueError, asyncio.CancelledError])
def test_a_failing_dataframe_handler_is_split_by_stream_to_find_the_culprit(engine, raised):
    done = []

    def picky(frame, wave):
        tenants = {row["tenant"] for row in frame.select("tenant").distinct().collect()}
        if "acme" in tenants:
            raise raised("not acme")
        done.append((wave.id, tenants))

    take(engine, of_form_wave(picky))
    engine.start(wave(1, "acme", "bolt"))
    receipts = {receipt.slice.lane.tenant: receipt for receipt in results(engine, 1)["w1"].receipts}
    assert receipts["acme"].reached == 0
    assert receipts["acme"].error.code == "HandlerError"
    counted = (receipts["acme"].records, receipts["acme"].bytes, receipts["acme"].timestamps_s)
    assert counted == (0, 0, ())
    assert (receipts["bolt"].reached, receipts["bolt"].records) == (10, 10)
    assert receipts["bolt"].error is None
    assert done == [("w1.bolt", {"bolt"})]


def test_a_dataframe_handler_at_most_once_moves_positions_first(engine, site):
    store, _, _ = site
    at_call = {}

    def looks(frame, _wave):
        at_call["records"] = frame.count()
        at_call["positions"] = {
            position.next_offset for position in store.progress.load_positions()
        }

    take(engine, of_form_wave(looks, guarantee="at-most-once"))
    engine.start(wave(1, "acme", "bolt"))
    results(engine, 1)
    assert at_call == {"records": 20, "positions": {10}}
    engine.start(wave(2, "acme", "bolt"))
    again = results(engine, 1)["w2"]
    assert all(receipt.superseded for receipt in again.receipts)
    assert at_call["records"] == 20


def test_a_dataframe_handler_is_not_blamed_for_being_cancelled(engine):
    here = threading.Event()

    def sleeps(_rows):
        time.sleep(600)

    def hangs(frame, _wave):
        here.set()
        frame.foreachPartition(sleeps)

    take(engine, of_form_wave(hangs))
    engine.start(wave(1, "acme", "bolt"))
    assert here.wait(60)
    engine.cancel("w1")
    result = results(engine, 1)["w1"]
    assert result.receipts == ()
    assert result.error.temporary
    assert not engine.began("w1")


# --- what is told about executors ------------------------------------------------------------


def test_a_local_session_is_one_executor_with_its_cores_for_slots(engine):
    assert (engine.executors, engine.slots) == (1, 2)


# --- what anybody could read -----------------------------------------------------------------


def test_no_secret_is_in_sparks_settings_or_event_log(engine, spark, event_log):
    take(engine, made(numbers))
    engine.start(wave(1, "acme", "bolt"))
    results(engine, 1)
    assert all(SECRET not in value for _, value in spark.sparkContext.getConf().getAll())
    written = b"".join(path.read_bytes() for path in event_log.rglob("*") if path.is_file())
    assert b"w1" in written
    assert SECRET.encode() not in written


STOPPED = """
import time
from headrace.errors import EngineStopped
from headrace.spark.engine import SparkEngine
from headrace.spark.session import build_session

session = build_session("stopped", "local[1]", {}, {})
engine = SparkEngine(session, tools=None)
assert engine.finished(0.0) == []
session.sparkContext._jsc.sc().stop()
try:
    while True:
        engine.finished(0.05)
except EngineStopped as error:
    print("told:", error)
engine.close()
"""


def test_a_spark_that_has_ended_is_told_and_not_waited_for():
    command = [sys.executable, "-c", STOPPED]
    done = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)
    assert "told: Spark has ended" in done.stdout, done.stderr[-3000:]
