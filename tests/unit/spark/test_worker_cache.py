"""What a worker keeps of the code that it is sent, and what it says when it cannot load it."""

import contextlib
import gc
import os
import sys
import types
import weakref
from unittest.mock import Mock

import cloudpickle
import pytest

from headrace.errors import CodeNotLoaded, TaskLost, Temporary
from headrace.spark import jobs
from headrace.spark.rights import rights_now
from headrace.spark.shipping import code_of
from headrace.spark.worker_cache import WorkerCache
from headrace.versions import find_module, load_code, read_code

ABSENT = "not_installed_here"


@pytest.fixture
def package(monkeypatch):
    """A package that the driver has; ``uninstall`` makes this the process of a worker without."""
    made = types.ModuleType(ABSENT)
    made.__spec__ = types.SimpleNamespace(name=ABSENT)
    made.answer = 42
    monkeypatch.setitem(sys.modules, ABSENT, made)
    yield made
    sys.modules.pop(ABSENT, None)


class Version:
    """As much of a use case as a worker keeps it by."""

    def __init__(self, answer):
        self.handler = lambda: answer
        self.module = ""


def pickled(number):
    return cloudpickle.dumps(Version(number))


def test_code_is_unpickled_once():
    cache, code = WorkerCache(), pickled(1)
    assert cache.code("a", code) is cache.code("a", code)
    assert cache.code("a", code).handler() == 1


def test_clients_are_opened_once_for_each_address():
    cache = WorkerCache()
    assert cache.clients(b"a", object) is cache.clients(b"a", object)
    assert cache.clients(b"a", object) is not cache.clients(b"b", object)


def test_it_tells_what_has_changed():
    cache = WorkerCache()
    changes = []
    for call in (
        lambda: cache.code("a", pickled(1)),
        lambda: cache.code("a", pickled(1)),
        lambda: cache.clients(b"a", object),
        lambda: cache.clients(b"a", object),
        lambda: cache.drop_all_but({"a", "b"}),
        lambda: cache.drop_all_but({"b"}),
        lambda: cache.drop_all_but({"b"}),
    ):
        cache.changed = False
        call()
        changes.append(cache.changed)
    assert changes == [True, False, True, False, False, True, False]


def test_of_many_versions_those_that_are_needed_stay():
    cache = WorkerCache()
    watched = {}
    for number in range(100):
        digest = f"{number}"
        # A wave in flight still runs the version before.
        cache.drop_all_but({digest, f"{number - 1}", "other"})
        watched[digest] = weakref.ref(cache.code(digest, pickled(number)))
        cache.dropped.clear()  # as behind the task
    gc.collect()
    alive = [digest for digest, version in watched.items() if version() is not None]
    assert alive == ["98", "99"]


SOURCE = """\
from headrace import use_case
from headrace.sinks import ParquetFiles
import helper

@use_case(topic="{tenant}.visits", sink=ParquetFiles("x"), name="count")
def handler(table, context):
    return helper.ANSWER
"""


def test_local_modules_go_with_the_version_that_needed_them(tmp_path):
    cache = WorkerCache()
    (tmp_path / "use_cases.py").write_text(SOURCE)
    for number in range(10):
        (tmp_path / "helper.py").write_text(f"ANSWER = {number}\n")
        place = find_module("use_cases.py", tmp_path)
        packed = code_of(load_code(read_code(place), place.path).use_cases["count"])
        cache.drop_all_but({f"{number - 1}"})
        assert cache.code(f"{number}", packed)(None, None) == number
    assert sum(name.endswith(".helper") for name in sys.modules) == 2


def test_clients_stay_whatever_code_is_dropped():
    cache = WorkerCache()
    clients = cache.clients(b"a", object)
    cache.drop_all_but(set())
    assert cache.clients(b"a", object) is clients


def test_a_missing_package_is_named_with_what_to_do(package):
    code = cloudpickle.dumps(lambda: package.answer)
    del sys.modules[ABSENT]
    with pytest.raises(CodeNotLoaded) as caught:
        WorkerCache().code("a", code)
    assert isinstance(caught.value, Temporary)
    assert f"package {ABSENT} is not installed on executor" in str(caught.value)
    assert "spark.archives" in str(caught.value)


def test_what_does_not_load_is_tried_again(package):
    cache, code = WorkerCache(), cloudpickle.dumps(lambda: package.answer)
    del sys.modules[ABSENT]
    for _ in range(2):
        with pytest.raises(CodeNotLoaded):
            cache.code("a", code)
    sys.modules[ABSENT] = package
    assert cache.code("a", code)() == 42


class Breaks:
    """Pickled well, and raises what it was told when it is unpickled."""

    def __init__(self, error):
        self.error = error

    def __reduce__(self):
        return _raise, (self.error,)


def _raise(error):
    raise error


@pytest.mark.parametrize(
    "error",
    [
        ImportError("libgeos.so.1"),
        AttributeError("no such class"),
        SystemExit(3),
        KeyboardInterrupt("no"),
    ],
)
def test_whatever_keeps_code_from_loading_is_told(error):
    with pytest.raises(CodeNotLoaded, match=f"{type(error).__name__}: {error}"):
        WorkerCache().code("a", cloudpickle.dumps(Breaks(error)))


def refuse_priority(*_):
    raise PermissionError(13, "Permission denied")


def test_code_that_sets_for_its_worker_what_cannot_be_put_back_is_refused_by_name(monkeypatch):
    kept, cache = rights_now(), WorkerCache()
    # As the kernel does to all but root, so that the check of a deploy by root lets it pass.
    monkeypatch.setattr(os, "setpriority", refuse_priority)
    code = cloudpickle.dumps(types.SimpleNamespace(handler=Nicer(), module=""))
    try:
        with pytest.raises(
            CodeNotLoaded, match=r"its code sets os\.nice when it is imported on ex"
        ):
            cache.code("a", code)
        with pytest.raises(CodeNotLoaded, match="all use cases of the worker would have it"):
            cache.code("b", pickled(1))
    finally:
        monkeypatch.undo()
        kept.are_kept()


class Nicer:
    """Its worker is served after others when it is unpickled."""

    def __reduce__(self):
        return os.nice, (1,)


def test_a_task_that_spoils_its_worker_hands_back_what_it_has_to_say_and_the_next_does_nothing(
    monkeypatch,
):
    """Were it lost, Spark would try it again, and then forget what its whole job did elsewhere."""
    cache, end, begun = WorkerCache(), Mock(), []
    monkeypatch.setattr(jobs, "CACHE", cache)
    monkeypatch.setattr(jobs, "end_behind_task", end)
    for name in ("keep_to_itself", "OUTPUT", "HEAP"):
        monkeypatch.setattr(jobs, name, Mock())
    with jobs.kept_small([]):
        cache.code("a", pickled(1))
    assert not end.called
    with jobs.kept_small(["a"]), contextlib.suppress(CodeNotLoaded):
        cache._spoil(["resource.setrlimit"])
    assert end.called
    with pytest.raises(TaskLost, match="worker on executor"), jobs.kept_small(["a"]):
        begun.append(1)
    assert begun == []
