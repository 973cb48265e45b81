"""What is deployed is taken beside the turns, and the store is told what became of it."""

import gc
import importlib
import logging
import os
import resource
import socket
import sys
import threading
import weakref
from dataclasses import replace

import pytest
from two_use_cases import deployment_of, settings, write

from headrace.cycle.driver import Driver, DriverParts
from headrace.cycle.versions import SPARE_TERMS
from headrace.deploying.offer import deploy, load, source_of
from headrace.errors import ConfigError, SinkUnavailable, StoreUnavailable
from headrace.model.records import LaneStart
from headrace.model.streams import LaneId, Slice, State, StreamId, Tenant
from headrace.model.waves import Bin, Wave
from headrace.ports import Connections
from headrace.running.assembly import Assembly
from headrace.sinks import ParquetFiles
from headrace.spark.load_settings import before_load
from headrace.store import SqlPositionsFactory
from headrace.testing.clock import FakeClock
from headrace.testing.dead_letters_fake import MemoryDeadLetters
from headrace.testing.engine_fake import InProcessEngine
from headrace.testing.log_fake import MemoryLog, MemoryReaderFactory, Row
from headrace.versions import Code, LocalModule, find_module, read_code
from headrace.versions.loading import _known

#: far more than anything here takes that does not hang
MOST_S = 30.0
#: turns that are counted while something hangs
TURNS = 50


class Foreign:
    """Code of somebody else, which does as it is told."""

    def __init__(self):
        self.acts = {}
        self.gone_on = threading.Event()
        self.load = None
        #: a call of each step has begun
        self.reached = threading.Event()

    def imported(self, deployment):
        self.act("import")
        return self.load(deployment)

    def act(self, step, use_case=None):
        doing = self.acts.get(step) or self.acts.get((step, use_case))
        if doing == "hang":
            self.reached.set()
            self.gone_on.wait()
        elif doing is not None:
            self.reached.set()
            raise doing


class Engine(InProcessEngine):
    foreign = None

    def packed(self, use_case):
        self.foreign.act("pack", use_case.name)
        return super().packed(use_case)


@pytest.fixture
def foreign(monkeypatch):
    made = Foreign()

    def prepare(sink, _site):
        made.act("prepare", sink.folder)

    def describe(sink, name):
        made.act("describe")
        return object.__getattribute__(sink, name)

    monkeypatch.setattr(ParquetFiles, "prepare", prepare)
    monkeypatch.setattr(ParquetFiles, "__getattribute__", describe, raising=False)
    monkeypatch.setattr(ParquetFiles, "__len__", lambda _: made.act("describe") or 0, raising=False)
    yield made
    made.gone_on.set()


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def fresh(tmp_path, store, foreign, clock):
    """A driver that has taken nothing yet, of two use cases that are deployed."""
    write(tmp_path)
    connections = Connections({}, f"sqlite:///{tmp_path}/store.db", warehouse=str(tmp_path))
    log, letters = MemoryLog(), MemoryDeadLetters()
    engine = Engine(connections, MemoryReaderFactory(log), SqlPositionsFactory(), letters)
    engine.foreign = foreign
    driver = Driver(DriverParts(store, log, engine, letters, clock), "run", name="d1")
    deployed(tmp_path, store)
    return Assembly(driver, store, engine, connections, 1.0, source_of(settings(), tmp_path))


@pytest.fixture
def assembly(fresh, foreign):
    """A driver that runs the use cases one and two."""
    foreign.load, fresh.taking.load = fresh.taking.load, foreign.imported
    fresh.taking.limit_s = MOST_S
    fresh.taking.chance = lambda: 1.0
    taken(fresh)
    fresh.driver.turn()
    fresh.taking.poll()
    yield fresh
    fresh.taking.stop()


def deployed(folder, store, *names, **options):
    """Deploy the file as it is; the deployments, by name."""
    chosen = settings(**options)
    module = load(chosen, folder)
    for name in names or (None,):
        deploy(chosen, module, store.registry, name)
    return {deployment.use_case: deployment for deployment in store.registry.deployments()}


def taken(made):
    made.taking.poll()
    made.taking.swap()
    made.taking.poll()


def running(made):
    return {name: deployment.digest for name, deployment in made.driver.deployed.items()}


def said(store):
    return {answer.use_case: answer for answer in store.membership.answers()}


def new_version(folder, store, number=1):
    write(folder, answer=f"{number}")
    return deployed(folder, store)


RAISED = [RuntimeError("theirs"), SystemExit(3), ConfigError("refused"), KeyboardInterrupt()]


