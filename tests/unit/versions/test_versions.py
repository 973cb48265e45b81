"""A version is a module with all local ones that it imports; two of them share nothing."""

import importlib
import os
import subprocess
import sys
import threading

import cloudpickle
import pytest
from pyspark import cloudpickle as spark_pickle

from headrace.errors import ConfigError
from headrace.process.signals import ending_on_signals
from headrace.spark.frames import sent_by_value
from headrace.spark.shipping import code_of
from headrace.versions import find_module, load_code, read_code
from headrace.versions.code import sha256
from headrace.versions.loading import nothing_imported

SOURCE = """\
from headrace import use_case
from headrace.sinks import ParquetFiles
{imports}

@use_case(topic="{{tenant}}.visits", sink=ParquetFiles("x"), name="{name}")
def handler(table, context):
    {before}
    return {answer}
"""


def write(path, name="count", answer="1", imports="", before="pass"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(SOURCE.format(name=name, answer=answer, imports=imports, before=before))
    return path


def load(folder, module="use_cases.py"):
    place = find_module(module, folder)
    return load_code(read_code(place), place.path)


def on_a_worker(use_case):
    """The use case as another process would have it: nothing local can be imported plainly."""
    code = code_of(use_case)
    with nothing_imported():
        made = cloudpickle.loads(code)
        return made(None, None)


def helper(folder, answer):
    (folder / "helper.py").write_text(f"def answer():\n    return {answer}\n")


def test_a_changed_file_is_loaded_beside_the_old_version(tmp_path):
    write(tmp_path / "use_cases.py", answer="1")
    old = load(tmp_path)
    path = write(tmp_path / "use_cases.py", answer="2")
    new = load(tmp_path)
    assert old.use_cases["count"](None, None) == 1
    assert new.use_cases["count"](None, None) == 2
    assert old.code.digest != new.code.digest == sha256(path.read_bytes())


IMPORTS = {
    "import helper": "helper.answer()",
    "import helper as other": "other.answer()",
    "from helper import answer": "answer()",
    "from helper import *": "answer()",
}


@pytest.mark.parametrize("lazily", [False, True], ids=["at its top", "when it runs"])
@pytest.mark.parametrize("imports", [text for text in IMPORTS if "*" not in text])
def test_each_version_has_its_own_helper_on_driver_and_worker(tmp_path, imports, lazily):
    where = {"before": imports} if lazily else {"imports": imports}
    write(tmp_path / "use_cases.py", answer=IMPORTS[imports], **where)
    versions = []
    for answer in (1, 2):
        helper(tmp_path, answer)
        versions.append(load(tmp_path))
    old, new = versions
    assert old.code.digest != new.code.digest
    for use, answer in ((old, 1), (new, 2), (old, 1)):
        assert use.use_cases["count"](None, None) == answer
        assert on_a_worker(use.use_cases["count"]) == answer
    assert "helper" not in sys.modules
    assert str(tmp_path) not in sys.path


def test_a_star_import_is_of_the_version_too(tmp_path):
    write(tmp_path / "use_cases.py", answer="answer()", imports="from helper import *")
    helper(tmp_path, 5)
    assert load(tmp_path).use_cases["count"](None, None) == 5


def test_a_helper_may_hold_on_to_what_cannot_be_pickled(tmp_path):
    write(tmp_path / "use_cases.py", answer="helper.answer()", imports="import helper")
    (tmp_path / "helper.py").write_text(
        "import threading\nlock = threading.Lock()\n"
        "def answer():\n    with lock:\n        return 3\n"
    )
    assert on_a_worker(load(tmp_path).use_cases["count"]) == 3


@pytest.mark.parametrize("where", ["use_cases.py", "helper.py"])
def test_what_goes_by_its_name_is_found_by_that_on_a_worker(tmp_path, where):
    cached = "import functools\n@functools.cache\ndef cached():\n    return 6\n"
    imports = "from helper import cached" if where == "helper.py" else cached
    write(tmp_path / "use_cases.py", answer="cached()", imports=imports)
    (tmp_path / "helper.py").write_text(cached)
    assert on_a_worker(load(tmp_path).use_cases["count"]) == 6


def test_what_helpers_import_is_of_the_version_too(tmp_path):
    write(tmp_path / "use_cases.py", answer="helper.answer()", imports="import helper")
    (tmp_path / "helper.py").write_text("from deeper import answer\n")
    digests = set()
    for answer in (1, 2):
        (tmp_path / "deeper.py").write_text(f"def answer():\n    return {answer}\n")
        made = load(tmp_path)
        digests.add(made.code.digest)
        assert on_a_worker(made.use_cases["count"]) == answer
    assert len(digests) == 2


DATACLASS = """\
from dataclasses import dataclass
import pickle, sys, typing
@dataclass(frozen=True)
class Visit:
    page: str
@dataclass
class Seen:
    visit: "Visit"
"""
#: what makes the module, and what its handler answers, which says nothing of a version's name
MADE = {
    "a hint": (DATACLASS, "typing.get_type_hints(Seen)['visit'] is Visit", True),
    "a pickle": (DATACLASS, "pickle.loads(pickle.dumps(Visit('/'))) == Visit('/')", True),
    "itself": (DATACLASS, "sys.modules[__name__].Visit is Visit", True),
}


@pytest.mark.parametrize("case", MADE)
def test_what_the_module_makes_is_on_a_worker_what_it_is_on_the_driver(tmp_path, case):
    imports, answer, expected = MADE[case]
    write(tmp_path / "use_cases.py", answer=answer, imports=imports)
    use_case = load(tmp_path).use_cases["count"]
    assert use_case(None, None) == on_a_worker(use_case) == expected


STRUCT = """\
import msgspec
class Visit(msgspec.Struct, frozen=True):
    page: str
"""
WORKER = """
import pathlib, sys, cloudpickle
print(cloudpickle.loads(pathlib.Path(sys.argv[1]).read_bytes())(None, None))
"""


def test_a_struct_has_its_fields_in_a_process_that_has_never_seen_it(tmp_path):
    """One that has seen it is given the class that it has, whatever was sent."""
    asked = (
        "msgspec.json.encode(Visit('/'))",
        "len({Visit('/'), Visit('/')})",
        'msgspec.json.decode(b\'{"page":"/"}\', type=Visit).page',
    )
    write(tmp_path / "use_cases.py", answer=f"({', '.join(asked)})", imports=STRUCT)
    (tmp_path / "code").write_bytes(code_of(load(tmp_path).use_cases["count"]))
    command = [sys.executable, "-P", "-c", WORKER, str(tmp_path / "code")]
    done = subprocess.run(command, cwd="/", capture_output=True, text=True, check=False)
    assert done.stdout.strip() == str((b'{"page":"/"}', 1, "/")), done.stderr


ENUM = """\
import enum, helper
class Kind(enum.Enum):
    PAID = 1
"""
IS_PAID = """\
def price(kind):
    from use_cases import Kind
    return 10 if kind is Kind.PAID else 0
"""
ERROR = """\
import helper
class NotFound(Exception):
    pass
def found():
    try:
        helper.look()
    except NotFound:
        return "none"
"""
DISPATCH = """\
import functools
@functools.singledispatch
def kind(x):
    return "other"
import helper
"""
ADDS = """\
from use_cases import kind
@kind.register
def _(x: int):
    return "int"
"""
RAISES = "def look():\n    import use_cases\n    raise use_cases.NotFound\n"
#: the module, what its handler answers, its helper
CIRCLES = {
    "an enum": (ENUM, "helper.price(Kind.PAID)", IS_PAID, 10),
    "an error": (ERROR, "found()", RAISES, "none"),
    "a function that helpers add to": (DISPATCH, "kind(1)", ADDS, "int"),
}


@pytest.mark.parametrize("case", CIRCLES)
def test_a_helper_that_imports_the_module_finds_the_same_on_a_worker(tmp_path, case):
    imports, answer, text, expected = CIRCLES[case]
    write(tmp_path / "use_cases.py", answer=answer, imports=imports)
    (tmp_path / "helper.py").write_text(text)
    use_case = load(tmp_path).use_cases["count"]
    assert use_case(None, None) == on_a_worker(use_case) == expected


PLAIN = [
    "int.from_bytes(os.urandom(8), 'big')",
    "os.urandom(8)",
    "time.time_ns()",
    "datetime.now(timezone.utc)",
    "uuid.uuid4()",
    "{'now': [time.perf_counter()], 'zone': (None, 1.5, frozenset({os.urandom(2)}))}",
]


@pytest.mark.parametrize("value", PLAIN)
def test_a_plain_value_that_comes_out_otherwise_each_time_is_the_drivers_everywhere(
    tmp_path, value
):
    imports = f"import os, time, uuid\nfrom datetime import datetime, timezone\nVALUE = {value}"
    write(tmp_path / "use_cases.py", answer="VALUE", imports=imports)
    use_case = load(tmp_path).use_cases["count"]
    assert on_a_worker(use_case) == use_case(None, None)


def test_what_a_module_read_beside_itself_stays_what_it_was_when_the_file_is_written_anew(tmp_path):
    imports = "from pathlib import Path\nPRICES = Path(__file__).with_name('t').read_text().split()"
    write(tmp_path / "use_cases.py", answer="PRICES", imports=imports)
    (tmp_path / "t").write_text("7 8")
    use_case = load(tmp_path).use_cases["count"]
    (tmp_path / "t").write_text("9")
    assert on_a_worker(use_case) == ["7", "8"]


def test_what_is_equal_stays_what_helpers_hold_too(tmp_path):
    imports = "RULES = {}\nimport helper"
    write(tmp_path / "use_cases.py", answer="helper.added() is RULES", imports=imports)
    (tmp_path / "helper.py").write_text(
        "from use_cases import RULES\ndef added():\n    return RULES\n"
    )
    assert on_a_worker(load(tmp_path).use_cases["count"]) is True


HOLDS = """\
held = []
held.append(held)
class Odd(int):
    def __eq__(self, other):
        raise KeyError
"""


@pytest.mark.parametrize("value", ["held", "Odd(1)", "[Odd(1)]", "open", "{1: held}"])
def test_what_is_not_plain_each_worker_makes_for_itself(tmp_path, value):
    imports = f"{HOLDS}\nVALUE = {value}"
    write(tmp_path / "use_cases.py", answer="type(VALUE).__name__", imports=imports)
    use_case = load(tmp_path).use_cases["count"]
    assert on_a_worker(use_case) == use_case(None, None)


def test_what_a_worker_counts_goes_on_when_another_use_case_of_the_module_comes(tmp_path):
    imports = "COUNT = 0\ndef counted():\n    global COUNT\n    COUNT += 1\n    return COUNT\n"
    other = SOURCE.format(name="other", answer="counted()", imports="", before="pass")
    path = write(tmp_path / "use_cases.py", answer="counted()", imports=imports)
    path.write_text(path.read_text() + other.replace("def handler", "def another"))
    use_cases = load(tmp_path).use_cases
    first, second = code_of(use_cases["count"]), code_of(use_cases["other"])
    with nothing_imported():
        assert cloudpickle.loads(first)(None, None) == 1
        assert cloudpickle.loads(second)(None, None) == 2


def test_a_use_case_that_is_not_made_on_a_worker_is_missed_by_name(tmp_path, monkeypatch):
    monkeypatch.setenv("HEADRACE_TEST_NAME", "count")
    path = write(tmp_path / "use_cases.py", name="X", imports="import os")
    path.write_text(path.read_text().replace('"X"', 'os.environ["HEADRACE_TEST_NAME"]'))
    use_case = load(tmp_path).use_cases["count"]
    monkeypatch.setenv("HEADRACE_TEST_NAME", "other")
    with pytest.raises(LookupError, match=r"use_cases.py makes no use case count when it is"):
        on_a_worker(use_case)


PACKAGES = [
    ("flows.score", "from . import rules", "rules.answer()"),
    ("flows/score.py", "from .rules import answer", "answer()"),
    ("flows/score.py", "import flows.rules", "flows.rules.answer()"),
    ("flows/score.py", "from flows import rules as r", "r.answer()"),
    ("flows/score.py", "import rules", "rules.answer()"),
    ("./flows/score.py", "from .deep.er import answer", "answer()"),
]


@pytest.mark.parametrize(("module", "imports", "answer"), PACKAGES)
def test_a_module_in_a_package_works(tmp_path, module, imports, answer):
    write(tmp_path / "flows" / "score.py", answer=answer, imports=imports)
    (tmp_path / "flows" / "__init__.py").write_text("")
    (tmp_path / "flows" / "rules.py").write_text("def answer():\n    return 7\n")
    (tmp_path / "flows" / "deep").mkdir()
    (tmp_path / "flows" / "deep" / "er.py").write_text("from ..rules import answer\n")
    use_case = load(tmp_path, module).use_cases["count"]
    assert use_case(None, None) == on_a_worker(use_case) == 7
    assert "flows" not in sys.modules


def test_a_package_may_be_the_module(tmp_path):
    write(
        tmp_path / "flows" / "__init__.py", answer="answer()", imports="from .rules import answer"
    )
    (tmp_path / "flows" / "rules.py").write_text("def answer():\n    return 7\n")
    use_case = load(tmp_path, "flows").use_cases["count"]
    assert use_case(None, None) == on_a_worker(use_case) == 7


def test_a_use_case_may_come_from_a_local_module(tmp_path):
    write(tmp_path / "flows.py", answer="answer()", imports="from helper import answer")
    helper(tmp_path, 4)
    (tmp_path / "use_cases.py").write_text("from flows import handler\n")
    assert on_a_worker(load(tmp_path).use_cases["count"]) == 4


def test_equal_sources_of_another_folder_read_what_lies_beside_them(tmp_path):
    imports = "from pathlib import Path\nPRICE = Path(__file__).with_name('price').read_text()"
    found = []
    for release in ("release-7", "release-8"):
        write(tmp_path / release / "use_cases.py", answer="PRICE", imports=imports)
        (tmp_path / release / "price").write_text(release)
        found.append(load(tmp_path / release))
    assert found[0].code.digest == found[1].code.digest
    for made, release in zip(found, ("release-7", "release-8"), strict=True):
        use_case = made.use_cases["count"]
        assert use_case(None, None) == on_a_worker(use_case) == release


@pytest.mark.parametrize("file", ["statistics.py", "statistics/__init__.py"])
@pytest.mark.parametrize(
    "imports",
    ["import statistics", "def late():\n    from statistics import rates", "import rules"],
)
def test_a_file_named_as_a_module_of_pythons_own_is_refused(tmp_path, file, imports):
    write(tmp_path / "use_cases.py", imports=imports)
    (tmp_path / "rules.py").write_text("import statistics\n")
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_text("def rates(x):\n    return x\n")
    told = rf"line \d: statistics is a module of Python's own, .*{tmp_path}/{file} .*: rename it"
    with pytest.raises(ConfigError, match=told):
        load(tmp_path)


def test_a_file_named_as_a_module_of_pythons_own_may_lie_there_if_nothing_means_it(tmp_path):
    write(tmp_path / "use_cases.py", answer="json.dumps(1)", imports="import json, time")
    for name in ("statistics.py", "time.py"):  # that one of Python's own comes before any folder
        (tmp_path / name).write_text("raise SystemExit\n")
    assert load(tmp_path).use_cases["count"](None, None) == "1"


@pytest.mark.parametrize("folder", [".", "flows"])
def test_in_a_package_pythons_own_module_and_that_of_the_package_are_two(tmp_path, folder):
    imports = "import statistics\nfrom flows import statistics as ours"
    answer = "(statistics.mean([2]), ours.MINE)"
    write(tmp_path / "flows" / "score.py", imports=imports, answer=answer)
    (tmp_path / "flows" / "__init__.py").touch()
    (tmp_path / "flows" / "statistics.py").write_text("MINE = 3\n")
    module = "score.py" if folder == "flows" else "flows/score.py"
    assert on_a_worker(load(tmp_path / folder, module).use_cases["count"]) == (2, 3)


def test_data_beside_the_module_is_found(tmp_path):
    write(
        tmp_path / "use_cases.py",
        answer="TABLE",
        imports="from pathlib import Path\nTABLE = Path(__file__).with_name('t').read_text()",
    )
    (tmp_path / "t").write_text("table")
    assert on_a_worker(load(tmp_path).use_cases["count"]) == "table"


@pytest.mark.parametrize(
    "answer",
    [
        "resources.files(parts).joinpath('t').read_text()",
        "resources.files('parts.deep'.replace('parts', parts.__name__)).joinpath('t').read_text()",
        "pkgutil.get_data(parts.__name__, 't').decode()",
        "pkgutil.get_data(parts.deep.leaf.__name__, 't').decode()",
        "pkgutil.get_data(__name__, 'parts/t').decode()",
    ],
)
def test_data_is_found_beside_the_module_as_pythons_own_library_finds_it(tmp_path, answer):
    imports = "import parts.deep.leaf, pkgutil\nfrom importlib import resources"
    write(tmp_path / "use_cases.py", answer=answer, imports=imports)
    for folder in (tmp_path / "parts", tmp_path / "parts" / "deep"):
        folder.mkdir()
        (folder / "__init__.py").touch()
        (folder / "t").write_text("table")
    (tmp_path / "parts" / "deep" / "leaf.py").touch()
    made = load(tmp_path).use_cases["count"]
    assert made(None, None) == on_a_worker(made) == "table"


def test_what_a_handler_gives_to_spark_goes_by_value(tmp_path):
    write(tmp_path / "use_cases.py", answer="twice", imports="from helper import twice")
    (tmp_path / "helper.py").write_text(
        "def twice(x):\n    return same(x) * 2\n\ndef same(x):\n    return x\n"
    )
    use_case = load(tmp_path).use_cases["count"]
    with sent_by_value(use_case):
        code = spark_pickle.dumps(use_case(None, None))
    with nothing_imported():
        assert spark_pickle.loads(code)(4) == 8


def test_spark_forgets_what_goes_by_value_with_the_last_wave_of_its_version(tmp_path):
    before = spark_pickle.list_registry_pickle_by_value()
    versions = []
    for number in range(40):
        write(tmp_path / "use_cases.py", answer=f"{number}")
        versions.append(load(tmp_path).use_cases["count"])
        with sent_by_value(versions[-1]):
            pass
    assert spark_pickle.list_registry_pickle_by_value() == before
    with sent_by_value(versions[0]):
        with pytest.raises(ZeroDivisionError), sent_by_value(versions[0]):
            _ = 1 / 0
        there = spark_pickle.list_registry_pickle_by_value() - before
        assert there == {versions[0].module.partition(".")[0]}, "another wave of it goes on"
    assert spark_pickle.list_registry_pickle_by_value() == before


WITH_TIMED = """\
from headrace import use_case
from headrace.sinks import ParquetFiles
from timing import Timed
import helper

def inner(table, context):
    return helper.answer()

made = use_case(topic="{tenant}.visits", sink=ParquetFiles("x"), name="count")
count = made(Timed(inner))
"""
INSTALLED = """\
class Timed:
    def __init__(self, inner):
        self.inner = inner

    def __call__(self, table, context):
        return self.inner(table, context)
"""


def timed(folder, monkeypatch):
    """A use case whose handler is an object of something installed, around a local function."""
    (folder / "site-packages").mkdir()
    (folder / "site-packages" / "timing.py").write_text(INSTALLED)
    monkeypatch.syspath_prepend(folder / "site-packages")
    (folder / "use_cases.py").write_text(WITH_TIMED)
    helper(folder, 9)
    return load(folder).use_cases["count"]


def test_a_handler_made_by_something_installed_brings_its_version_along(tmp_path, monkeypatch):
    assert on_a_worker(timed(tmp_path, monkeypatch)) == 9


def test_what_was_not_sent_cannot_be_imported_on_a_worker(tmp_path):
    """Else what is checked before it is deployed would be found there, and on no executor."""
    write(tmp_path / "use_cases.py")
    name = load(tmp_path).use_cases["count"].module
    with nothing_imported(), pytest.raises(ModuleNotFoundError):
        importlib.import_module(name)
    assert importlib.import_module(name).handler is not None


def test_versions_may_be_packed_by_several_threads_at_once(tmp_path):
    write(tmp_path / "use_cases.py", answer="helper.answer()", imports="import helper")
    helper(tmp_path, 1)
    use_case = load(tmp_path).use_cases["count"]
    failed = []

    def pack():
        try:
            for _ in range(50):
                code_of(use_case)
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=pack) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []


