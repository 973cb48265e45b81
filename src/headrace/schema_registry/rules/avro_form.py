"""What an Avro schema is, and its canonical text.

The same schema can be written in many ways: names whole or within a namespace, ``"string"`` or
``{"type": "string"}``, attributes in any order, layout. Confluent's registry gives all of them one
id, and so do we: the canonical text has whole names and sorted attributes. Documentation, defaults,
aliases and attributes of somebody's own are part of a schema, and stay.

Whether names, symbols and unions are allowed is judged by Apache's ``avro``, which is also asked
about compatibility (``avro_rules``); it is given the canonical text, in which nothing is written in
a way that it does not know. What it does not look at is looked at here: names that nobody defined,
and defaults that are none of their type.

Logical types count as what they are written as, which is what Confluent's registry does too.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Sequence
from typing import Any

import avro.name
import avro.schema
from avro.errors import AvroException

from headrace.schema_registry.rules.texts import BadSchema, Form, json_of, json_text

#: of a field, as the specification has it
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PRIMITIVES = frozenset(["null", "boolean", "int", "long", "float", "double", "bytes", "string"])
_NAMED = frozenset({"record", "error", "enum", "fixed"})
_BITS = {"int": 31, "long": 63}
_REAL = {"float": struct.Struct("<f"), "double": struct.Struct("<d")}
#: what JSON has no numbers for is written as text
_WORDS = ("NaN", "Infinity", "-Infinity")


def avro_form(text: str, references: Sequence[tuple[str, str]] = ()) -> Form:
    """The canonical text of an Avro schema.

    Raises:
        BadSchema: it is none.
    """
    tree, known = _trees(text, references)
    avro_schema(text, references)
    _Defaults(known).check(tree)
    canonical = json_text(tree, sort=True)
    return Form(canonical, canonical)


def avro_schema(text: str, references: Sequence[tuple[str, str]] = ()) -> avro.schema.Schema:
    """An Avro schema as Apache's library has it.

    Raises:
        BadSchema: it is none.
    """
    names, known = avro.name.Names(), dict[str, Any]()
    try:
        for _, other in references:
            _made(_Canonical(known).of(json_of(other), ""), names)
        return _made(_Canonical(known).of(_bare(text), ""), names)
    except (AvroException, TypeError, AttributeError, KeyError, ValueError) as exc:
        # The library meets what is of a wrong kind in many ways.
        raise BadSchema(f"it is no Avro schema: {str(exc)[:500]}") from exc


def _trees(text: str, references: Sequence[tuple[str, str]]) -> tuple[Any, dict[str, Any]]:
    known = dict[str, Any]()
    for _, other in references:
        _Canonical(known).of(json_of(other), "")
    return _Canonical(known).of(_bare(text), ""), known


def _bare(text: str) -> Any:
    """The tree of a text; a primitive may stand there without quotes."""
    return text.strip() if text.strip() in _PRIMITIVES else json_of(text)


def _made(tree: Any, names: avro.name.Names) -> avro.schema.Schema:
    return avro.schema.make_avsc_object(_without_logical(tree), names)


def _without_logical(tree: Any) -> Any:
    """Logical types left out: the library warns of those that it does not know, and judges none."""
    if isinstance(tree, dict):
        return {
            name: part if name == "default" else _without_logical(part)
            for name, part in tree.items()
            if name != "logicalType"
        }
    return [*map(_without_logical, tree)] if isinstance(tree, list) else tree


class _Canonical:
    """Writes a schema in one way; ``known`` gets the named ones, by whole name."""

    def __init__(self, known: dict[str, Any]) -> None:
        self._known = known

    def of(self, tree: Any, space: str) -> Any:
        if isinstance(tree, str):
            return tree if tree in _PRIMITIVES else self._named(tree, space)
        if isinstance(tree, list):
            return [self.of(part, space) for part in tree]
        if not isinstance(tree, dict) or "type" not in tree:
            raise BadSchema(
                f"a type is expected where there is {json_text(tree, sort=False)[:100]}"
            )
        kind = tree["type"]
        if not isinstance(kind, str) or kind not in _PRIMITIVES | _NAMED | {"array", "map"}:
            if len(tree) > 1:
                raise BadSchema(
                    f"{json_text(kind, sort=False)[:100]} is no type that has attributes"
                )
            return self.of(kind, space)
        if kind in _NAMED:
            return self._defined(tree, kind, space)
        inner = {"array": "items", "map": "values"}.get(kind)
        if inner is not None:
            if inner not in tree:
                raise BadSchema(f"an {kind} has no {inner}")
            return {**tree, inner: self.of(tree[inner], space)}
        return kind if len(tree) == 1 else dict(tree)

    def _named(self, name: str, space: str) -> str:
        whole = name if "." in name or not space else f"{space}.{name}"
        if whole not in self._known:
            raise BadSchema(f"{whole[:200]} is defined nowhere; name it first, or refer to it")
        return whole

    def _defined(self, tree: dict[str, Any], kind: str, space: str) -> dict[str, Any]:
        name, given = tree.get("name"), tree.get("namespace", space)
        if not isinstance(name, str) or not isinstance(given, str):
            raise BadSchema(f"a {kind} needs a name, and its namespace is a text")
        whole = name if "." in name or not given else f"{given}.{name}"
        inside = whole.rpartition(".")[0]
        made = {key: value for key, value in tree.items() if key != "namespace"}
        made["name"] = whole
        if "namespace" in tree and "." in name and given != inside:
            # It means nothing, and is kept: nobody is given a text in which another wrote it.
            made["namespace"] = given
        if whole in self._known:
            raise BadSchema(f"{whole[:200]} is defined twice")
        self._known[whole] = made
        if "aliases" in tree:
            made["aliases"] = self._aliases(tree["aliases"], inside)
        if kind in ("record", "error"):
            fields = tree.get("fields")
            if not isinstance(fields, list):
                raise BadSchema(f"record {whole[:200]} has no list of fields")
            made["fields"] = [self._field(field, inside, whole) for field in fields]
        size = tree.get("size")
        if kind == "fixed" and (not isinstance(size, int) or isinstance(size, bool) or size < 0):
            raise BadSchema(f"fixed {whole[:200]} needs a size, which is a number of bytes")
        return made

    def _field(self, field: Any, space: str, whole: str) -> dict[str, Any]:
        if not isinstance(field, dict) or "type" not in field:
            raise BadSchema(f"a field of {whole[:200]} has no type")
        name = field.get("name")
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise BadSchema(f"a field of {whole[:200]} has no name such as page_views")
        # Without this a text of letters would be taken for a list of names.
        self._aliases(field.get("aliases", []), "")
        made = {
            key: value for key, value in field.items() if (key, value) != ("order", "ascending")
        }
        return made | {"type": self.of(field["type"], space)}

    def _aliases(self, aliases: Any, space: str) -> Any:
        if not isinstance(aliases, list) or not all(isinstance(name, str) for name in aliases):
            raise BadSchema("aliases are a list of names")
        return [name if "." in name or not space else f"{space}.{name}" for name in aliases]


def _is_real(value: Any, kind: str) -> bool:
    """Whether it is a number that has room in a float or double, rounded if need be."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        _REAL[kind].pack(value)
    except (OverflowError, struct.error):
        return False
    return math.isfinite(value)


