"""What an engine says of failed jobs, and which code its tasks are told to keep."""

import hashlib
import pickle
import signal
import threading
import time
from dataclasses import replace
from types import SimpleNamespace

import cloudpickle
import pytest
from pyspark.errors import PythonException

from headrace.errors import EngineStopped, TaskLost, WorkerKilled
from headrace.model.records import Deployment
from headrace.model.streams import Order
from headrace.model.waves import Wave
from headrace.ports import Connections
from headrace.process.daemon_threads import DaemonThreads
from headrace.sinks import ParquetFiles
from headrace.spark import task
from headrace.spark.engine import SparkEngine, TaskTools, _translated
from headrace.spark.slice_errors import error_of
from headrace.spark.slots import Slots
from headrace.spark.worker_cache import WorkerCache
from headrace.testing.numbers_reader import NumbersReader
from headrace.use_cases import use_case

ABORTED = (
    "Job aborted due to stage failure: Task 0 in stage 7.0 failed 4 times, most recent failure: "
    "Lost task 0.3 in stage 7.0 (TID 11) (10.0.0.7 executor 1): "
)
WORKER = (
    "org.apache.spark.api.python.PythonException: Traceback (most recent call last):\n"
    '  File "/opt/spark/python/lib/pyspark.zip/pyspark/worker.py", line 3592, in main\n'
)


@pytest.mark.parametrize(
    ("text", "code", "told"),
    [
        (
            WORKER + "ModuleNotFoundError: No module named 'headrace.spark.jobs'\n",
            "CodeNotLoaded",
            "package headrace is not installed on an executor",
        ),
        ("java.io.EOFException: Python worker exited unexpectedly", "WorkerKilled", "died again"),
        ("ExecutorLostFailure (executor 1 exited)\nSparkException: gone", "TaskLost", "gone"),
    ],
)
def test_a_failed_job_is_told_by_what_it_died_of(text, code, told):
    error = _translated(RuntimeError(ABORTED + text), Wave("w1", "keep", (), 1.0))
    assert type(error).__name__ == code
    assert told in str(error)


@pytest.mark.parametrize(
    ("error", "cancelled", "tasks", "told"),
    [
        (TaskLost("ended"), True, [False, True], True),
        (TaskLost("ended"), True, [False], False),
        (TaskLost("an executor is gone"), False, [True], False),
        (WorkerKilled("in an import"), False, [True, True], True),
        (WorkerKilled("in a handler, while others load"), False, [False, True], False),
        (WorkerKilled("on another machine"), False, [], False),
    ],
)
def test_code_counts_as_not_loaded_where_no_handler_can_be_to_blame(
    monkeypatch, error, cancelled, tasks, told
):
    engine = Started(monkeypatch).engine
    monkeypatch.setattr("headrace.spark.engine.ended_at_loading", lambda _group: tasks)
    engine._cancelled = {"w1"} if cancelled else set()
    assert engine._was_loading("w1", error_of(error)) is told


class Refused:
    """A job that fails in the Python of an executor, as PySpark tells it."""

    def mapPartitions(self, _task):  # noqa: N802 - named by Spark
        return self

    def collect(self):
        raise PythonException("ModuleNotFoundError: No module named 'headrace.spark.jobs'")


def test_slots_count_also_where_workers_could_not_be_warmed_up(monkeypatch):
    """Waves meet the same, and say so; the turn that looks for slots does not end by it."""
    started = Started(monkeypatch)
    started.take(1)
    monkeypatch.setattr(SparkEngine, "_seed", lambda *_: Refused())
    threads = DaemonThreads(1, "wave")
    slots = Slots(None, None, threads, started.engine._warm_up)
    assert slots.warmed(1) == 1
    slots.warmed(2)
    assert threads.close(10)
    assert slots.warmed(2) == 2


def test_a_session_that_a_handler_has_stopped_is_told_as_such():
    """What is asked of it before fails in Python, not in Spark."""
    stopped = SimpleNamespace(sparkContext=SimpleNamespace(_jsc=None))
    engine = SparkEngine(stopped, TaskTools(Connections({}, ""), NumbersReader(), None, None))
    assert engine.slots == 1
    assert engine.executors == 1
    with pytest.raises(EngineStopped, match="no handler may do"):
        engine.finished(0)
    engine.close()


def test_a_question_that_hangs_is_left_behind_at_the_end(capsys):
    tools = TaskTools(Connections({}, ""), NumbersReader(), None, None)
    engine = SparkEngine(SimpleNamespace(), tools, close_s=0.05)
    hangs = threading.Event()
    engine._spark.submit(lambda: hangs.wait(60))
    closing = threading.Thread(target=engine.close, daemon=True)
    closing.start()
    closing.join(60)
    assert not closing.is_alive()
    assert "questions to Spark are left behind" in capsys.readouterr().out
    hangs.set()