@pytest.mark.parametrize("own", ["__package__", "__name__", "package=__package__"])
def test_a_module_that_is_imported_by_a_call_relative_to_its_package_travels(tmp_path, own):
    write(tmp_path / "use_cases.py", answer="parts.answer()", imports="import parts")
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "__init__.py").write_text(
        "from importlib import import_module\n"
        f"def answer():\n    return import_module('.late', {own}).answer()\n"
    )
    (tmp_path / "parts" / "late.py").write_text("def answer():\n    return 9\n")
    assert on_a_worker(load(tmp_path).use_cases["count"]) == 9


REFUSED = [
    (
        "import importlib\nx = importlib.import_module('helper')",
        r"line 4: helper is a local .*call",
    ),
    (
        "import importlib as i\nx = i.import_module(name='helper')",
        "line 4: helper is a local module",
    ),
    ("x = __import__('helper')", "line 3: helper is a local module"),
    (
        "import importlib, parts\nx = importlib.import_module('.one', 'parts')",
        "line 4: parts.one is a local module",
    ),
    (
        "from importlib.util import *\nx = lambda: spec_from_file_location('helper', Path('any'))",
        "line 4: helper is a local module",
    ),
    (
        "import runpy\ndef late():\n    runpy.run_path(Path(__file__).with_name('helper.py'))",
        "line 5: helper is a local module, .*write 'import helper'",
    ),
    (
        "import runpy\ndef late():\n    runpy.run_path(join(HERE, './parts', 'one.py'))",
        r"line 5: parts\.one is a local module",
    ),
    (
        "import pkgutil\ndef late():\n    pkgutil.get_data('parts', 't')",
        r"line 5: parts is a local module, .*'import parts', and parts\.__name__ in the call",
    ),
    (
        "from importlib import resources\nx = lambda: resources.files('parts')",
        r"line 4: parts is a local module, .*parts\.__name__ in the call",
    ),
    (
        "from importlib.resources import files as f\nx = lambda: f('parts')",
        r"line 4: parts is a local module, .*parts\.__name__ in the call",
    ),
    (
        "import pkgutil, parts\nx = list(pkgutil.iter_modules(parts.__path__))",
        r"line 4: what is looked for in the folder of parts is not seen",
    ),
    ("import parts.listed", r"listed.__init__.py, line 2: .*the folder of parts.listed is not"),
    ("from . import helper", r"line 3: a relative import that leads out"),
    ("import fast", r"line 3: fast is compiled"),
    (
        "import nowhere",
        r"No module named 'nowhere'; a package has to be installed in .*, and a module of your own",
    ),
    ("from helper import nothing", r"line 3, .*cannot import name 'nothing' from 'helper'"),
    ("import broken", r"broken.py, line 2, does not import: ZeroDivisionError"),
    ("import unread", r"unread.py, line 1, does not import: SyntaxError"),
    (
        "class Mine(Exception):\n    def __str__(self):\n        raise KeyError\nraise Mine",
        r"line 6, does not import: Mine: its text cannot be had",
    ),
    ("raise SystemExit(3)", r"line 3, ends the process when it is imported: SystemExit: 3"),
]


