"""Handlers that do their worst, in real Python workers: the task survives, neighbours are served.

Handlers are pickled by value only for modules that Headrace loads, so those here import what they
use inside, as a function typed at a prompt would.
"""
# ruff: noqa: PLC0415

import os
import time

import pyarrow as pa
import pytest

from headrace.errors import SinkUnavailable
from headrace.model.records import Deployment
from headrace.model.streams import LaneId, Slice
from headrace.model.waves import Bin, Wave
from headrace.ports import Connections
from headrace.sinks import ParquetFiles
from headrace.spark.engine import SparkEngine, TaskTools
from headrace.store import SqlPositionsFactory, open_store
from headrace.testing.dead_letters_fake import MemoryDeadLetters
from headrace.testing.numbers_reader import NumbersReader
from headrace.use_cases import use_case

pytestmark = [pytest.mark.spark, pytest.mark.slow]
TOPIC = "{tenant}.visits"


@pytest.fixture
def engine(spark, tmp_path):
    url = f"sqlite:///{tmp_path / 'store.db'}"
    open_store(url).close()
    connections = Connections({}, url, warehouse=str(tmp_path / "files"))
    letters = MemoryDeadLetters()
    tools = TaskTools(connections, NumbersReader(), SqlPositionsFactory(), letters)
    made = SparkEngine(spark, tools)
    yield made
    made.close()


def run(engine, handler, tenants=("acme", "bolt", "cove"), timeout_s=30.0, **said):
    """One bin with all tenants; the receipts by tenant."""
    said = {"sink": ParquetFiles("out")} | said
    made = use_case(topic=TOPIC, name="quick", **said)(handler)
    deployment = Deployment("quick", "m.py", "0" * 64, TOPIC, handler_timeout_s=timeout_s)
    engine.take(made, deployment)
    slices = tuple(
        Slice(LaneId("quick", name, f"{name}.visits[0]"), f"{name}.visits", 0, 10, 1)
        for name in tenants
    )
    name = f"w{time.monotonic_ns()}"
    # Predicted long, so that on a busy machine only the timeout ends a call.
    engine.start(Wave(name, "quick", (Bin(slices, 15.0),), 60.0))
    deadline, found = time.monotonic() + 90, []
    while not found and time.monotonic() < deadline:
        found = engine.finished(1.0)
    (result,) = found
    assert result.wave.id == name
    assert result.error is None, result.error
    return {receipt.slice.lane.tenant: receipt for receipt in result.receipts}


def neighbours_are_served(receipts):
    return all(
        receipt.reached == 10 and receipt.error is None
        for tenant, receipt in receipts.items()
        if tenant != "acme"
    )


AS_ROOT = pytest.mark.skipif(os.getuid() != 0, reason="only root may become somebody else")


@pytest.mark.parametrize(
    "how",
    ["exit", "kill", "segfault", "close all files", pytest.param("be nobody", marks=AS_ROOT)],
)
def test_a_handler_that_takes_its_process_with_it_is_found_in_the_next_attempt(engine, how):
    def handler(table, context, how=how):
        import ctypes
        import os
        import signal

        if context.tenant == "acme":
            if how == "exit":
                os._exit(3)
            if how == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            if how == "close all files":
                os.closerange(3, 4096)
                return table.select(["offset"])
            if how == "be nobody":
                os.setgid(65534)
                os.setuid(65534)
                return table.select(["offset"])
            ctypes.string_at(0)
        return table.select(["offset"])

    receipts = run(engine, handler)
    assert receipts["acme"].error.code == "WorkerKilled"
    assert receipts["acme"].reached == 0
    assert neighbours_are_served(receipts)


def test_a_handler_that_forbids_to_open_files_does_so_for_itself_alone(engine):
    def handler(table, context):
        import resource

        if context.tenant == "acme":
            hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
            resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
        else:
            open("/dev/null").close()
        return table.select(["offset"])

    for _ in range(2):
        receipts = run(engine, handler)
        assert receipts["acme"].error is None
        assert neighbours_are_served(receipts)


