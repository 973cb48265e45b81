"""Large code of a version is a broadcast: made once, read by who needs it, and taken away."""

import pickle
import threading
from dataclasses import replace
from types import SimpleNamespace

import cloudpickle
import pytest

from headrace.errors import CodeNotFetched
from headrace.ports import Connections
from headrace.spark import task
from headrace.spark.shared_code import MOST_BYTES, SharedCode
from headrace.spark.task import Work
from headrace.spark.worker_cache import WorkerCache
from headrace.testing.numbers_reader import NumbersReader


class Broadcast:
    """As much of Spark's as is used."""

    def __init__(self, value):
        self._path, self.kept, self.read, self.there = "/a/file", value, 0, True
        self.error = None

    def __reduce__(self):
        return str, ("its number",)

    @property
    def value(self):
        if self.error is not None:
            raise self.error
        assert self.there
        if not hasattr(self, "_value"):
            self.read += 1
            self._value = self.kept
        return self._value

    def destroy(self):
        assert self.there
        self.there = False


@pytest.fixture
def made():
    return []


@pytest.fixture
def code(made):
    def broadcast(value):
        made.append(Broadcast(value))
        return made[-1]

    return SharedCode(SimpleNamespace(sparkContext=SimpleNamespace(broadcast=broadcast)))


def work_of(made):
    """As of a version that makes this."""
    return Work(cloudpickle.dumps(made), (), Connections({}, ""), NumbersReader(), None, None)


LARGE = "x" * (MOST_BYTES + 1)


def test_large_code_is_sent_once_whatever_many_waves_run_it(code, made):
    works = [code.shared(work_of(LARGE)) for _ in range(10)]
    assert len(made) == 1
    assert {work.digest for work in works} == {work_of(LARGE).digest}
    assert all(work.has_code and not work.code for work in works)


def test_threads_that_begin_at_once_share_one(code, made):
    threads = [threading.Thread(target=code.shared, args=(work_of(LARGE),)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1


def test_small_code_goes_with_its_tasks(code, made):
    work = work_of("x")
    assert code.shared(work) is work
    assert made == []


def test_no_code_is_sent_with_a_task_of_large_code(code):
    assert len(pickle.dumps(code.shared(work_of(LARGE)))) < MOST_BYTES / 10


def test_a_worker_reads_it_when_it_has_not_loaded_it_and_keeps_one_of_it(code, made, monkeypatch):
    monkeypatch.setattr(task, "CACHE", WorkerCache())
    work = code.shared(work_of(LARGE))
    assert [work.load() for _ in range(3)] == [LARGE] * 3
    (broadcast,) = made
    assert broadcast.read == 1
    assert "_value" not in vars(broadcast)
    task.CACHE.drop_all_but([])
    assert work.load() == LARGE
    assert broadcast.read == 2


def test_what_no_wave_can_ask_for_is_taken_away_and_made_anew_when_it_is_deployed_again(code, made):
    first, second = work_of(LARGE), work_of(LARGE + "y")
    for work in (first, second):
        code.shared(work)
    code.keep_only(lambda: {second.digest})
    assert [one.there for one in made] == [False, True]
    code.shared(second)
    code.shared(first)
    assert [one.there for one in made] == [False, True, True]


def test_the_same_code_under_other_terms_is_sent_once(code, made):
    work = work_of(LARGE)
    for terms in ((), (("order", "stream"),)):
        code.shared(replace(work, terms=terms))
    assert len(made) == 1


def test_code_whose_file_is_gone_is_told_as_not_loaded_and_made_anew_once(code, made, monkeypatch):
    monkeypatch.setattr(task, "CACHE", WorkerCache())
    waves = [code.shared(work_of(LARGE)) for _ in range(2)]
    made[0].error = FileNotFoundError(2, "No such file or directory")
    for work in waves:
        with pytest.raises(CodeNotFetched, match=r"not found on executor .*: FileNotFoundError"):
            work.load()
        code.lost(work)
        assert code.shared(work_of(LARGE)).load() == LARGE
        task.CACHE.drop_all_but([])
    assert [one.there for one in made] == [False, True]
