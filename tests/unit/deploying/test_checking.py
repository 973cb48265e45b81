"""What would hurt a driver is refused where it is deployed: file, use case, line and advice."""

import os
import signal
import subprocess
import sys
from contextlib import closing, nullcontext
from pathlib import Path
from zipfile import ZipFile

import psutil
import pytest

from headrace.deploying.checking import Check, checked
from headrace.errors import ConfigError, ConnectionDown, SinkUnavailable
from headrace.model.places import place_at
from headrace.model.records import Deployment, LaneStart, Move
from headrace.model.state import StateChanges, StateKey, StateSize
from headrace.model.streams import BadRecordPolicy, Guarantee, LaneId, Order, Tenant
from headrace.ports import Connections
from headrace.spark.shipping import code_of
from headrace.store import open_store
from headrace.versions import find_module, load_code, read_code

SOURCE = """\
import os
from headrace import use_case
from headrace.errors import SinkUnavailable
from headrace.sinks import SqlTable
{top}

class Mine(SqlTable):
    def prepare(self, site):
        {prepare}

@use_case(topic="{{tenant}}.visits", sink=Mine("seen", columns={{"a": "text"}}), order={order},
          guarantee="exactly-once", bad_record="fail", name="count")
def handler(table, context):
    return {answer}
"""


@pytest.fixture
def check(tmp_path):
    connections = Connections({}, f"sqlite:///{tmp_path}/store.db", warehouse=str(tmp_path))

    def run(top="", prepare="super().prepare(site)", answer="table", limit_s=20.0, **more):
        path, order = tmp_path / "use_cases.py", more.pop("order", '"stream"')
        path.write_text(SOURCE.format(top=top, prepare=prepare, answer=answer, order=order))
        place = find_module("use_cases.py", tmp_path)
        given = {"connections": connections, **more}
        return checked(Check(read_code(place), place.path, limit_s, **given))

    return run


def test_what_is_fit_is_told_with_what_a_deployment_needs(check, capfd):
    found = check(top="print('hello', flush=True)")
    count = found["count"]
    assert (count.topic, count.bad_record) == ("{tenant}.visits", BadRecordPolicy.FAIL)
    assert (count.terms.order, count.terms.guarantee) == (Order.STREAM, Guarantee.EXACTLY_ONCE)
    assert "seen" in count.terms.sink
    assert "hello" in capfd.readouterr().err


def test_it_is_told_into_how_many_buckets_partitions_are_divided(check):
    found = check(order='"key", buckets=5')
    assert (found["count"].terms.order, found["count"].divides_by) == (Order.KEY, 5)
    assert check(order='"lane"')["count"].divides_by == 1
    assert check(order='"none"')["count"].divides_by == 1
    assert check(order='"none", buckets=5')["count"].divides_by == 5


@pytest.mark.parametrize(
    ("number", "told"),
    [(9, "SIGKILL"), (signal.SIGRTMIN, "SIGRTMIN"), (signal.SIGRTMIN + 6, r"signal \d+")],
)
def test_a_signal_that_ends_it_is_told_by_name_if_it_has_one(check, number, told):
    with pytest.raises(ConfigError, match=rf"the process died \({told}\)"):
        check(top=f"os.kill(os.getpid(), {int(number)})")


#: found in the process that checks, as on the driver, and in no worker
ALONE = """\
import sys
if "headrace.deploying.checking_process" not in sys.orig_argv:
    pass
    {does}"""
HELD = """\
class SqlTable(SqlTable):
    def __reduce__(self):
        return SqlTable, (__import__("threading").Lock(),)"""