def asking_a_registry(folder, store):
    """A version whose use case one names schemas of a registry."""
    write(folder, answer="1")
    source = (folder / "use_cases.py").read_text()
    source = source.replace("ParquetFiles(name)", "SINKS.get(name, ParquetFiles)(name)")
    asking = "class Asking(ParquetFiles):\n    needs_registry = True\n\nSINKS = {'one': Asking}\n\n"
    (folder / "use_cases.py").write_text(source.replace("def make", f"{asking}def make"))
    return deployed(folder, store)


@pytest.mark.parametrize("step", ["import", "describe", "pack", "prepare"])
@pytest.mark.parametrize("doing", ["hang", *RAISED], ids=str)
def test_whatever_code_of_others_does_turns_go_on_with_the_version_before(
    tmp_path, store, assembly, foreign, step, doing
):
    before, turns = running(assembly), 0
    assembly.taking.limit_s = 3600.0
    new_version(tmp_path, store)
    foreign.acts[step] = doing

    def on_turn(_driver):
        nonlocal turns
        if foreign.reached.is_set():
            turns += 1
        if turns == TURNS:
            assembly.stop()

    assert assembly.run(on_turn)
    assert turns >= TURNS
    assert running(assembly) == before


SETTING = """\
import gc, logging, os, resource, socket, sys, threading
gc.disable()
socket.setdefaulttimeout(1.0)
os.umask(0o777)
os.chdir("/")
resource.setrlimit(resource.RLIMIT_NOFILE, (200, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
sys.setrecursionlimit(300)
threading.stack_size(65536)
logging.disable(logging.CRITICAL)
sys.path.insert(0, "/nowhere")
os.environ["OF_A_MODULE"] = "stays"
"""


def of_process():
    mode = os.umask(0o022)
    os.umask(mode)
    files, silent = resource.getrlimit(resource.RLIMIT_NOFILE), logging.root.manager.disable
    given = socket.getdefaulttimeout(), sys.getrecursionlimit(), threading.stack_size()
    return mode, os.getcwd(), files, silent, given, list(sys.path), gc.isenabled()


@pytest.mark.parametrize("then", ["", "raise RuntimeError('theirs')\n"], ids=["taken", "refused"])
def test_what_a_module_sets_for_its_process_when_it_is_imported_is_put_back(
    tmp_path, store, assembly, monkeypatch, then
):
    """A timeout of sockets, say, would end the waves of all use cases."""
    monkeypatch.delenv("OF_A_MODULE", raising=False)
    before, kept = of_process(), before_load()
    try:
        write(tmp_path, answer="1")
        wanted = deployed_with(tmp_path, store, SETTING + then)
        assert of_process() == before
        taken(assembly)
        assert of_process() == before
    finally:
        kept.put_back()
    assert (running(assembly)["one"] == wanted.digest) is (then == "")
    assert os.environ["OF_A_MODULE"] == "stays", "libraries may need it"


@pytest.mark.parametrize("step", ["pack", "prepare"])
def test_what_a_sink_or_the_packing_sets_for_its_process_is_put_back(
    tmp_path, store, assembly, foreign, monkeypatch, step
):
    before, kept, act, reached = of_process(), before_load(), foreign.act, []

    def sets(doing, use_case=None):
        act(doing, use_case)
        if doing == step:
            socket.setdefaulttimeout(1.0)
            os.umask(0o777)
            os.chdir("/")
            reached.append(doing)

    monkeypatch.setattr(foreign, "act", sets)
    try:
        new_version(tmp_path, store)
        taken(assembly)
        assert reached
        assert of_process() == before
    finally:
        kept.put_back()


def refuse_priority(*_):
    raise PermissionError(13, "Permission denied")


def test_what_cannot_be_put_back_after_an_import_is_not_taken_and_is_told_by_its_name(
    tmp_path, store, assembly, monkeypatch
):
    monkeypatch.setattr(os, "setpriority", refuse_priority)  # as the kernel does to all but root
    write(tmp_path, answer="1")
    wanted = deployed_with(tmp_path, store, "import os\nos.nice(1)\n")
    taken(assembly)
    assert running(assembly)["one"] != wanted.digest
    assert "sets os.nice, and that cannot be put back: leave it out" in said(store)["one"].error


def deployed_with(folder, store, top):
    """Deploy the file with these lines at its top, which run in the driver alone."""
    path = folder / "use_cases.py"
    path.write_text(top + path.read_text())
    code = read_code(find_module("use_cases.py", folder))
    source_of(settings(), folder).shelf.keep(code, "test")
    (one,) = (known for known in store.registry.deployments() if known.use_case == "one")
    wanted = replace(one, digest=code.digest)
    store.registry.deploy(wanted)
    return wanted