@pytest.mark.parametrize("how", ["closed", "a file of its own"])
def test_who_closes_standard_error_does_not_let_others_speak_into_sparks_connection(engine, how):
    """Whatever is opened next would get its number: of the next task, what the JVM listens to."""

    def handler(table, context, how=how):
        import os

        if context.tenant == "acme":
            os.close(2)
            if how == "a file of its own":
                os.open(os.devnull, os.O_WRONLY)
        else:
            os.write(2, b"a warning\n")
        return table.select(["offset"])

    for _ in range(3):
        assert neighbours_are_served(run(engine, handler))


def test_a_handler_that_leaks_files_ends_its_own_worker(engine):
    def handler(table, context):
        import builtins
        import os

        if context.tenant == "acme":
            kept = builtins.__dict__.setdefault("_kept", [])
            try:
                while True:
                    kept.append(os.open(os.devnull, os.O_RDONLY))
            except OSError:
                pass
        else:
            open("/dev/null").close()
        return table.select(["offset"])

    receipts = run(engine, handler)
    assert receipts["acme"].error.code == "WorkerKilled"
    assert neighbours_are_served(receipts)


def test_two_killers_in_one_bin_are_both_found(engine):
    def handler(table, context):
        import os

        if context.tenant in ("acme", "cove"):
            os._exit(3)
        return table.select(["offset"])

    receipts = run(engine, handler)
    assert {name for name, receipt in receipts.items() if receipt.error} == {"acme", "cove"}
    assert receipts["bolt"].reached == 10


def test_a_handler_that_leaks_memory_meets_its_limit_and_nobody_else_does(engine):
    def handler(table, context):
        import resource

        if context.tenant == "acme":
            # As `spark.executor.pyspark.memory` sets it for a whole worker.
            before = resource.getrlimit(resource.RLIMIT_AS)
            with open("/proc/self/statm") as statm:
                has = int(statm.read().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (has + (1 << 30), before[1]))
            try:
                leak = [bytearray(1 << 28) for _ in range(64)]
                return table.slice(len(leak))
            finally:
                resource.setrlimit(resource.RLIMIT_AS, before)
        return table.select(["offset"])

    receipts = run(engine, handler)
    assert receipts["acme"].error.code == "HandlerError"
    assert "MemoryError" in receipts["acme"].error.message
    assert neighbours_are_served(receipts)


@pytest.mark.parametrize("how", ["exit", "cancelled", "spin", "sleep", "swallow"])
def test_a_handler_that_exits_or_hangs_is_ended_and_named(engine, how):
    def handler(table, context, how=how):
        import asyncio
        import sys
        import time

        if context.tenant == "acme":
            if how == "exit":
                sys.exit(3)
            if how == "cancelled":
                raise asyncio.CancelledError
            while how == "spin":
                pass
            try:
                time.sleep(600)
            except BaseException:
                if how == "swallow":
                    time.sleep(600)
                raise
        return table.select(["offset"])

    receipts = run(engine, handler, timeout_s=1.5)
    expected = "HandlerError" if how in ("exit", "cancelled") else "HandlerSlow"
    assert receipts["acme"].error.code == expected
    assert neighbours_are_served(receipts)


def test_a_handler_that_forks_answers_once(engine):
    def handler(table, context):
        import os

        if context.tenant == "acme":
            child = os.fork()
            if child:
                os.waitpid(child, 0)
        return table.select(["offset"])

    receipts = run(engine, handler)
    assert receipts["acme"].reached == 10
    assert neighbours_are_served(receipts)


def test_binary_garbage_on_standard_output_disturbs_nobody(engine):
    def handler(table, context):
        import os
        import sys

        if context.tenant == "acme":
            garbage = bytes(range(256)) * 4096
            os.write(1, garbage)
            sys.stdout.buffer.write(garbage)
            sys.stdout.flush()
        return table.select(["offset"])

    assert all(value.reached == 10 for value in run(engine, handler).values())


