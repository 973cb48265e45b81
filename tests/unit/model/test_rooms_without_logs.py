"""Rooms that work for any log: they name none, and count with no place of any.

A type checker keeps places from being added and subtracted (`model/places.py`). What it cannot see,
such as a place that was made text and then a number, is looked for here. Docstrings and comments
may name Kafka, as an example of what they say.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import headrace

SOURCE = Path(headrace.__file__).parent
ROOMS = (
    *("model", "planning", "policies", "cycle", "store", "board"),
    *("databases", "doors", "fleet", "payload", "process", "versions"),
)
LOGS = re.compile(r"kafka|kinesis", re.IGNORECASE)
PARTITIONS = re.compile(r"partition", re.IGNORECASE)
OF_TEXT = {"partition", "rpartition"}
#: what these say to people or read of earlier versions
MAY_SAY = {
    # the name by which reports have always told of it
    "cycle/reach.py": {"kafka"},
    # numbered lanes are told so to people
    "model/lane_names.py": {"partition "},
    # offsets are said as Spark has them, by partition
    "model/starting.py": {"; this names no partition: "},
    "policies/starting.py": {
        "startingOffsets name a partition of ",
        "partition ",
        "partitions ",
    },
    # reports that earlier drivers wrote
    "store/report_form.py": {"partition"},
}
#: fields and variables that hold places
PLACES = {
    "from_offset",
    "until_offset",
    "next_offset",
    "to_offset",
    "offset",
    "record_offset",
    "position",
    "reached",
    "until",
    "lost_from",
    "go_on_at",
    "behind",
    "stop_before",
    "suspect_until",
}


def sources() -> Iterator[tuple[str, ast.Module]]:
    for room in ROOMS:
        for path in sorted((SOURCE / room).rglob("*.py")):
            name = path.relative_to(SOURCE).as_posix()
            # What was in a store of an earlier version is told in its words.
            if "/migrations/" not in name:
                yield name, ast.parse(path.read_text())


def words(tree: ast.Module) -> Iterator[str]:
    """Names and texts of a module, but for docstrings."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docs = {id(node.body[0]) for node in ast.walk(tree) if isinstance(node, documented)}
    inside = {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr) and id(node) in docs
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.arg | ast.keyword):
            yield node.arg or ""
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Attribute) and node.attr not in OF_TEXT:
            yield node.attr
        elif isinstance(node, ast.ImportFrom | ast.Import):
            yield getattr(node, "module", None) or ""
            yield from (f"{one.name} {one.asname or ''}" for one in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield "" if id(node) in inside else node.value
        elif isinstance(node, ast.Constant) and isinstance(node.value, bytes):
            yield node.value.decode(errors="replace")


def counted(tree: ast.Module) -> Iterator[str]:
    """Places that are added, subtracted or made numbers."""
    for node in ast.walk(tree):
        if isinstance(node, ast.BinOp) and not isinstance(node.op, ast.BitOr | ast.BitAnd):
            sides = (node.left, node.right)
            named = {getattr(side, "attr", getattr(side, "id", "")) for side in sides}
            texts = [
                side
                for side in sides
                if isinstance(side, ast.Constant) and isinstance(side.value, str)
            ]
            if named & PLACES and not texts:
                yield ast.unparse(node)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("int", "float"):
            given = " ".join(map(ast.unparse, node.args))
            if "text_of" in given or any(given.endswith(f".{name}") for name in PLACES):
                yield ast.unparse(node)


@pytest.mark.parametrize("what", [LOGS, PARTITIONS], ids=["logs", "partitions"])
def test_no_log_is_known_by_name(what: re.Pattern[str]) -> None:
    found = [
        f"{name}: {word}"
        for name, tree in sources()
        for word in words(tree)
        if what.search(word) and word not in MAY_SAY.get(name, set())
    ]
    assert found == []


def test_nothing_is_reckoned_with_places() -> None:
    assert [f"{name}: {text}" for name, tree in sources() for text in counted(tree)] == []


@pytest.mark.parametrize(
    "text",
    [
        "lag = lane.end - lane.position",
        "at = piece.from_offset + 1",
        "n = int(text_of(place))",
        "n = int(receipt.reached)",
        "span = until - reached",
    ],
)
def test_who_reckons_with_places_is_found(text: str) -> None:
    assert list(counted(ast.parse(text)))


@pytest.mark.parametrize(
    "text",
    [
        "from headrace.connectors.kafka import OFFSETS",
        "why = f'{n} in Kafka'",
        "def of_kafka(): ...",
        "at = self.kafka",
        "async def of_kafka(): ...",
        "import json as kafka",
        "name = b'kafka'",
    ],
)
def test_who_knows_a_log_is_found(text: str) -> None:
    assert any(map(LOGS.search, words(ast.parse(text))))
    assert not any(map(LOGS.search, words(ast.parse('"""Such as Kafka\'s."""'))))