def test_what_was_set_by_an_import_that_hangs_is_put_back_when_it_is_too_late(
    tmp_path, store, assembly, foreign
):
    before, kept = socket.getdefaulttimeout(), before_load()
    assembly.taking.limit_s = 0.01

    def load(_deployment):
        socket.setdefaulttimeout(1.0)
        foreign.reached.set()
        foreign.gone_on.wait()

    foreign.load = load
    try:
        new_version(tmp_path, store)
        assembly.taking.poll()
        assert foreign.reached.is_set()
        assert socket.getdefaulttimeout() == before
    finally:
        kept.put_back()


@pytest.mark.parametrize("when", ["poll", "attempt"])
def test_what_an_import_that_hangs_sets_later_is_put_back_as_well(
    tmp_path, store, assembly, foreign, when
):
    """The next version took it for how the process is, and left it there for good."""
    before, kept, imported = socket.getdefaulttimeout(), before_load(), foreign.load
    set_late, ended = threading.Event(), threading.Event()

    def slow(_deployment):
        foreign.gone_on.wait()
        socket.setdefaulttimeout(0.5)
        set_late.set()
        ended.wait()

    foreign.load, assembly.taking.limit_s = slow, 0.01
    try:
        new_version(tmp_path, store)
        assembly.taking.poll()
        foreign.load, assembly.taking.limit_s = imported, MOST_S
        wanted = new_version(tmp_path, store, 2)["one"]
        foreign.gone_on.set()
        assert set_late.wait(MOST_S)
        if when == "poll":
            assembly.taking.poll({"nobody"})
        else:
            assembly.taking._try(wanted)
        assert socket.getdefaulttimeout() == before
    finally:
        ended.set()
        kept.put_back()


def test_no_turn_asks_a_sink_for_anything_once_its_version_was_taken(
    tmp_path, store, assembly, foreign
):
    wanted, turns = new_version(tmp_path, store), 0
    assembly.taking.poll()
    foreign.acts["describe"] = RuntimeError("theirs")
    assembly.engine.paused = True  # what runs may ask
    store.registry.add_tenant(Tenant("acme"))
    log = assembly.driver.parts.log
    log.create_topic("acme.visits", 1)
    log.append("acme.visits", 0, [Row(b"x")])

    def on_turn(driver):
        nonlocal turns
        turns += 1
        driver.parts.clock.move(0.1)
        if turns == TURNS:
            assembly.stop()

    assembly.run(on_turn)
    assert turns >= TURNS
    assert not foreign.reached.is_set(), "nobody asked"
    assert assembly.engine.started
    assert running(assembly)["one"] == wanted["one"].digest


def test_a_new_version_runs_after_the_next_swap_and_the_store_is_told(tmp_path, store, assembly):
    before = said(store)
    wanted = new_version(tmp_path, store)
    assembly.taking.poll()
    assert running(assembly)["one"] != wanted["one"].digest
    assert said(store) == before, "nothing is said of it yet"
    assembly.taking.swap()
    assert running(assembly)["one"] == wanted["one"].digest
    assembly.taking.poll()
    answer = said(store)["one"]
    assert (answer.driver, answer.error) == ("d1", None)
    assert (answer.revision, answer.digest) == (wanted["one"].revision, wanted["one"].digest)


def test_what_is_deployed_again_as_it_is_is_answered_without_being_taken_again(
    tmp_path, store, assembly, foreign
):
    foreign.acts["pack"] = RuntimeError("nobody packs it")
    deployments = deployed(tmp_path, store)
    store.registry.deploy(deployments["one"])
    assembly.taking.poll()
    (one, two) = store.registry.deployments()
    assert one.revision > two.revision
    assert [answer.revision for answer in store.membership.answers()] == [
        one.revision,
        two.revision,
    ]
    assert not assembly.taking._refused


def test_what_is_refused_is_told_with_its_reason_and_what_runs_instead(
    tmp_path, store, assembly, foreign
):
    before = running(assembly)
    foreign.acts["prepare", "one"] = ConfigError("table one is there without column 'x'")
    wanted = new_version(tmp_path, store)
    taken(assembly)
    answer = said(store)["one"]
    assert answer.error == "table one is there without column 'x'"
    assert (answer.revision, answer.digest) == (wanted["one"].revision, before["one"])
    assert answer.again
    assert said(store)["two"].error is None
    assert running(assembly)["two"] == wanted["two"].digest