def test_who_is_asked_to_end_in_an_import_ends_and_refuses_nothing(tmp_path):
    imports = "import signal\nsignal.raise_signal(signal.SIGTERM)"
    write(tmp_path / "use_cases.py", imports=imports)
    helper(tmp_path, 1)
    with pytest.raises(SystemExit) as ended, ending_on_signals():
        load(tmp_path)
    assert ended.value.code == 0


@pytest.mark.parametrize(("imports", "told"), REFUSED)
def test_what_cannot_be_had_is_refused_by_name(tmp_path, imports, told):
    write(tmp_path / "use_cases.py", imports=imports)
    helper(tmp_path, 1)
    (tmp_path / "fast.abi3.so").write_bytes(b"\x7fELF")
    (tmp_path / "broken.py").write_text("x = 1\ny = x / 0\n")
    (tmp_path / "unread.py").write_text("def broken(:\n")
    (tmp_path / "parts" / "listed").mkdir(parents=True)
    (tmp_path / "parts" / "__init__.py").touch()
    (tmp_path / "parts" / "one.py").touch()
    (tmp_path / "parts" / "listed" / "__init__.py").write_text(
        "from pkgutil import walk_packages\nx = list(walk_packages(path=__path__))\n"
    )
    for _ in range(2):  # the second time nothing is left of the first
        with pytest.raises(ConfigError, match=told):
            load(tmp_path)