@pytest.mark.parametrize("how", ["waits for ever", "blocks", "raises", "exits"])
def test_a_call_of_a_handler_that_waits_is_named_at_once_and_hurts_nobody(engine, how):
    async def handler(record, context, how=how):
        import asyncio
        import time

        await asyncio.sleep(0.01)
        if (context.tenant, record["offset"]) == ("acme", 6):
            if how == "waits for ever":
                await asyncio.sleep(600)
            if how == "blocks":
                time.sleep(600)
            raise SystemExit(3) if how == "exits" else ValueError("six")
        return {"at": record["offset"]}

    columns = pa.schema([("at", pa.int64())])
    receipts = run(engine, handler, timeout_s=3.0, output=columns, call_timeout_s=1.0)
    assert neighbours_are_served(receipts)
    told = receipts["acme"]
    if how == "blocks":  # in company it is tried again alone, where the record is named
        assert told.error.code == "HandlerSlow"
        told = run(engine, handler, ("acme",), 3.0, output=columns, call_timeout_s=1.0)["acme"]
    assert (told.reached, told.error.offset) == (6, 6)
    hung = how in {"waits for ever", "blocks"}
    assert told.error.code == ("HandlerHung" if hung else "HandlerError")


def test_who_kills_its_group_of_processes_kills_nobody_else(engine):
    """As a library does that cleans up what it began; the workers of all slots had one group."""

    def handler(table, context):
        import os
        import signal

        if context.tenant == "acme":
            os.killpg(0, signal.SIGKILL)
        return table.select(["offset"])

    receipts = run(engine, handler)
    assert receipts["acme"].error.code == "WorkerKilled"
    assert neighbours_are_served(receipts)


def test_a_child_that_outlives_its_worker_does_not_hide_that_it_died(engine):
    """It would have the worker's connection, so that Spark sees no end of it."""

    def handler(table, context):
        import os
        import time

        if context.tenant == "acme":
            if os.fork() == 0:
                time.sleep(40)
                os._exit(0)
            os._exit(3)
        return table.select(["offset"])

    began_s = time.monotonic()
    receipts = run(engine, handler)
    assert time.monotonic() - began_s < 25
    assert receipts["acme"].error.code == "WorkerKilled"
    assert neighbours_are_served(receipts)


def test_what_a_handler_leaves_that_hangs_where_it_is_freed_is_its_own_tenants_trouble(engine):
    """Left to the collector it would be that of whoever is called, or has this worker, next."""

    def handler(table, context):
        import time

        class Left:
            def __init__(self):
                self.me = self

            def __del__(self):
                time.sleep(600)

        if context.tenant == "acme":
            Left()
        return table.select(["offset"])

    for tenants in (("acme", "bolt", "cove"), ("acme",)):
        receipts = run(engine, handler, tenants=tenants, timeout_s=1.0)
        code = "HandlerHung" if len(tenants) == 1 else "HandlerSlow"
        assert receipts["acme"].error.code == code
        assert neighbours_are_served(receipts)


class CannotOpen(ParquetFiles):
    """Leaves what it had opened until then."""

    def open(self, site):
        class Left:
            def __init__(self):
                self.me = self

            def __del__(self):
                time.sleep(600)

        Left()
        raise SinkUnavailable("away")


def test_what_a_sink_leaves_that_hangs_where_it_is_freed_holds_the_next_task_for_seconds(
    engine,
):
    """Spark takes the worker for free; it ends, and the next task is tried in another one."""

    def handler(table, context):
        return table.select(["offset"])

    for _ in range(3):
        receipts = run(engine, handler, sink=CannotOpen("out"))
        assert {receipt.error.code for receipt in receipts.values()} == {"SinkUnavailable"}
        began_s = time.monotonic()
        receipts = run(engine, handler)
        assert all(receipt.reached == 10 for receipt in receipts.values())
        assert time.monotonic() - began_s < 60
