"""Nobody but a log counts with places: not in what is written, and not in what runs.

To mypy a place has no arithmetic, but what comes out of a database or a ``cast`` has no type. So
what is written is looked at by name as well: whatever a class or a function says is a `Place`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

import headrace

SOURCE = Path(headrace.__file__).parent
TREES = {
    path.relative_to(SOURCE).as_posix(): ast.parse(path.read_text())
    for path in sorted(SOURCE.rglob("*.py"))
}
#: rooms of logs, and fakes of them
OF_LOGS = ("connectors/kafka/", "connectors/kinesis/", "testing/")
#: has places in the bytes of a record, and knows none in lanes
OF_BYTES = "formats/"
COMPARE = {"__eq__", "__hash__", "__lt__", "__le__", "__gt__", "__ge__"}
COUNTS = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.LShift, ast.RShift)
#: takes a number from a place
TAKES = {"abs", "divmod", "float", "hash", "int", "range", "sum"}
#: makes a text of one, of which a number can be made
WRITES = {"format", "repr", "str", "text_of"}
#: writes one down as the numbers that another tool has room for; begins by the hash of one
MAY_WRITE = {
    "connectors/delta/marks.py": {"int(text)", "int(text_of(reached))"},
    "console/metrics.py": {"float(text_of(lane.position))", "int(text_of(least.position))"},
    "planning/demand.py": {"hash(lane.position)"},
}
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def is_place(annotation: ast.expr | None) -> bool:
    """Whether something is a place, or one or nothing."""
    if isinstance(annotation, ast.BinOp):
        return is_place(annotation.left) or is_place(annotation.right)
    return isinstance(annotation, ast.Name) and annotation.id == "Place"


@cache
def attributes() -> frozenset[str]:
    """Names under which objects have places."""
    found = set()
    for tree in TREES.values():
        classes = (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
        for part in (part for made in classes for part in made.body):
            if isinstance(part, ast.AnnAssign) and is_place(part.annotation):
                found.add(ast.unparse(part.target))
            elif isinstance(part, FUNCTIONS) and is_place(part.returns):
                found.add(part.name)
    return frozenset(found)


def counted(tree: ast.AST, having: Collection[str]) -> Iterator[str]:
    """What counts with a place in a module, where objects have places under these names."""
    making = {
        node.name
        for node in ast.walk(tree)
        if isinstance(node, FUNCTIONS) and is_place(node.returns)
    }
    for scope in (node for node in ast.walk(tree) if isinstance(node, FUNCTIONS)):
        given = [*scope.args.args, *scope.args.kwonlyargs]
        names = {argument.arg for argument in given if is_place(argument.annotation)}
        inside = list(ast.walk(scope))
        for node in inside:
            if isinstance(node, ast.AnnAssign) and is_place(node.annotation):
                names.add(ast.unparse(node.target))
        for name, value in _given(inside):
            if _text_in(value) and any(
                _is_one(part, having, names, making) for part in _written(value)
            ):
                names.add(name)
        for node in inside:
            if any(_is_one(part, having, names, making) for part in _used(node)):
                yield ast.unparse(node)


def _given(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, ast.expr]]:
    """Names, each with what it is given."""
    for node in nodes:
        if not isinstance(node, ast.Assign) or len(node.targets) > 1:
            continue
        names, values = [node.targets[0]], [node.value]
        if isinstance(names[0], ast.Tuple) and isinstance(values[0], ast.Tuple):
            names, values = names[0].elts, values[0].elts
        yield from ((ast.unparse(name), value) for name, value in zip(names, values, strict=False))


def _text_in(node: ast.expr) -> bool:
    """Whether it is a text that is made of something."""
    if isinstance(node, ast.Call):
        return ast.unparse(node.func) in WRITES
    return isinstance(node, ast.JoinedStr)


def _written(node: ast.expr) -> list[ast.expr]:
    """What a text is made of, if it is of one thing alone; and the thing itself."""
    if isinstance(node, ast.JoinedStr) and len(node.values) == 1:
        return [part.value for part in node.values if isinstance(part, ast.FormattedValue)]
    if isinstance(node, ast.Call) and ast.unparse(node.func) in WRITES:
        return [node, *node.args]
    return [node]


def _used(node: ast.AST) -> list[ast.expr]:
    """What a number is taken from."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, COUNTS):
        return [node.left, node.right]
    if isinstance(node, ast.AugAssign) and isinstance(node.op, COUNTS):
        return [node.target, node.value]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return [node.operand]
    if isinstance(node, ast.Call) and ast.unparse(node.func) in TAKES:
        return [part for argument in node.args for part in _written(argument)]
    if isinstance(node, ast.Call) and ast.unparse(node.func) in ("cast", "typing.cast"):
        return node.args[1:] if ast.unparse(node.args[0]).strip("'") in TAKES else []
    return []