@pytest.mark.parametrize(
    "imports",
    [
        "import google.protobuf\nimport google.mine",
        "import google.mine, google.protobuf.message",
        "from google import mine, protobuf",
        "import google.mine\ndef late():\n    from google.protobuf import message",
    ],
)
def test_a_package_that_is_partly_local_and_partly_installed_is_refused(tmp_path, imports):
    write(tmp_path / "use_cases.py", imports=imports)
    (tmp_path / "google").mkdir()
    (tmp_path / "google" / "mine.py").write_text("X = 1\n")
    told = r"line \d: google\.protobuf\S* is no local module, and google is .*google\.mine.*another"
    with pytest.raises(ConfigError, match=told):
        load(tmp_path)


@pytest.mark.parametrize(
    "imports",
    ["from mine.rules import X", "from mine import rules\nX = rules.X", "import mine.rules"],
)
def test_a_package_without_a_file_of_its_own_may_be_local(tmp_path, imports):
    write(tmp_path / "use_cases.py", imports=imports)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "rules.py").write_text("X = 1\n")
    assert on_a_worker(load(tmp_path).use_cases["count"]) == 1


def test_a_path_is_relative_to_the_yaml_file(tmp_path):
    path = write(tmp_path / "use_cases.py")
    assert find_module("use_cases.py", tmp_path).path == path
    assert find_module("./use_cases.py", tmp_path).path == path


