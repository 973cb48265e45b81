"""What real Python workers keep from task to task: counted in the workers themselves.

Handlers are pickled by value only for modules that Headrace loads, so those here import what they
use inside, as a function typed at a prompt would.
"""
# ruff: noqa: PLC0415

import json
import os
import sys
import threading
import time
import types
from collections import defaultdict
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from headrace.model.records import Deployment
from headrace.model.streams import LaneId, Slice
from headrace.model.waves import Bin, Wave
from headrace.ports import Connections
from headrace.sinks import ParquetFiles
from headrace.spark.engine import SparkEngine, TaskTools
from headrace.spark.heap import MOST_LOOSE
from headrace.store import SqlPositionsFactory, open_store
from headrace.testing.dead_letters_fake import MemoryDeadLetters
from headrace.testing.numbers_reader import NumbersReader
from headrace.use_cases import use_case

pytestmark = [pytest.mark.spark, pytest.mark.slow]
TOPIC = "{tenant}.visits"


@pytest.fixture
def tools(tmp_path):
    url = f"sqlite:///{tmp_path / 'store.db'}"
    open_store(url).close()
    connections = Connections({}, url, warehouse=str(tmp_path / "files"))
    return TaskTools(connections, NumbersReader(), SqlPositionsFactory(), MemoryDeadLetters())


@pytest.fixture
def engine(spark, tools):
    made = SparkEngine(spark, tools)
    yield made
    made.close()


@pytest.fixture
def notes(tmp_path):
    """Where handlers write what they see, a file for each worker; read as lists by process."""
    folder = tmp_path / "notes"
    folder.mkdir()

    def read():
        found = defaultdict(list)
        for path in folder.iterdir():
            found[path.name] += [json.loads(line) for line in path.read_text().splitlines()]
        return found

    read.folder = str(folder)
    return read


def take(engine, handler, name="quick", **options):
    sink = None if options.get("form") == "wave" else ParquetFiles("out")
    made = use_case(topic=TOPIC, sink=sink, name=name, **options)(handler)
    engine.take(made, Deployment(name, "m.py", "0" * 64, TOPIC))


def run(engine, use_case_name="quick", tenants=("acme", "bolt"), within_s=90):
    """A wave with a bin for each tenant: one for each of the two workers, as far as Spark likes."""
    name = f"w{time.monotonic_ns()}"
    slices = [
        Slice(LaneId(use_case_name, tenant, f"{tenant}.visits[0]"), f"{tenant}.visits", 0, 10, 1)
        for tenant in tenants
    ]
    engine.start(Wave(name, use_case_name, tuple(Bin((piece,), 1.0) for piece in slices), 60.0))
    deadline, found = time.monotonic() + within_s, []
    while not found and time.monotonic() < deadline:
        found = engine.finished(1.0)
    (result,) = found
    return result