def test_a_driver_without_a_registry_says_what_to_set_and_goes_on_with_the_version_before(
    tmp_path, store, assembly
):
    before = running(assembly)
    wanted = asking_a_registry(tmp_path, store)
    taken(assembly)
    answer = said(store)["one"]
    assert (answer.revision, answer.digest) == (wanted["one"].revision, before["one"])
    assert "one: its records name schemas of a registry, and none is configured" in answer.error
    assert "schema.registry.url in the YAML file" in answer.error
    assert "start this driver again" in answer.error
    assert not answer.again
    assert said(store)["two"].error is None
    assert running(assembly)["two"] == wanted["two"].digest


def test_a_driver_with_a_registry_takes_what_asks_one_whether_it_answers_or_not(
    tmp_path, store, assembly
):
    registry = {"schema.registry.url": "http://127.0.0.1:9"}
    assembly.taking.connections = replace(assembly.taking.connections, registry=registry)
    wanted = asking_a_registry(tmp_path, store)
    taken(assembly)
    assert said(store)["one"].error is None
    assert running(assembly)["one"] == wanted["one"].digest


@pytest.mark.parametrize("error", [ConfigError("no column"), SinkUnavailable("no server")])
def test_what_a_sink_refuses_is_tried_again_by_itself_each_time_later(
    tmp_path, store, assembly, foreign, clock, error
):
    foreign.acts["prepare"] = error
    wanted = new_version(tmp_path, store)
    taken(assembly)
    foreign.acts.clear()
    taken(assembly)
    assert said(store)["one"].error == str(error), "it is not asked all the time"
    clock.move(1.0)
    taken(assembly)
    assert running(assembly)["one"] == wanted["one"].digest
    assert said(store)["one"].error is None


class OwnError(SinkUnavailable):
    """As a sink of somebody has it, whose text is code of theirs."""

    def __init__(self, tell):
        super().__init__("away")
        self.tell = tell

    def __str__(self):
        return self.tell()


def test_an_error_whose_text_cannot_be_had_ends_no_driver(tmp_path, store, assembly, foreign):
    foreign.acts["prepare", "one"] = OwnError(lambda: {}["host"])
    wanted = new_version(tmp_path, store)
    taken(assembly)
    answer = said(store)["one"]
    assert (answer.error, answer.again) == ("its text cannot be had, KeyError", True)
    assert running(assembly)["two"] == wanted["two"].digest


def test_an_error_whose_text_hangs_holds_up_its_own_deployment_alone(
    tmp_path, store, assembly, foreign
):
    assembly.taking.limit_s = 0.5
    foreign.acts["prepare", "one"] = OwnError(lambda: str(foreign.gone_on.wait(MOST_S)))
    new_version(tmp_path, store)
    assembly.taking.poll({"one"})
    answer = said(store)["one"]
    assert answer.error.startswith("preparing the sink of one did not come back in time")
    assert answer.again


def test_what_is_refused_for_long_is_said_once_and_keeps_its_beginning(
    tmp_path, store, assembly, foreign, clock, capsys
):
    foreign.acts["prepare", "one"] = ConfigError("no column")
    new_version(tmp_path, store)
    taken(assembly)
    since_s = said(store)["one"].since_s
    for _ in range(3):
        clock.move(60.0)
        taken(assembly)
    assert said(store)["one"].since_s == since_s
    assert capsys.readouterr().out.count("deployment not taken") == 1


def test_what_the_code_itself_refuses_is_tried_with_the_next_deployment_also_of_the_same(
    tmp_path, store, assembly, foreign, clock
):
    foreign.acts["pack", "one"] = RuntimeError("a session cannot be pickled")
    wanted = new_version(tmp_path, store)
    taken(assembly)
    answer = said(store)["one"]
    assert "making one ready for executors raised RuntimeError: a session" in answer.error
    assert not answer.again
    foreign.acts.clear()
    clock.move(3600.0)
    taken(assembly)
    assert said(store)["one"].error
    store.registry.deploy(wanted["one"])
    taken(assembly)
    assert said(store)["one"].error is None
    assert running(assembly)["one"] == wanted["one"].digest