@pytest.mark.parametrize(
    ("name", "told"),
    [("headrace.py", "hides Headrace itself"), (os.fsdecode(b"a\xff.py"), "is no UTF-8")],
)
def test_a_name_that_would_go_wrong_later_is_refused(tmp_path, name, told):
    write(tmp_path / name)
    with pytest.raises(ConfigError, match=told):
        load(tmp_path, name)


ODD_NAMES = ["my flows.py", "1.py", "späße.py", "class.py", f"{'a' * 251}.py", "../up.py", "~.py"]


@pytest.mark.parametrize("name", ODD_NAMES)
def test_an_odd_name_is_one_like_any_other(tmp_path, name):
    (tmp_path / "in").mkdir()
    write(tmp_path / "in" / name)
    (made,) = load(tmp_path / "in", name).use_cases.values()
    assert on_a_worker(made)


def test_of_an_installed_module_its_own_package_alone_is_local(tmp_path, monkeypatch):
    installed = tmp_path / "site-packages"
    imports = (
        "from .rules import answer\nfrom elsewhere import other\nfrom importlib import resources\n"
        "def late():\n    return resources.files('flows')"
    )
    write(installed / "flows" / "score.py", answer="(answer(), other)", imports=imports)
    (installed / "flows" / "__init__.py").write_text("")
    (installed / "flows" / "rules.py").write_text("def answer():\n    return 7\n")
    (installed / "elsewhere.py").write_text("other = 8\n")
    monkeypatch.syspath_prepend(installed)
    made = load(tmp_path / "none", "flows.score")
    assert on_a_worker(made.use_cases["count"]) == (7, 8)
    assert made.code.names == {"flows", "flows.score", "flows.rules"}
    assert "flows" not in sys.modules