def until_each_worker(engine, notes, count):
    """Run waves until each of two workers has noted so often; which is up to Spark."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        result = run(engine)
        assert result.error is None
        assert all(receipt.error is None for receipt in result.receipts), result.receipts
        found = notes()
        if len(found) >= 2 and min(map(len, found.values())) >= count:
            return found
    raise AssertionError(
        f"after two minutes: { {pid: len(noted) for pid, noted in found.items()} }"
    )


def counting(folder):
    """A handler that notes how many objects the collection after its task has to walk."""

    def handler(table, _context):
        import gc
        import json
        import os

        gc.collect()
        seen = {"walked": len(gc.get_objects()), "frozen": gc.get_freeze_count()}
        with open(f"{folder}/{os.getpid()}", "a") as file:
            file.write(json.dumps(seen) + "\n")
        return table.select(["offset"])

    return handler


def test_what_a_worker_has_loaded_is_not_walked_after_each_task(engine, notes):
    take(engine, counting(notes.folder))
    for seen in until_each_worker(engine, notes, 4).values():
        for noted in seen[1:]:
            assert noted["walked"] < MOST_LOOSE, seen
            assert noted["frozen"] > 5 * MOST_LOOSE, seen


def versioned(folder, number):
    """A version whose own objects only a collection frees; it notes which others are there."""

    def own():
        return number, own

    def handler(table, _context):
        import builtins
        import gc
        import json
        import os
        import weakref

        known = builtins.__dict__.setdefault("_versions_of_the_test", {})
        known[number] = weakref.ref(own)
        alive = [
            version_number for version_number, version in known.items() if version() is not None
        ]
        seen = {"number": number, "alive": alive, "frozen": gc.get_freeze_count()}
        with open(f"{folder}/{os.getpid()}", "a") as file:
            file.write(json.dumps(seen) + "\n")
        return table.select(["offset"])

    return handler


def test_a_worker_lets_go_of_the_versions_that_were_deployed_before(engine, notes):
    versions = 20
    for number in range(versions):
        take(engine, versioned(notes.folder, number))
        assert run(engine).error is None
    for seen in until_each_worker(engine, notes, 2).values():
        loaded = list(dict.fromkeys(noted["number"] for noted in seen))
        last = seen[-1]
        assert last["number"] == versions - 1
        # The one before was dropped when this one came, and freed at the end of that task.
        assert last["alive"] == [last["number"]], seen
        if len(loaded) > 4:
            early = next(noted for noted in seen if noted["number"] == loaded[2])
            assert last["frozen"] < early["frozen"] + MOST_LOOSE, seen
    assert sum(len(seen) for seen in notes().values()) > versions


@pytest.fixture
def absent(monkeypatch):
    """A package that the driver has and executors have not; of a name that no other test has."""
    made = types.ModuleType(f"absent_{time.monotonic_ns()}")
    made.answer = 42
    monkeypatch.setitem(sys.modules, made.__name__, made)
    return made


def needing(package):
    def handler(table, _context):
        assert package.answer == 42
        return table.select(["offset"])

    return handler


def test_a_missing_package_is_told_of_each_slice_until_it_is_there(
    engine, spark, absent, tmp_path, notes
):
    take(engine, needing(absent), name="lacking")
    take(engine, counting(notes.folder))
    for _ in range(2):
        result = run(engine, "lacking")
        assert result.error is None
        for receipt in result.receipts:
            assert (receipt.error.code, receipt.error.temporary) == ("CodeNotLoaded", True)
            assert (
                f"package {absent.__name__} is not installed on executor" in receipt.error.message
            )
            assert receipt.reached == 0
        assert all(receipt.error is None for receipt in run(engine).receipts)
    installed = tmp_path / f"{absent.__name__}.py"
    installed.write_text("answer = 42\n")
    spark.sparkContext.addPyFile(str(installed))
    assert [receipt.error for receipt in run(engine, "lacking").receipts] == [None, None]


def with_a_model(number):
    """A handler with megabytes, which differ from version to version."""
    model = bytes([number]) * 3_000_000

    def handler(table, _context):
        assert len(model) == 3_000_000
        return table.select(["offset"])

    return handler


def test_a_version_with_a_large_model_is_sent_to_executors_once(engine, spark, monkeypatch):
    made, broadcast = [], spark.sparkContext.broadcast
    monkeypatch.setattr(
        spark.sparkContext, "broadcast", lambda code: made.append(broadcast(code)) or made[-1]
    )
    for number in range(2):
        take(engine, with_a_model(number))
        for _ in range(3):
            result = run(engine)
            assert result.error is None
            assert [receipt.error for receipt in result.receipts] == [None, None]
        assert len(made) == number + 1
    first, second = (Path(one._path) for one in made)
    until_s = time.monotonic() + 60  # the thread of the last wave is at it
    while first.exists() and time.monotonic() < until_s:
        time.sleep(0.05)
    assert (first.exists(), second.exists()) == (False, True)


class Nicer:
    """Its worker is served after others when it is unpickled, and may not take that back."""

    def __reduce__(self):
        return exec, (
            "import os\ndef may_not(*_): raise OSError\nos.setpriority = may_not\nos.nice(1)\n",
        )


def test_a_worker_whose_code_sets_what_cannot_be_put_back_serves_nobody_else(engine, notes):
    nicer, folder = Nicer(), notes.folder

    def spoils(table, _context):
        assert nicer is None
        return table.select(["offset"])

    def notes_niceness(table, _context):
        import os

        with open(f"{folder}/{os.getpid()}", "a") as file:
            file.write(f"{os.nice(0)}\n")
        return table.select(["offset"])

    take(engine, spoils, name="spoils")
    take(engine, notes_niceness)
    spoilt = run(engine, "spoils", within_s=300)
    # The receipts are there, so what good executors did in the same job is known as well.
    assert spoilt.error is None
    for receipt in spoilt.receipts:
        assert (receipt.error.code, receipt.error.temporary) == ("CodeNotLoaded", True)
        assert "its code sets os.nice when it is imported on executor" in receipt.error.message
        assert receipt.reached == 0
    assert all(receipt.error is None for receipt in run(engine).receipts)
    assert {seen for of_worker in notes().values() for seen in of_worker} == {os.nice(0)}


def test_what_a_dataframe_use_case_needs_to_tell_times_may_be_missing_as_well(engine, absent):
    def at_noon(_records):
        return absent.noon

    take(engine, lambda frame, _: frame.count(), form="wave", event_time=at_noon)
    result = run(engine)
    assert result.error is None
    assert {receipt.error.code for receipt in result.receipts} == {"CodeNotLoaded"}


def test_closing_does_not_wait_for_ever_for_a_handler_of_dataframes(spark, tools):
    here, forever = threading.Event(), threading.Event()

    def never_returns(_frame, _wave):
        here.set()
        forever.wait()

    engine = SparkEngine(spark, tools, close_s=0.5)
    take(engine, never_returns, form="wave")
    slices = (Slice(LaneId("quick", "acme", "acme.visits[0]"), "acme.visits", 0, 10, 1),)
    engine.start(Wave("stuck", "quick", (Bin(slices, 1.0),), 60.0))
    assert here.wait(90)
    with capture_logs() as lines:
        engine.close()
    assert [line["waves"] for line in lines] == [["stuck"]]
    assert engine.finished(0.0) == []
    forever.set()
    (result,) = engine.finished(60.0)
    assert result.wave.id == "stuck"


def slow_to_load(notes):
    """A handler whose code takes a minute to unpickle in a Python worker, as an import may."""

    class Slow:
        def __reduce__(self):
            return exec, (f"import os, time; os.mkdir({notes!r} + '/began'); time.sleep(60)",)

    slow = Slow()

    def handler(table, _context):
        assert slow is None
        return table.select(["offset"])

    return handler


def test_a_wave_that_is_ended_while_its_code_loads_is_told_as_such(engine, notes):
    take(engine, slow_to_load(notes.folder))
    piece = Slice(LaneId("quick", "acme", "acme.visits[0]"), "acme.visits", 0, 10, 1)
    engine.start(Wave("loads", "quick", (Bin((piece,), 1.0),), 60.0))
    deadline = time.monotonic() + 60
    while not Path(notes.folder, "began").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    engine.cancel("loads")
    (result,) = engine.finished(30.0)
    assert (result.error.code, result.error.temporary) == ("CodeNotLoaded", True)
    assert "the code of quick was still being loaded" in result.error.message