def test_a_sink_that_hangs_is_told_in_time_and_the_others_are_taken(
    tmp_path, store, assembly, foreign, clock
):
    assembly.taking.limit_s = 2.0
    foreign.acts["prepare", "one"] = "hang"
    wanted = new_version(tmp_path, store)
    taken(assembly)
    answer = said(store)["one"]
    assert answer.error.startswith("preparing the sink of one did not come back in time")
    assert answer.again
    assembly.taking.limit_s = MOST_S
    taken(assembly)
    assert running(assembly)["two"] == wanted["two"].digest

    clock.move(60.0)
    taken(assembly)
    assert len(assembly.taking._hanging) == 1, "and no second thread hangs there as well"

    foreign.gone_on.set()
    (late,) = assembly.taking._hanging
    assert late.over.wait(MOST_S)
    taken(assembly)
    assert running(assembly)["one"] == wanted["one"].digest
    assert said(store)["one"].error is None


def test_what_is_new_does_not_wait_for_all_that_is_tried_again(
    tmp_path, store, assembly, foreign, clock, monkeypatch
):
    names = [f"a{number}" for number in range(9)]
    foreign.acts["prepare"] = SinkUnavailable("no server, and each try takes long")
    write(tmp_path, names=(*names, "one", "two"))
    deployed(tmp_path, store, *names)
    taken(assembly)
    clock.move(60.0)
    tried, attempt = [], type(assembly.taking)._try

    def tries(taking, deployment):
        tried.append(deployment.use_case)
        if len(tried) == 3:
            foreign.acts.clear()
            deployed(tmp_path, store, "two")
            foreign.acts["prepare"] = SinkUnavailable("no server")
        attempt(taking, deployment)

    monkeypatch.setattr(type(assembly.taking), "_try", tries)
    assembly.taking.poll()
    assert tried == ["a0", "a1", "a2", "two", *names[3:]], "each once"


def test_what_hangs_is_not_waited_for_once_something_else_is_deployed(
    tmp_path, store, assembly, foreign
):
    foreign.acts["import"] = "hang"
    new_version(tmp_path, store, 1)
    mended = {}

    def on_turn(driver):
        if foreign.reached.is_set() and not mended:
            foreign.acts.clear()
            mended.update(new_version(tmp_path, store, 2))
        if mended and running(assembly)["two"] == mended["two"].digest:
            assembly.stop()

    assembly.taking.limit_s = 3600.0
    assert assembly.run(on_turn)
    assert running(assembly)["one"] == mended["one"].digest


def test_while_a_file_is_being_imported_nothing_else_of_it_is_believed(
    tmp_path, store, assembly, foreign
):
    assembly.taking.limit_s = 0.01
    foreign.acts["import"] = "hang"
    new_version(tmp_path, store)
    before = running(assembly)
    taken(assembly)
    assert len(assembly.taking._hanging) == 1
    errors = {answer.error for answer in store.membership.answers()}
    assert errors == {
        f"importing {tmp_path}/use_cases.py did not come back in time; nothing else waits for it"
    }
    assert running(assembly) == before


def test_what_comes_back_late_is_dropped_if_something_else_is_wanted_by_then(
    tmp_path, store, assembly, foreign
):
    assembly.taking.limit_s = 2.0
    foreign.acts["prepare", "one"] = "hang"
    new_version(tmp_path, store, 1)
    taken(assembly)
    (late,) = assembly.taking._hanging
    foreign.acts.clear()
    assembly.taking.limit_s = MOST_S
    newest = new_version(tmp_path, store, 2)
    taken(assembly)
    foreign.gone_on.set()
    assert late.over.wait(MOST_S)
    taken(assembly)
    assert running(assembly)["one"] == newest["one"].digest


def test_a_driver_that_drains_takes_nothing_more_and_does_not_say_that_it_did(
    tmp_path, store, assembly
):
    before, revisions, turns = running(assembly), set(), 0
    store.registry.add_tenant(Tenant("acme"))
    log = assembly.driver.parts.log
    log.create_topic("acme.visits", 1)
    log.append("acme.visits", 0, [Row(b"x")])
    assembly.engine.paused, assembly.drain_timeout_s = True, 3600.0

    def on_turn(driver):
        nonlocal turns
        turns += 1
        if assembly.engine.started and not assembly._is_asked_to_stop:
            assembly.stop()
            new_version(tmp_path, store)
        revisions.update(answer.revision for answer in store.membership.answers())
        # Its thread has looked by then.
        assembly.engine.paused = not (assembly._is_asked_to_stop and assembly.taking._ready)
        driver.parts.clock.move(0.1)

    assert assembly.run(on_turn)
    assert running(assembly) == before
    newest = {deployment.revision for deployment in store.registry.deployments()}
    assert not revisions & newest
    assert store.membership.answers() == [], "whoever deployed does not wait for it"


