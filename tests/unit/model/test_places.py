"""Places: written and read exactly at any width, and made by logs alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import headrace
from headrace.model.places import OPEN, UNKNOWN, read_place, text_of

SOURCE = Path(headrace.__file__).parent
#: rooms of logs; and what writes places down, or reads what was written before there were any
MAY_MAKE = ("connectors/kafka/", "connectors/kinesis/", "testing/", "model/places.py")
MAKERS = {"place_at", "number_at"}
WIDE = 49_590_338_271_490_256_608_559_692_538_361_571_095_921_575_989_136_588_898


@pytest.mark.parametrize("number", [0, 7, 2**63, WIDE])
def test_a_place_is_the_same_after_it_was_written(number: int) -> None:
    assert read_place(text_of(number)) == number
    assert UNKNOWN < number < OPEN


@pytest.mark.parametrize(
    "text", ["", "-1", "007", "1.0", "1e3", " 7", "٣", "x", "+1", "1_0", "9" * 5000]
)
def test_no_other_text_is_a_place(text: str) -> None:
    with pytest.raises(ValueError, match="is no place"):
        read_place(text)


def test_nobody_but_a_log_makes_places_or_takes_them_apart() -> None:
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE).as_posix()
        if name.startswith(MAY_MAKE):
            continue
        found += [f"{name}: {what}" for what in made(ast.parse(path.read_text()))]
    assert found == []


def made(tree: ast.AST) -> Iterator[str]:
    """What makes places in a module, or takes them apart."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            yield from (one.name for one in node.names if one.name in MAKERS)
        elif isinstance(node, ast.Attribute) and node.attr in MAKERS:
            yield ast.unparse(node)
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("cast", "typing.cast"):
            yield from ["cast"] if "Place" in ast.unparse(node.args[0]) else []


@pytest.mark.parametrize(
    "planted",
    [
        "from headrace.model.places import place_at",
        "from headrace.model.places import number_at as at",
        "from headrace.connectors.kafka.offsets import number_at",
        "from headrace.model import places\ngap = places.number_at(end) - places.number_at(at)",
        "at = cast('Place', 7)",
        "at = typing.cast(Place, 7)",
    ],
)
def test_who_does_is_found(planted: str) -> None:
    assert list(made(ast.parse(planted)))