FORKS = "import time\nif os.fork() == 0:\n    time.sleep(3600)"
SESSION = "from pyspark.sql import SparkSession\nspark = SparkSession.builder.getOrCreate()"
BAD = {
    "a session": ({"top": SESSION}, r"use_cases.py, line 6: a Spark session is made here; take"),
    "an exit": ({"top": "raise SystemExit(4)"}, r"line 5, ends the process .*SystemExit: 4"),
    "a hard exit": ({"top": "os._exit(0)"}, r"use_cases.py: it is imported: the process died"),
    "a crash": (
        {"top": "import ctypes\nctypes.string_at(0)"},
        r"it is imported, at .*use_cases.py, line 6: the process died \(SIGSEGV\); try 'python",
    ),
    "an endless import": (
        {"top": "import threading\nthreading.Event().wait()", "limit_s": 1.0},
        r"it is imported, at .*use_cases.py, line \d+: not done within 1 s; .* deploy_timeout",
    ),
    "what cannot travel": (
        {"top": HELD},
        r"line 13: use case count: .*cannot be sent to executors: .*lock.* when they are used",
    ),
    "an exit on executors alone": (
        {"top": ALONE.format(does="raise SystemExit(4)")},
        r"line 14: use case count cannot be unpacked as executors do it: SystemExit: 4; it has to",
    ),
    "a crash on executors alone": (
        {"top": ALONE.format(does="import ctypes; ctypes.string_at(0)")},
        r"line 14: use case count is unpacked as .*, at .*use_cases.py, line 8: .*\(SIGSEGV\)",
    ),
    "an endless import on executors alone": (
        {"top": ALONE.format(does="import threading; threading.Event().wait()"), "limit_s": 8.0},
        r"line 14: use case count is unpacked .*use_cases.py, line 8: not done within 8 s",
    ),
    "a sink's own error": (
        {"prepare": "raise ValueError('no')"},
        r"line 11: use case count: its sink Mine cannot be prepared .*line 9\): ValueError: no; m",
    ),
    "a sink's connection that nobody named": (
        {"prepare": "site.connections.server('histroy')"},
        r"line 11: use case count: there is no connection 'histroy': 'connections:' in the YAML",
    ),
    "a sink that exits": (
        {"prepare": "raise SystemExit"},
        r"use case count: its sink Mine cannot be prepared .*SystemExit",
    ),
    "a sink that hangs": (
        {"prepare": "os.read(os.pipe()[0], 1)", "limit_s": 5.0},
        r"use case count: its sink Mine is prepared, at .*line 9: not done within 5 s",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_not_is_refused(check, case):
    given, told = BAD[case]
    with pytest.raises(ConfigError, match=told):
        check(**given)
    for child in psutil.Process().children(recursive=True):
        assert "headrace.deploying.checking_process" not in child.cmdline()


@pytest.mark.parametrize("kind", ["ValueError", "ConfigError", "SinkUnavailable"])
def test_what_a_refusal_quotes_is_within_bounds(check, kind):
    with pytest.raises((ConfigError, SinkUnavailable), match="characters left out") as refused:
        check(
            top="from headrace.errors import ConfigError",
            prepare=f"raise {kind}('x' * 1_000_000)",
        )
    assert len(str(refused.value)) < 22_000


def test_what_a_module_writes_between_the_answers_is_none(check):
    writes = """
for fd in range(3, 20):
    try:
        os.write(fd, b"{no answer\\n")
    except OSError:
        pass
"""
    assert "count" in check(top=writes)
    with pytest.raises(ConfigError, match="the process died"):
        check(top=f"{writes}os._exit(3)")


TERMS = '{"guarantee": "exactly-once", "order": "lane", "form": "slice", "sink": "", "intends": 0}'


@pytest.mark.parametrize(
    "answer",
    [
        '{"evil": 1}',
        "[1]",
        '{"evil": {"topic": "t", "bad_record": "no", "terms": {}}}',
        f'{{"evil": {{"topic": "t", "bad_record": "fail", "terms": {TERMS}, "buckets": 9}}}}',
        f'{{"evil": {{"topic": "t", "bad_record": "fail", "terms": {TERMS}, "buckets": "1"}}}}',
        (
            f'{{"evil": {{"topic": "t", "bad_record": "fail", "terms": {TERMS}, "buckets": 1, '
            '"restart": {"after_s": 0, "max_age_s": null}}}'
        ),
    ],
)
def test_an_answer_of_another_shape_is_refused_by_name(check, answer):
    forged = f'{{"use_cases": {answer}}}'
    top = f"""
for number in range(3, 20):
    try:
        os.write(number, {forged!r}.encode() + b"\\n")
    except OSError:
        pass
os._exit(0)"""
    with pytest.raises(ConfigError, match=r"the check of .*use_cases\.py answered nonsense"):
        check(top=top)


def test_a_process_that_the_module_leaves_behind_is_not_waited_for(check):
    assert list(check(top=FORKS)) == ["count"]


def test_a_sink_that_does_not_answer_may_be_tried_again(check):
    with pytest.raises(SinkUnavailable, match="use case count: not now"):
        check(prepare="raise SinkUnavailable('not now')")


OWN_ERROR = """\
class Away(SinkUnavailable):
    def __init__(self, host, port):
        super().__init__(f"{host}:{port} is away")
"""


def test_what_a_sink_raises_of_its_own_is_told_with_its_text(check):
    with pytest.raises(SinkUnavailable, match="use case count: db:5432 is away"):
        check(top=OWN_ERROR, prepare="raise Away('db', 5432)")


@pytest.mark.parametrize("at", [None, "shop"])
def test_a_server_of_the_connections_that_does_not_answer_is_told_apart(check, at):
    with pytest.raises(SinkUnavailable, match="not now") as refused:
        check(prepare=f"object.__setattr__(self, 'at', {at!r}); raise SinkUnavailable('not now')")
    assert isinstance(refused.value, ConnectionDown) == (at is not None)


STATE = """\
import pyarrow as pa
from headrace import StateTable
SEEN = StateTable("seen", pa.schema([("who", pa.{}())]), key="who")"""


def test_state_that_it_could_not_read_is_refused_before_it_is_deployed(check, tmp_path):
    order = '"key", state=[SEEN]'
    assert "count" in check(top=STATE.format("binary"), order=order), "no store is there yet"
    with closing(open_store(f"sqlite:///{tmp_path}/store.db")) as store:
        store.registry.deploy(Deployment("count", "m.py", "0" * 64, "{tenant}.visits"))
        store.registry.add_tenant(Tenant("acme"))
        lane = LaneId("count", "acme", "acme.visits[0]#1/2")
        store.progress.start_lanes([LaneStart(lane.stream, "id", {lane.name: place_at(0)})])
        epoch = store.membership.hold([lane.stream])[lane.stream]
        moves = [[Move(lane, place_at(0), place_at(1), epoch)]]
        rows = {StateKey("seen", b"ada"): b'{"who":"ada"}'}
        kept = StateChanges(lane, rows, StateSize(1, 16))
        assert store.positions.advance_groups(moves, [kept]) == [True]
    assert "count" in check(top=STATE.format("string"), order=order)
    told = r"line 13: use case count: state table 'seen': a row that is kept does not fit"
    with pytest.raises(ConfigError, match=told):
        check(top=STATE.format("binary"), order=order)
    assert "count" in check(top=STATE.format("binary"), order=order, connections=None)


def test_what_is_not_to_be_deployed_is_neither_packed_nor_prepared(check):
    bad = {"prepare": "raise ValueError('no')"}
    for more in ({"only": frozenset({"other"})}, {"but": frozenset({"count"})}):
        assert list(check(**bad, **more)) == ["count"]
    assert list(check(**bad, connections=None)) == ["count"]


def test_credentials_are_in_no_command_line(check, monkeypatch, tmp_path):
    seen = []
    real = subprocess.Popen

    def popen(command, **more):
        seen.append((command, more["env"]))
        return real(command, **more)

    monkeypatch.setattr("headrace.deploying.checking.subprocess.Popen", popen)
    secrets = {"smtp_url": "smtp://u:word@h", "registry": {"basic.auth.user.info": "u:word"}}
    check(connections=Connections({}, f"sqlite:///{tmp_path}/x.db", **secrets), but={"count"})
    assert "word" not in str(seen)


WORKER = """
import sys, pathlib, cloudpickle
made = cloudpickle.loads(pathlib.Path(sys.argv[1]).read_bytes())
print(made(None, None))
"""


CACHED = "import functools\n@functools.cache\ndef answer():\n    return 5"


@pytest.mark.parametrize(
    ("top", "answer"), [("import helper", "helper.answer()"), (CACHED, "answer()")]
)
def test_another_process_needs_no_file(tmp_path, top, answer):
    (tmp_path / "helper.py").write_text("def answer():\n    from deeper import y\n    return y\n")
    (tmp_path / "deeper.py").write_text("y = 5\n")
    (tmp_path / "use_cases.py").write_text(
        SOURCE.format(top=top, prepare="pass", answer=answer, order='"lane"')
    )
    place = find_module("use_cases.py", tmp_path)
    use_case = load_code(read_code(place), place.path).use_cases["count"]
    for path in tmp_path.glob("*.py"):
        path.unlink()
    (tmp_path / "code").write_bytes(code_of(use_case))
    command = [sys.executable, "-P", "-c", WORKER, str(tmp_path / "code")]
    done = subprocess.run(command, cwd=Path("/"), capture_output=True, text=True, check=False)
    assert done.stdout == "5\n", done.stderr


#: in C, which lets no other thread go on meanwhile; more than a second
HOLDS = "import re\nre.match('(a+)+$', 'a' * 26 + 'b')"
#: as long in Python
COMPUTES = "import time\nwhile time.process_time() < 3.0:\n    pass"
#: pickled with the use case, as part of its sink
PACKED_SLOWLY = """\
class SqlTable(SqlTable):
    def __reduce_ex__(self, protocol):
        re.match('(a+)+$', 'a' * 26 + 'b')
        return super().__reduce_ex__(protocol)"""
HELD_BY = {
    "an import": ({"top": HOLDS}, r"use_cases.py, line 6: .*held for \d.* when it is imported.*"),
    "a sink": (
        {"prepare": "import re; re.match('(a+)+$', 'a' * 26 + 'b')"},
        r"use_cases.py, line 9: .*held for \d.* when its sink is prepared.* use case count",
    ),
    "what is packed": (
        {"top": f"import re\n{PACKED_SLOWLY}"},
        r"use_cases.py, line 8: .*held for \d.* when it is packed",
    ),
}


@pytest.mark.parametrize("case", ["an import", "a sink", "what is packed"])
def test_what_would_hold_the_turns_of_a_driver_is_refused_by_its_line(check, case):
    given, told = HELD_BY[case]
    with pytest.raises(ConfigError, match=told) as refused:
        check(**given, most_held_s=0.4, limit_s=60.0)
    assert "no driver takes a turn" in str(refused.value)
    assert "functools.cache" in str(refused.value)


@pytest.mark.parametrize("top", [COMPUTES, "import time\ntime.sleep(1.5)"])
def test_what_takes_long_and_lets_other_threads_go_on_is_fit(check, top):
    assert check(top=top, most_held_s=0.5, limit_s=60.0)


def test_what_a_function_would_find_on_a_path_of_its_module_alone_is_refused(check, tmp_path):
    """In a worker the path is put back by then."""
    place = tmp_path.with_name(f"{tmp_path.name}-env") / "site-packages"
    place.mkdir(parents=True)
    (place / "timing.py").write_text("x = 1\n")
    path = PATH.format(folder=place)
    with pytest.raises(ConfigError, match=r"timing is imported by a function .* top of the module"):
        check(top=f"{path}def later():\n    import timing")
    assert check(top=f"{path}import timing\ndef later():\n    import timing")


def test_what_a_module_sets_for_its_process_is_told_to_whoever_deploys(check, capfd):
    check()
    assert "put back" not in capfd.readouterr().err
    check(top="import decimal, socket\ndecimal.getcontext().prec = 9\nsocket.setdefaulttimeout(9)")
    told = capfd.readouterr().err
    assert "use_cases.py sets decimal.getcontext, socket.setdefaulttimeout when it is" in told
    assert "put back after that; set it in the function that needs it" in told


WATCHED = """\
import faulthandler, signal
faulthandler.dump_traceback_later(1000, exit=True)
signal.setitimer(signal.ITIMER_PROF, 1000)
"""


def test_what_would_end_the_process_some_time_after_the_import_is_told_as_well(check, capfd):
    check(top=WATCHED)
    told = capfd.readouterr().err
    assert "use_cases.py sets faulthandler.dump_traceback_later, signal.setitimer when it" in told


FEWER_FOR_GOOD = "import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (200, 200))"


def test_what_an_import_sets_for_good_is_refused_by_its_name(check):
    told = r"use_cases.py sets resource.setrlimit when it is imported, and that cannot be put back"
    with pytest.raises(ConfigError, match=told):
        check(top=FEWER_FOR_GOOD)


def test_what_a_sink_sets_when_it_is_prepared_is_told_as_well(check, capfd):
    check(prepare="import socket; socket.setdefaulttimeout(9)")
    told = capfd.readouterr().err
    assert "use case count sets socket.setdefaulttimeout when its sink is prepared: that is" in told


def folder_at(tmp_path, name):
    """A folder below the use case, or beside it."""
    place = tmp_path / name if name == "lib" else tmp_path.with_name(f"{tmp_path.name}-{name}")
    place.mkdir()
    return place


PATH = "import sys\nsys.path.insert(0, r'{folder}')\n"


@pytest.mark.parametrize("folder", ["lib", "elsewhere"])
@pytest.mark.parametrize("line", ["import scoring", "def later():\n    from scoring import score"])
def test_what_is_imported_from_a_folder_that_is_no_part_of_a_version_is_refused(
    check, tmp_path, folder, line
):
    place = folder_at(tmp_path, folder)
    (place / "scoring.py").write_text("def score():\n    return 1\n")
    with pytest.raises(ConfigError, match="scoring is imported from") as refused:
        check(top=PATH.format(folder=place) + line)
    assert ("write 'import lib.scoring'" in str(refused.value)) == (folder == "lib")
    assert "install it as a package" in str(refused.value)


SPEC = """
from importlib import util
spec = util.spec_from_file_location("any", FILE)
spec.loader.exec_module(util.module_from_spec(spec))
"""


@pytest.mark.parametrize("call", [SPEC, "import runpy\nrunpy.run_path(FILE)"])
@pytest.mark.parametrize("folder", ["lib", "elsewhere"])
def test_a_file_that_a_call_runs_is_refused(check, tmp_path, call, folder):
    place = folder_at(tmp_path, folder) / "rules.py"
    place.write_text("RATE = 2\n")
    with pytest.raises(ConfigError, match=rf"{place} is run by a call, where") as refused:
        check(top=f"FILE = r'{place}'\n{call}")
    assert ("write 'import lib.rules'" in str(refused.value)) == (folder == "lib")
    assert "install it as a package" in str(refused.value)


def test_a_zip_that_a_call_runs_is_refused(check, tmp_path):
    place = tmp_path / "rules.zip"
    with ZipFile(place, "w") as packed:
        packed.writestr("__main__.py", "RATE = 2\n")
    with pytest.raises(ConfigError, match=r"rules\.zip/__main__\.py is run by a call, where"):
        check(top=f"import runpy\nrunpy.run_path(r'{place}')")


def test_what_libraries_run_and_what_is_no_python_is_no_import(check, tmp_path):
    (tmp_path / "page.html").write_text("made = 1")
    check(
        top=f"exec(compile('made = 1', r'{tmp_path}/page.html', 'exec'))\n"
        "import runpy, this\nrunpy.run_path(this.__file__)\n"
        "try:\n    import absent\nexcept ImportError:\n    pass",
    )


@pytest.mark.parametrize(("folder", "fits"), [("lib", False), ("elsewhere", True)])
def test_what_the_environment_names_is_installed_but_for_what_lies_below_the_use_case(
    check, tmp_path, monkeypatch, folder, fits
):
    place = folder_at(tmp_path, folder)
    (place / "scoring.py").write_text("def score():\n    return 1\n")
    monkeypatch.setenv("PYTHONPATH", str(place), prepend=os.pathsep)
    with nullcontext() if fits else pytest.raises(ConfigError, match=r"import lib\.scoring"):
        check(top="import scoring")


@pytest.mark.parametrize("given", ["above", "tracer", "as a module of Python"])
def test_no_path_and_no_hook_makes_a_folder_of_sources_an_installation(
    check, tmp_path, monkeypatch, given
):
    name = "profile" if given == "as a module of Python" else "scoring"
    place = folder_at(tmp_path, "lib")
    (place / f"{name}.py").write_text("def score():\n    return 1\n")
    if given == "above":
        monkeypatch.setenv("PYTHONPATH", str(tmp_path.parent), prepend=os.pathsep)
    top = PATH.format(folder=place)
    if given == "tracer":
        top += (
            "from importlib.machinery import PathFinder\n"
            "class Tracer:\n"
            "    def find_spec(self, name, path, target=None):\n"
            "        return PathFinder.find_spec(name, path, target)\n"
            "sys.meta_path.insert(0, Tracer())\n"
        )
    with pytest.raises(ConfigError, match=f"{name} is imported from"):
        check(top=f"{top}import {name}")


def test_what_the_module_takes_from_a_zip_of_its_own_is_refused(check, tmp_path):
    place = tmp_path / "lib.zip"
    with ZipFile(place, "w") as packed:
        packed.writestr("scoring.py", "def score():\n    return 1\n")
    with pytest.raises(ConfigError, match=r"scoring is imported from .*lib\.zip"):
        check(top=PATH.format(folder=place) + "import scoring")


def test_a_folder_that_a_local_package_takes_in_is_no_part_of_it(check, tmp_path):
    (tmp_path / "plug").mkdir()
    (tmp_path / "plug" / "__init__.py").write_text(f"__path__.append(r'{tmp_path / 'more'}')\n")
    folder_at(tmp_path, "more").rename(tmp_path / "more")
    (tmp_path / "more" / "extra.py").write_text("rate = 1\n")
    with pytest.raises(ConfigError, match=r"plug\.extra is imported from .*import more\.extra"):
        check(top="from plug import extra")


def test_a_package_in_a_namespace_that_is_found_by_a_hook_is_installed(check, tmp_path):
    """As setuptools does for ``package-dir``: the path knows the namespace alone."""
    (tmp_path / "paths" / "ours").mkdir(parents=True)
    place = tmp_path / "tools"
    place.mkdir()
    (place / "__init__.py").write_text("rate = 1\n")
    (place / "deep.py").write_text("rate = 1\n")
    top = f"""\
import importlib.util, sys
sys.path.append(r"{tmp_path / "paths"}")
class Hook:
    def find_spec(self, name, path, target=None):
        if name == "ours.tools":
            return importlib.util.spec_from_file_location(
                name, r"{place / "__init__.py"}", submodule_search_locations=[r"{place}"]
            )
sys.meta_path.append(Hook())
import ours.tools
from ours.tools import deep"""
    assert list(check(top=top)) == ["count"]


def test_what_a_library_puts_among_the_modules_is_no_source(check):
    """As torch does: a name of a file that is none, and a module that answers nothing."""
    top = """\
import sys, types
class Lazy(types.ModuleType):
    def __getattr__(self, name):
        raise ImportError("not here")
sys.modules["ops"] = types.ModuleType("ops")
sys.modules["ops"].__file__ = "_ops.py"
sys.modules["lazy"] = Lazy("lazy")"""
    assert list(check(top=top)) == ["count"]


def test_a_package_that_is_found_by_a_hook_is_installed(check, tmp_path):
    place = tmp_path / "src"
    place.mkdir()
    (place / "scoring.py").write_text("")
    top = f"""\
import importlib.util, sys
class Hook:
    def find_spec(self, name, path, target=None):
        if name == "scoring":
            return importlib.util.spec_from_file_location(name, r"{place / "scoring.py"}")
sys.meta_path.append(Hook())
import scoring"""
    check(top=top)


def test_a_module_may_hold_on_to_what_cannot_be_pickled(check):
    """A worker imports it, as it does the modules beside it."""
    assert list(check(top="import threading\nlock = threading.Lock()", answer="lock")) == ["count"]


def test_what_the_checking_process_has_and_no_worker_is_not_counted_on(check):
    top = """\
import sys
if "headrace.deploying.checking_process" in sys.orig_argv:
    sys.modules["made_here"] = sys
import made_here"""
    with pytest.raises(ConfigError, match=r"line 14: .* as executors do it: ModuleNotFoundError"):
        check(top=top)


def test_what_asks_a_registry_is_refused_where_none_is_configured(check, tmp_path):
    asks = {"prepare": "super().prepare(site)\n    needs_registry = True"}
    with pytest.raises(ConfigError, match=r"use case count: .*say registry: schema\.registry\.url"):
        check(**asks)
    # It need not answer now.
    registry = {"schema.registry.url": "http://127.0.0.1:9"}
    url = f"sqlite:///{tmp_path}/store.db"
    given = Connections({}, url, warehouse=str(tmp_path), registry=registry)
    assert list(check(**asks, connections=given)) == ["count"]


def test_a_module_may_put_something_else_in_the_place_of_what_answers_are_made_by(check):
    top = "import json\nmade = json.dumps\njson.dumps = lambda *a, **more: 'x' + made(*a, **more)"
    assert list(check(top=top)) == ["count"]