def test_a_driver_that_joins_again_says_again_what_it_runs(store, assembly):
    before = store.membership.answers()
    assembly.driver.leases._join(frozenset({"one"}), 0.0)
    assert store.membership.answers() == []
    assembly.taking.poll()
    assert store.membership.answers() == before


def test_a_store_that_does_not_answer_is_asked_again(tmp_path, store, assembly, monkeypatch):
    wanted = new_version(tmp_path, store)
    answers, troubles = (
        store.registry.deployments,
        [StoreUnavailable("gone"), StoreUnavailable("gone")],
    )

    def unsteady():
        if troubles:
            raise troubles.pop()
        return answers()

    monkeypatch.setattr(store.registry, "deployments", unsteady)

    def on_turn(driver):
        if driver.deployed["two"].digest == wanted["two"].digest:
            assembly.stop()

    assert assembly.run(on_turn)
    assert running(assembly)["one"] == wanted["one"].digest


def test_a_fault_of_ours_in_the_thread_that_looks_ends_the_driver(assembly, monkeypatch):
    def broken():
        raise AssertionError("ours")

    monkeypatch.setattr(assembly.store.registry, "deployments", broken, raising=False)
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    with pytest.raises(AssertionError, match="ours"):
        assembly.run()


# --- what is forgotten -----------------------------------------------------------------------


def imported():
    """Versions of which modules are in this process."""
    found = {name.partition(".")[0] for name in sys.modules if name.startswith("headrace_version_")}
    assert found <= set(_known)
    return len(_known)


def test_a_driver_that_is_deployed_to_every_day_keeps_what_runs_alone(tmp_path, store, assembly):
    for number in range(40):
        wanted = new_version(tmp_path, store, number)
        taken(assembly)
        assert running(assembly)["one"] == wanted["one"].digest
        assert assembly.driver.versions.newest["one"].use_case(None, None) == number
    assert imported() == 1
    write(tmp_path, answer="'one alone'")
    deployed(tmp_path, store, "one")
    taken(assembly)
    assert imported() == 2, "use case two runs as it was"


def test_refused_versions_are_forgotten_and_what_is_tried_again_is_not_imported_anew(
    tmp_path, store, assembly, foreign, clock
):
    foreign.acts["prepare"] = ConfigError("no column")
    for number in range(20):
        new_version(tmp_path, store, number)
        taken(assembly)
    assert imported() == 2, "what runs, and what was refused last"
    tried = assembly.taking._refused["one"].module
    module = sys.modules[tried]
    clock.move(3600.0)
    taken(assembly)
    assert sys.modules[tried] is module


@pytest.mark.parametrize("broken", ["raise SystemExit", "x = 1 / 0"])
def test_versions_that_do_not_import_leave_nothing_behind(tmp_path, store, assembly, broken):
    source = source_of(settings(), tmp_path)
    for number in range(20):
        code = Code(
            "use_cases",
            (LocalModule("use_cases", False, "use_cases.py", f"{broken}  # {number}".encode()),),
        )
        source.shelf.keep(code, "test")
        for deployment in store.registry.deployments():
            store.registry.deploy(replace(deployment, digest=code.digest))
        taken(assembly)
        assert "does not import" in said(store)["one"].error or "ends" in said(store)["one"].error
    assert imported() == 1


def test_while_an_import_hangs_nothing_is_forgotten(tmp_path, store, assembly, foreign):
    assembly.taking.limit_s = 0.01
    foreign.acts["import"] = "hang"
    new_version(tmp_path, store, 1)
    taken(assembly)
    foreign.acts.clear()
    assembly.taking.limit_s = MOST_S
    for number in range(2, 5):
        new_version(tmp_path, store, number)
        taken(assembly)
    assert imported() > 1
    late = list(assembly.taking._hanging)
    foreign.gone_on.set()
    assert all(taking.over.wait(MOST_S) for taking in late)
    taken(assembly)
    assert imported() == 1


#: as a client of a server that it closes when nobody has it any more
CLOSES = """

class Client:
    def __del__(self):
        import threading
        threading.closed.append(threading.current_thread().name)

client = Client()
"""


def test_what_a_former_version_closes_is_closed_by_no_turn(tmp_path, store, assembly, monkeypatch):
    closed = []
    monkeypatch.setattr(threading, "closed", closed, raising=False)
    path = tmp_path / "use_cases.py"
    write(tmp_path, answer="1")
    path.write_text(path.read_text() + CLOSES)
    deployed(tmp_path, store)
    taken(assembly)
    new_version(tmp_path, store, 2)
    taken(assembly)
    taken(assembly)
    for thread in threading.enumerate():
        if thread.name == "headrace-freeing":
            thread.join(MOST_S)
    gc.collect()  # as a turn does that makes many objects
    assert closed
    assert set(closed) == {"headrace-freeing"}


