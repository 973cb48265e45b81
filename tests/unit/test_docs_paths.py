"""Files and names of the code that pages and docstrings lead to: each of them is there."""

import ast
import importlib
import re
from collections import Counter
from functools import cache
from itertools import chain
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "headrace"
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
SOURCES = sorted(chain(*((ROOT / part).rglob("*.py") for part in ("src", "tests", "benchmarks"))))
EXAMPLE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"`([\w./*-]+\.py)`")
NAME = re.compile(r"`(headrace(?:\.\w+)+)(?:\(\))?`")
#: files of users, of Spark, and of the sink that CONTRIBUTING.md makes up
NOT_OURS = {
    "current/use_cases.py",
    "flows/score.py",
    "pyspark/daemon.py",
    "statistics.py",
    "tests/contract/test_sink_lines.py",
}
#: what is written like a name of the code: that sink's room, a file, and headers of records
NO_NAMES = {
    "headrace.connectors.lines",
    "headrace.yaml",
    "headrace.epoch",
    "headrace.marks.6.clicks.acme.visits",
    "headrace.redrive.place",
    "headrace.slice",
    "headrace.split.lane",
    "headrace.split.place",
    "headrace.timestamp",
}
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


@cache
def text_of(page: Path) -> str:
    """What a page says beside its examples, or a file in its docstrings."""
    if page.suffix == ".md":
        return EXAMPLE.sub("", page.read_text())
    nodes = ast.walk(ast.parse(page.read_text()))
    found = (ast.get_docstring(node) for node in nodes if isinstance(node, DOCUMENTED))
    return "\n".join(filter(None, found))


def is_there(file: str, page: Path) -> bool:
    """Whether a reader finds the file: beside the page, below a folder above it, or from a top."""
    if file.startswith("test_"):
        return any((ROOT / "tests").rglob(file))
    tops = [ROOT, PACKAGE, PACKAGE / "testing", ROOT / "tests"]
    above = [folder for folder in page.parents if folder.is_relative_to(ROOT)]
    return any(any(folder.glob(file)) for folder in [*above, *tops])


def resolves(name: str) -> bool:
    """Whether a dotted name is that of a module or of something in one."""
    module, *rest = name, ""
    while True:
        try:
            found = importlib.import_module(module)
            break
        except ModuleNotFoundError:
            module, _, last = module.rpartition(".")
            if module == "headrace" and not hasattr(importlib.import_module(module), last):
                return False
            rest.insert(0, last)
    for part in filter(None, rest):
        if not hasattr(found, part):
            return False
        found = getattr(found, part)
    return True


def led_to(pattern: re.Pattern[str]) -> list[tuple[str, Path]]:
    """Each word in backticks of this form, with a page that has it."""
    every = (*PAGES, *SOURCES)
    return sorted({(word, page) for page in every for word in pattern.findall(text_of(page))})


def test_files_that_are_named_are_there() -> None:
    found = led_to(FILE)
    assert len(found) > 150
    missing = [
        f"{page.relative_to(ROOT)}: {file}"
        for file, page in found
        if file not in NOT_OURS and not is_there(file, page)
    ]
    assert missing == []


def test_names_that_are_named_are_there() -> None:
    found = [(name, page) for name, page in led_to(NAME) if name not in NO_NAMES]
    assert len(found) > 40
    assert [f"{page.relative_to(ROOT)}: {name}" for name, page in found if not resolves(name)] == []


def test_the_name_of_a_test_file_leads_to_one() -> None:
    """Pages call them by it; and one run of pytest refuses two files of one name."""
    names = Counter(path.name for path in (ROOT / "tests").rglob("test_*.py"))
    assert [name for name, files in names.items() if files > 1] == []


@pytest.mark.parametrize(
    ("name", "there"),
    [
        ("headrace.ports", True),
        ("headrace.ports.Store", True),
        ("headrace.use_case", True),
        ("headrace.nothing", False),
        ("headrace.ports.Nothing", False),
        ("headrace.nothing.Store", False),
    ],
)
def test_what_is_not_there_is_seen(name: str, there: bool) -> None:
    assert resolves(name) is there


def test_a_file_that_is_not_there_is_seen() -> None:
    page = PACKAGE / "cycle" / "driver.py"
    assert is_there("commit.py", page)
    assert is_there("spark/task.py", page)
    assert not is_there("spark/commit.py", page)
    assert not is_there("test_nothing.py", page)
