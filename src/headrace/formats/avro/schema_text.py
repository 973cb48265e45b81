"""Avro's schemas, read from their JSON text.

Whoever may register a schema writes these, so reading one ends within bounds, and says what is
wrong with it. Names are resolved here: a type that is used twice is the same object in both places.

A type that holds itself is refused, as no column can hold it. What a logical type says that its
type cannot be is ignored, as the specification wants it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace.errors import ConfigError

PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
#: logical type -> what it may stand on
_LOGICAL: Mapping[str, frozenset[str]] = {
    "date": frozenset({"int"}),
    "time-millis": frozenset({"int"}),
    "time-micros": frozenset({"long"}),
    "timestamp-millis": frozenset({"long"}),
    "timestamp-micros": frozenset({"long"}),
    "timestamp-nanos": frozenset({"long"}),
    "local-timestamp-millis": frozenset({"long"}),
    "local-timestamp-micros": frozenset({"long"}),
    "local-timestamp-nanos": frozenset({"long"}),
    "decimal": frozenset({"bytes", "fixed"}),
    "uuid": frozenset({"string", "fixed"}),
}
#: types within types, and types of one schema
_DEEPEST, _MOST_TYPES = 64, 10_000
#: characters of a name that are told
_MOST_TOLD = 120
#: a default that was not given; null may be one
ABSENT: Any = object()


@dataclass(frozen=True, slots=True, eq=False)
class AvroField:
    """A field of a record."""

    name: str
    kind: AvroType
    aliases: tuple[str, ...] = ()
    default: Any = ABSENT


@dataclass(slots=True, eq=False)
class AvroType:
    """A type; what it is made of is set once it is known."""

    #: a primitive, or record, enum, fixed, array, map, union
    name: str
    logical: str = ""
    #: with its namespace, where it has a name
    full_name: str = ""
    aliases: tuple[str, ...] = ()
    fields: tuple[AvroField, ...] = ()
    #: of a union its branches, of an array or map what is in it
    inner: tuple[AvroType, ...] = ()
    symbols: tuple[str, ...] = ()
    default_symbol: str | None = None
    size: int = 0
    precision: int = 0
    scale: int = 0

    @property
    def told(self) -> str:
        """How a message calls it."""
        if self.full_name:
            return short_name(self.full_name)
        return f"{self.name} ({self.logical})" if self.logical else self.name


def short_name(name: str) -> str:
    """How a message calls a name: whoever registers a schema may make one of a megabyte."""
    return name if len(name) <= _MOST_TOLD else f"{name[:_MOST_TOLD]}…"


def parsed(text: str, references: Iterable[tuple[str, str]] = ()) -> AvroType:
    """The schema of a text; ``references`` are name and text of those it refers to, in order.

    Raises:
        ConfigError: it is none, or holds itself.
    """
    parser = _Parser()
    for _, other in references:
        parser.parse(json_of(other), "", 0)
    return parser.parse(json_of(text), "", 0)


def json_of(text: str) -> Any:
    """What the text of a schema is in Python.

    Raises:
        ConfigError: it is no JSON.
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise ConfigError("a schema is nested too deep") from None
    except ValueError:
        # A name of a primitive is often registered without its quotes.
        if text.strip() in PRIMITIVES:
            return text.strip()
        raise ConfigError("a schema is no JSON") from None