#: as a client that is asked for a table, and dropped
DROPS = """

client.itself = client
del client
"""


def test_what_an_import_drops_is_closed_by_no_turn(tmp_path, store, assembly, monkeypatch):
    closed = []
    monkeypatch.setattr(threading, "closed", closed, raising=False)
    path = tmp_path / "use_cases.py"
    write(tmp_path, answer="1")
    path.write_text(path.read_text() + CLOSES + DROPS)
    gc.disable()
    try:
        deployed(tmp_path, store)
        taken(assembly)
    finally:
        gc.enable()
    gc.collect()
    assert closed == ["headrace-take"]


#: as a client whose server does not answer to the goodbye
CLOSES_NEVER = """

class Client:
    def __del__(self):
        import threading
        threading.goes_on.wait()

client = Client()
"""


def test_while_what_was_replaced_hangs_as_it_is_closed_the_rest_is_collected(
    tmp_path, store, assembly, monkeypatch
):
    """It hung in the collector, of which a process has one; and what was frozen was kept."""
    goes_on = threading.Event()
    monkeypatch.setattr(threading, "goes_on", goes_on, raising=False)
    path = tmp_path / "use_cases.py"
    write(tmp_path, answer="1")
    path.write_text(path.read_text() + CLOSES_NEVER)
    deployed(tmp_path, store)
    taken(assembly)
    try:
        gc.freeze()
        new_version(tmp_path, store, 2)
        taken(assembly)
        taken(assembly)
        assert [one for one in threading.enumerate() if one.name == "headrace-freeing"]
        circle = type("Circle", (), {})
        alive = weakref.ref(circle)
        del circle
        gc.collect()
        assert alive() is None
    finally:
        gc.unfreeze()
        goes_on.set()


def test_what_is_being_swapped_in_stays_though_a_newer_one_is_ready(
    tmp_path, store, assembly, monkeypatch
):
    engine, take = assembly.engine, Engine.take
    taken_ones = []

    def interrupted(engine, use_case, deployment, code=None):
        taken_ones.append(use_case)
        if len(taken_ones) == 1:
            new_version(tmp_path, store, 2)
            assembly.taking.poll()
        take(engine, use_case, deployment, code)

    new_version(tmp_path, store, 1)
    assembly.taking.poll()
    monkeypatch.setattr(Engine, "take", interrupted)
    assembly.taking.swap()
    assert {taken_one.module for taken_one in taken_ones} == engine.modules() <= set(sys.modules)
    assembly.taking.swap()
    assembly.taking.poll()
    assert imported() == 1


def test_a_version_that_hangs_later_is_still_there_when_it_goes_on(
    tmp_path, store, assembly, foreign
):
    assembly.taking.limit_s = 2.0
    foreign.acts["prepare", "one"] = "hang"
    new_version(tmp_path, store, 1)
    taken(assembly)
    (late,) = assembly.taking._hanging
    assembly.taking.limit_s = MOST_S
    foreign.acts.clear()
    for number in range(2, 10):
        new_version(tmp_path, store, number)
        taken(assembly)
    assert (late.module in sys.modules, imported()) == (True, 2)


def test_a_wave_in_flight_keeps_its_version_until_it_is_over(tmp_path, store, assembly):
    def imports_now():
        version = old.module.partition(".")[0]
        return importlib.import_module(f"{version}.helper").x

    (tmp_path / "helper.py").write_text("x = 5\n")
    write(tmp_path, answer="__import__")
    path = tmp_path / "use_cases.py"
    path.write_text(path.read_text().replace("return __import__", "import helper; return helper.x"))
    deployed(tmp_path, store)
    taken(assembly)
    old = assembly.driver.versions.newest["one"].use_case
    wave = Wave("w1", "one", (), 1.0, terms=old.terms)
    assembly.engine.start(wave)
    for number in range(10):
        new_version(tmp_path, store, number)
        taken(assembly)
    assert old(None, None) == imports_now() == 5, "its handler imports when it runs"
    assembly.engine.finished(0.0)
    assembly.taking.poll()
    assert imported() == 1
    with pytest.raises(ModuleNotFoundError):
        imports_now()