class Inline:
    """Runs what it is given at once, and not in a thread."""

    def submit(self, call):
        call()


class Started:
    """An engine whose waves never come back, and what their tasks are told to keep."""

    def __init__(self, monkeypatch):
        tools = TaskTools(Connections({}, ""), NumbersReader(), None, None)
        self.kept, self.engine = {}, SparkEngine(None, tools)
        self.engine._threads = Inline()
        monkeypatch.setattr(SparkEngine, "_run", self._ran)

    def _ran(self, wave, _deployed, _group, needed):
        self.kept[wave.id] = needed

    def take(self, number, **options):
        """Deploy another version; returns it and its digest."""
        handler = eval(f"lambda table, context: {number}")
        made = use_case(topic="{tenant}.v", sink=ParquetFiles("out"), name="keep", **options)(
            handler
        )
        self.engine.take(made, Deployment("keep", "m.py", "0" * 64, "{tenant}.v"))
        return made, self.engine._deployed["keep", None].work.digest

    def start(self, name, made=None):
        """What the tasks of a new wave are told to keep."""
        wave = Wave(name, "keep", (), 1.0)
        self.engine.start(wave if made is None else replace(wave, terms=made.terms))
        return self.kept[name]

    def ended(self, name):
        del self.engine._running[name]


def test_tasks_keep_the_newest_version_and_those_of_waves_in_flight(monkeypatch):
    started = Started(monkeypatch)
    _, first = started.take(1)
    assert started.start("w1") == {first}
    _, second = started.take(2)
    assert started.start("w2") == {first, second}
    _, third = started.take(3)
    assert started.start("w3") == {first, second, third}
    started.ended("w1")
    assert started.start("w4") == {second, third}
    started.ended("w2")
    assert started.start("w5") == {third}


def test_tasks_keep_a_version_for_each_terms_until_it_is_forgotten(monkeypatch):
    started = Started(monkeypatch)
    old, first = started.take(1)
    new, second = started.take(2, order="stream")
    assert started.start("w1", old) == {first, second}
    started.engine.forget("keep", old.terms)
    assert started.start("w2", new) == {first, second}
    started.ended("w1")
    assert started.start("w3", new) == {second}


def test_a_signal_whose_handler_outlasts_the_timeout_does_not_make_it_wait_for_ever(monkeypatch):
    engine = Started(monkeypatch).engine
    monkeypatch.setattr(SparkEngine, "_refuse_if_stopped", lambda _self: None)
    handled = []

    def handler(_number, _frame):
        time.sleep(0.3)
        handled.append(True)

    ends_a_hang = threading.Timer(10.0, engine._done.put, [None])
    ends_a_hang.start()
    before = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        assert engine.finished(timeout_s=0.2) == []
        assert handled
    finally:
        ends_a_hang.cancel()
        signal.signal(signal.SIGALRM, before)


def test_modules_of_a_version_are_needed_until_its_last_wave_is_over(monkeypatch):
    started = Started(monkeypatch)
    for number in (1, 2, 3):
        made, _ = started.take(number)
        started.engine._deployed["keep", None].use_case = replace(made, module=f"v{number}.a")
        started.start(f"w{number}")
    assert started.engine.modules() >= {"v1.a", "v2.a", "v3.a"}
    started.ended("w1")
    assert "v1.a" not in started.engine.modules()
    started.ended("w3")
    assert "v3.a" in started.engine.modules(), "waves to come run it"


def refuses(*_given, **_named):
    raise AssertionError("this takes as long as the code is large")


def test_what_was_packed_is_taken_under_any_terms_without_reading_the_whole_of_it(monkeypatch):
    """A turn does it; megabytes that it hashed or pickled again would take from every lease."""
    engine = Started(monkeypatch).engine
    made = use_case(topic="{tenant}.v", sink=ParquetFiles("out"), name="keep")(lambda *_: "a")
    deployment = Deployment("keep", "m.py", "0" * 64, "{tenant}.v")
    packed = engine.packed(made)
    with monkeypatch.context() as turn:
        turn.setattr(hashlib, "sha256", refuses)
        turn.setattr(pickle, "dumps", refuses)
        turn.setattr(cloudpickle, "dumps", refuses)
        engine.take(made, deployment, packed)
        for order in ("key", "stream"):
            engine.take(replace(made, order=Order(order)), deployment)
    works = [deployed.work for deployed in engine._deployed.values()]
    assert len(works) == 4
    assert all(work.code is packed.code and work.digest == packed.digest for work in works)
    monkeypatch.setattr(task, "CACHE", WorkerCache())
    assert {work.load().order for work in works} == {Order.LANE, Order.KEY, Order.STREAM}
    assert {work.load().handler(None) for work in works} == {"a"}