def test_a_dotted_name_is_found_where_python_finds_it(tmp_path):
    assert find_module("headrace.errors", tmp_path).path.name == "errors.py"


@pytest.mark.parametrize(
    ("name", "told"),
    [("none.py", "there is no file"), ("no_such_module", "nor installed"), ("a.b.c", "a.b.c")],
)
def test_a_module_that_is_not_there_is_named(tmp_path, name, told):
    with pytest.raises(ConfigError, match=told):
        find_module(name, tmp_path)


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("x = 1\n", "holds no use case"),
        ("x = 1\ny = x / 0\n", r"line 2, does not import: ZeroDivisionError"),
        ("def broken(:\n", r"line 1, does not import: SyntaxError"),
        (
            SOURCE.format(name="a", answer="1", imports="", before="pass")
            + SOURCE.format(name="a", answer="2", imports="", before="pass").replace(
                "def handler", "def other"
            ),
            "two use cases named a",
        ),
        (
            "from headrace import use_case\n\n@use_case(topic='all visits')\ndef f(t, c): ...\n",
            r"line 3: use case f: topic 'all visits': a name is 1 to 249 letters",
        ),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_with_the_line(tmp_path, source, told):
    path = tmp_path / "use_cases.py"
    path.write_text(source)
    with pytest.raises(ConfigError, match=told) as caught:
        load(tmp_path)
    assert str(path) in str(caught.value)