def recorded(store, terms):
    """A wave that was written down, of a tenant that is suspended."""
    (stream,) = (stream for stream in store.registry.streams() if stream.id.use_case == "one")
    store.progress.start_lanes([LaneStart(stream.id, "id", {f"{stream.id.tenant}.visits[0]": 0})])
    piece = Slice(LaneId("one", "acme", f"{stream.topic}[0]"), stream.topic, 0, 5, stream.epoch)
    wave = Wave("w0", "one", (Bin((piece,), 1.0),), 1.0, terms=terms)
    assert store.progress.record_intent(wave, "d1")
    return wave


def test_a_version_that_something_is_recorded_under_stays(tmp_path, store, assembly):
    write(tmp_path, answer="1")
    path = tmp_path / "use_cases.py"
    source, olds = path.read_text(), []
    store.registry.add_tenant(Tenant("acme"))
    store.registry.set_tenant_state("acme", State.SUSPENDED)
    for number in range(SPARE_TERMS + 3):
        path.write_text(source.replace("ParquetFiles(name)", f"ParquetFiles(name + '{number}')"))
        deployed(tmp_path, store)
        taken(assembly)
        olds.append(assembly.driver.versions.newest["one"].use_case)
        assembly.driver.turn()
        if not number:
            kept = recorded(store, olds[0].terms)
    assembly.taking.poll()
    assert imported() == SPARE_TERMS + 1
    assert assembly.driver.versions.of(kept).use_case is olds[0]
    assert olds[0](None, None) == 1
    assert olds[0].module in sys.modules
    assert olds[1].module not in sys.modules


def test_what_is_over_stays_as_long_as_a_stream_of_it_is_held(store, assembly):
    driver = assembly.driver

    def end():
        driver.end({"one"})
        driver.turn()
        return "one" in running(assembly)

    store.registry.add_tenant(Tenant("acme"))
    driver.turn()
    assert StreamId("one", "acme") in driver.board.streams
    assert end()
    store.registry.set_tenant_state("acme", State.REMOVED)
    driver.turn()
    assert not end()
    assert "two" in running(assembly)


def test_a_rerun_that_is_done_takes_its_version_along(tmp_path, store, assembly):
    one = deployed(tmp_path, store)["one"]
    names = [f"one~{number}" for number in range(1, 4)]
    for name in names:
        rerun = replace(one, use_case=name, until={"acme.visits[0]": 5})
        store.registry.deploy(rerun, anew=True)
        taken(assembly)
        assert name in running(assembly)
        store.registry.deploy(replace(deployment_of(store, name), until={}))
        new_version(tmp_path, store, int(name[-1]))
        for _ in range(2):
            taken(assembly)
            assembly.driver.turn()
    assert set(running(assembly)) == {"one", "two"} == set(assembly.taking._runs)
    taken(assembly)
    assert imported() == 1
    with pytest.raises(KeyError):
        assembly.engine.start(Wave("w1", "one~1", (), 1.0))


# --- the first turn --------------------------------------------------------------------------


def begun(made, *, may_wait):
    made.taking.poll()
    made.taking.swap()
    made.taking.refuse_idleness(may_wait=may_wait)


@pytest.mark.parametrize("may_wait", [True, False])
def test_a_driver_starts_with_what_it_can_take(store, fresh, foreign, may_wait):
    foreign.acts["prepare", "one"] = ConfigError("no column")
    begun(fresh, may_wait=may_wait)
    assert set(running(fresh)) == {"two"}
    fresh.driver.turn()
    fresh.taking.poll()
    assert {name: deployment.digest for name, deployment in said(store).items()} == {
        "one": None,
        "two": running(fresh)["two"],
    }


def test_with_nothing_to_run_a_first_start_is_refused(fresh, foreign):
    foreign.acts["prepare"] = ConfigError("no column")
    with pytest.raises(ConfigError, match="no column"):
        begun(fresh, may_wait=False)


def test_with_nothing_to_run_a_later_start_waits_for_what_may_pass(store, fresh, foreign, clock):
    foreign.acts["prepare"] = ConfigError("no column")
    begun(fresh, may_wait=True)
    fresh.driver.turn()
    foreign.acts.clear()
    clock.move(60.0)
    taken(fresh)
    assert set(running(fresh)) == {"one", "two"}
    fresh.driver.turn()
    taken(fresh)
    assert [answer.error for answer in store.membership.answers()] == [None, None]


def test_with_nothing_to_run_for_a_reason_in_the_code_no_start_waits(fresh, foreign):
    foreign.acts["pack"] = RuntimeError("cannot be pickled")
    with pytest.raises(ConfigError, match="cannot be pickled"):
        begun(fresh, may_wait=True)