@dataclass(slots=True)
class _Parser:
    """Knows the types that have been named so far."""

    named: dict[str, AvroType] = field(default_factory=dict)
    #: those that are being read: whoever names one of these would hold itself
    open: set[str] = field(default_factory=set)
    count: int = 0

    def parse(self, schema: Any, space: str, depth: int) -> AvroType:
        self.count += 1
        if depth > _DEEPEST or self.count > _MOST_TYPES:
            raise ConfigError(
                f"a schema is nested too deep, for more than {_DEEPEST} levels, or has more than "
                f"{_MOST_TYPES} types"
            )
        if isinstance(schema, str):
            return self._by_name(schema, space)
        if isinstance(schema, list):
            return self._union(schema, space, depth)
        if not isinstance(schema, dict):
            raise ConfigError("a type is a name, a list or an object")
        name = schema.get("type")
        if isinstance(name, (dict, list)):
            return self.parse(name, space, depth + 1)
        if name in ("array", "map"):
            inner = self.parse(
                _of(schema, "items" if name == "array" else "values"), space, depth + 1
            )
            return AvroType(name, inner=(inner,))
        if name in ("record", "error", "enum", "fixed"):
            return self._named(schema, str(name), space, depth)
        if not isinstance(name, str):
            raise ConfigError("a type has no name")
        found = self._by_name(name, space)
        return _with_logical(AvroType(name), schema) if name in PRIMITIVES else found

    def _by_name(self, name: str, space: str) -> AvroType:
        if name in PRIMITIVES:
            return AvroType(name)
        full = _full(name, space)
        found = self.named.get(full) or self.named.get(name)
        if found is None:
            raise ConfigError(f"there is no type {short_name(name)}")
        if found.full_name in self.open:
            raise ConfigError(f"{found.told} holds itself, and no column can")
        return found

    def _union(self, schema: list[Any], space: str, depth: int) -> AvroType:
        inner = tuple(self.parse(branch, space, depth + 1) for branch in schema)
        told = [branch.full_name or branch.name for branch in inner]
        if "union" in told or len(set(told)) < len(told) or not told:
            raise ConfigError("a union has no type, the same twice, or another union")
        return AvroType("union", inner=inner)

    def _named(self, schema: dict[str, Any], name: str, space: str, depth: int) -> AvroType:
        own = _text(schema, "name")
        given = schema.get("namespace")
        full = _full(own, given if isinstance(given, str) else space)
        if full in self.named:
            raise ConfigError(f"{short_name(full)} is there twice")
        space = full.rpartition(".")[0]
        aliases = tuple(_full(alias, space) for alias in _texts(schema, "aliases"))
        made = AvroType("record" if name == "error" else name, full_name=full, aliases=aliases)
        self.named[full] = made
        if name == "enum":
            _as_enum(made, schema)
        elif name == "fixed":
            made.size = _whole(schema, "size")
            return _with_logical(made, schema)
        else:
            self.open.add(full)
            made.fields = self._fields(schema, space, depth)
            self.open.remove(full)
        return made

    def _fields(self, schema: dict[str, Any], space: str, depth: int) -> tuple[AvroField, ...]:
        fields = list[AvroField]()
        for found in _of(schema, "fields", list):
            if not isinstance(found, dict):
                raise ConfigError("a field is no object")
            name = _text(found, "name")
            kind = self.parse(_of(found, "type"), space, depth + 1)
            default = found.get("default", ABSENT)
            fields.append(AvroField(name, kind, _texts(found, "aliases"), default))
        names = [found.name for found in fields]
        if len(set(names)) < len(names):
            raise ConfigError("a record has a field twice")
        return tuple(fields)


def _as_enum(made: AvroType, schema: dict[str, Any]) -> None:
    made.symbols = _texts(schema, "symbols")
    default = schema.get("default")
    if len(set(made.symbols)) < len(made.symbols):
        raise ConfigError(f"{made.told} has a symbol twice")
    if default is not None and default not in made.symbols:
        raise ConfigError(f"the default of {made.told} is none of its symbols")
    made.default_symbol = default


def _with_logical(made: AvroType, schema: dict[str, Any]) -> AvroType:
    logical = schema.get("logicalType")
    if not isinstance(logical, str) or made.name not in _LOGICAL.get(logical, ()):
        return made
    if logical == "uuid" and made.name == "fixed" and made.size != 16:
        return made
    if logical == "decimal":
        precision, scale = schema.get("precision"), schema.get("scale", 0)
        if type(precision) is not int or type(scale) is not int or not 0 <= scale <= precision:
            return made
        if precision < 1 or (made.name == "fixed" and precision > _digits(made.size)):
            return made
        made.precision, made.scale = precision, scale
    made.logical = logical
    return made


def _digits(size: int) -> int:
    """How many digits always fit into so many bytes."""
    # No decimal that is read has more, and a size may be anything.
    return len(str(2 ** (8 * min(size, 64) - 1) - 1)) - 1 if size else 0


def _full(name: str, space: str) -> str:
    return name if "." in name or not space else f"{space}.{name}"


def _of(schema: dict[str, Any], key: str, kind: type[Any] = object) -> Any:
    if not isinstance(schema.get(key), kind) or key not in schema:
        raise _lacks(schema, key)
    return schema[key]


def _text(schema: dict[str, Any], key: str) -> str:
    found = _of(schema, key, str)
    if not found:
        raise _lacks(schema, key)
    return str(found)


def _lacks(schema: dict[str, Any], key: str) -> ConfigError:
    name = schema.get("name")
    return ConfigError(f"{short_name(name) if isinstance(name, str) else 'a type'} has no {key}")


def _texts(schema: dict[str, Any], key: str) -> tuple[str, ...]:
    found = schema.get(key, [])
    if not isinstance(found, list) or not all(isinstance(text, str) for text in found):
        raise ConfigError(f"{key} is no list of names")
    return tuple(found)


def _whole(schema: dict[str, Any], key: str) -> int:
    found = _of(schema, key, int)
    if isinstance(found, bool) or not 0 <= found < 2**31:
        raise ConfigError(f"{key} is no whole number")
    return int(found)