def _is_bytes(value: Any, size: int | None) -> bool:
    """Whether a text has a character for each byte, as many as there have to be."""
    if not isinstance(value, str) or any(character > "\xff" for character in value):
        return False
    return size is None or len(value) == size


class _Defaults:
    """Looks whether defaults are of the type of their field."""

    def __init__(self, known: dict[str, Any]) -> None:
        self._known = known
        #: of a value and a type, both by identity: whether the one is of the other
        self._judged: dict[tuple[int, int], bool] = {}

    def check(self, tree: Any) -> None:
        if isinstance(tree, list):
            for part in tree:
                self.check(part)
        elif isinstance(tree, dict):
            for field in tree.get("fields", ()):
                if "default" in field and not self._fits(field["default"], field["type"]):
                    raise BadSchema(
                        f"field {field.get('name')} of {tree['name']} has a default that is none "
                        f"of its type: {json_text(field['default'], sort=False)[:100]}"
                    )
                self.check(field["type"])
            for inner in ("items", "values"):
                self.check(tree.get(inner))

    def _fits(self, value: Any, tree: Any) -> bool:
        if isinstance(tree, list):
            # Any branch, as in Avro 1.12; earlier versions want the first one.
            return any(self._fits(value, part) for part in tree)
        if isinstance(tree, str) and tree not in _PRIMITIVES:
            tree = self._known[tree]
        # A type may lead to the same value and type in many ways; twice as many with each level.
        pair = (id(value), id(tree))
        if pair not in self._judged:
            self._judged[pair] = self._is_of(value, tree)
        return self._judged[pair]

    def _is_of(self, value: Any, tree: Any) -> bool:  # noqa: PLR0911 - a line for each type
        kind = tree if isinstance(tree, str) else tree["type"]
        match kind:
            case "null":
                return value is None
            case "boolean":
                return isinstance(value, bool)
            case "int" | "long":
                whole = isinstance(value, int) and not isinstance(value, bool)
                return whole and -(1 << _BITS[kind]) <= value < 1 << _BITS[kind]
            case "float" | "double":
                return value in _WORDS if isinstance(value, str) else _is_real(value, kind)
            case "string":
                return isinstance(value, str)
            case "bytes" | "fixed":
                return _is_bytes(value, tree["size"] if kind == "fixed" else None)
            case "enum":
                return value in tree["symbols"]
            case "array":
                return isinstance(value, list) and all(self._fits(v, tree["items"]) for v in value)
            case "map":
                return isinstance(value, dict) and all(
                    self._fits(part, tree["values"]) for part in value.values()
                )
            case _:
                return isinstance(value, dict) and all(
                    self._fits(value[field["name"]], field["type"])
                    if field["name"] in value
                    else "default" in field
                    for field in tree["fields"]
                )