def _is_one(
    node: ast.expr, having: Collection[str], names: Collection[str], making: Collection[str]
) -> bool:
    if isinstance(node, ast.Attribute):
        return node.attr in having
    if isinstance(node, ast.Name):
        return node.id in names
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return node.func.id in making
    return False


def test_to_a_type_checker_places_compare_and_nothing_else() -> None:
    (made,) = (
        node
        for node in ast.walk(TREES["model/places.py"])
        if isinstance(node, ast.ClassDef) and node.name == "Place"
    )
    assert {part.name for part in made.body if isinstance(part, ast.FunctionDef)} == COMPARE


def test_no_room_but_a_logs_counts_with_places() -> None:
    having = attributes()
    assert {"from_offset", "until_offset", "next_offset", "to_offset", "reached"} <= having
    found = [
        f"{name}: {what}"
        for name, tree in TREES.items()
        if not name.startswith((*OF_LOGS, OF_BYTES, "model/places.py"))
        for what in counted(tree, having)
        if what not in MAY_WRITE.get(name, set())
    ]
    assert found == []


def test_no_statement_of_a_database_counts_with_places() -> None:
    # Migrations do, with offsets of before there were places.
    counts = re.compile(r"_offset\b\s*[-+*/]")
    found = [
        f"{name}: {node.value}"
        for name, tree in TREES.items()
        if name.startswith("store/") and "/migrations/" not in name
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if counts.search(node.value)
    ]
    assert found == []


def test_who_has_places_in_bytes_knows_none_in_lanes() -> None:
    found = [
        name
        for name, tree in TREES.items()
        if name.startswith(OF_BYTES)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        if node.module in ("headrace.model.places", "headrace.model.streams")
    ]
    assert found == []


@pytest.mark.parametrize(
    "planted",
    [
        "def lag(piece: Slice) -> int: return piece.until_offset - piece.from_offset",
        "def lag(end: Place, at: Place) -> int: return end - at",
        "def after(row): return row.next_offset + 1",
        "def after(at: Place | None): at += 1",
        "def lag(lane): return int(lane.reached)",
        "def all_of(piece): return range(piece.from_offset, piece.until_offset)",
        "def asked(c): return select(func.sum(c.until_offset - c.from_offset))",
        "def first() -> Place: ...\ndef before(): return first() - 1",
        "async def lag(end: Place, at: Place) -> int: return end - at",
        "def lag(end: Place, at: Place) -> int: return cast('int', end) - cast('int', at)",
        "def lag(end: Place) -> int: return int(str(end))",
        "def lag(end: Place) -> int: return int(f'{end}')",
        "def lag(end: Place, at: Place):\n    one, two = text_of(end), str(at)\n    int(one)",
        "def lag(end: Place, at: Place) -> int: return hash(end) - hash(at)",
    ],
)
def test_what_counts_with_a_place_is_found(planted: str) -> None:
    assert list(counted(ast.parse(planted), attributes()))


def test_what_only_compares_passes_on_and_counts_records_is_not() -> None:
    sound = """
def lag(piece: Slice, places: Places, at: Place) -> int:
    later = max(piece.from_offset, at) if piece.until_offset > at else at
    return places.between(piece.until_offset, later) + piece.records - 1
"""
    assert list(counted(ast.parse(sound), attributes())) == []
