"""Events in plain JSON as Avro, by one schema: checked and written in one go.

Avro's own form of JSON names the branch of each union and has bytes as odd characters; no sender
writes that. Here a value of a union is what it is (``null``, or the value), and leaves are as
``json_leaves`` says. What does not fit is refused, with the place and what was expected: also a
field that the schema does not have, since to leave it out would lose it.

Of the types of a union one is chosen by the kind of value: a text is its string, a whole number its
int or long, any other its double, wherever it has these; else the first that takes it in the order
of the schema. An object is the one record that has all its fields and needs no other; where that
are two of them nobody knows which is meant, so it is refused; and where it is none, it is the map.

A schema is somebody else's. So each type is looked at once, no union is tried by going down into
each of its types, and what fields left out may add to an event is bounded: work is in proportion to
the event. A schema that holds itself is refused by whoever reads its text (`schema_text.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from headrace.errors import ConfigError
from headrace.formats.avro.json_leaves import leaf_of
from headrace.formats.avro.json_values import Misfit, Payload, Put, put_bytes, put_long, unlike
from headrace.formats.avro.schema_text import ABSENT, AvroField, AvroType, parsed, short_name

#: characters of a schema, with all that it refers to
_MOST_TEXT = 1024 * 1024
#: what fields that were left out may add: bytes of a default, and of an event beside a share of it
_MOST_DEFAULTS = 16 * 1024
_SHARE_OF_DEFAULTS = 8
#: of a union: records, and types that one kind of value may be; each is asked for each value
_MOST_RECORDS, _MOST_SCALARS = 32, 8
_MISSING: Any = object()
#: how a message calls a type of a union that has no name
_TOLD = {
    "string": "a text",
    "boolean": "true or false",
    "array": "a list",
    "map": "an object",
    **dict.fromkeys(("int", "long", "float", "double"), "a number"),
}


@dataclass(frozen=True, slots=True, eq=False)
class JsonWriter:
    """Writes events by one schema."""

    _put: Put

    def written(self, value: Any, text_bytes: int) -> bytes:
        """A parsed event as Avro.

        Args:
            value: a number that no float holds exactly is a ``decimal.Decimal``, or an int.
            text_bytes: of the event; defaults may add a few times as much.

        Raises:
            Misfit: a value is none of the schema.
        """
        out = Payload()
        out.left = _MOST_DEFAULTS + _SHARE_OF_DEFAULTS * text_bytes
        self._put(value, out)
        return bytes(out)


def json_writer(text: str, references: Sequence[tuple[str, str]] = ()) -> JsonWriter:
    """What writes by a schema; ``references`` are name and text of those that it refers to.

    Raises:
        ConfigError: it is none, or none that one writes by.
    """
    if len(text) + sum(len(other) for _, other in references) > _MOST_TEXT:
        raise ConfigError(f"a schema has at most {_MOST_TEXT} characters, with what it refers to")
    return JsonWriter(_Builder().type_of(parsed(text, references)).put)


class _Type(NamedTuple):
    """What writes values of one type, and which of JSON these are."""

    kind: AvroType
    put: Put
    takes: tuple[type, ...]


@dataclass(slots=True)
class _Builder:
    """Looks at each type of a schema once, however often it is named."""

    known: dict[tuple[int, bool], _Type] = field(default_factory=dict)

    def type_of(self, kind: AvroType, *, is_default: bool = False) -> _Type:
        """What writes a type; a default is written otherwise than an event."""
        key = (id(kind), is_default)
        if key not in self.known:
            self.known[key] = self._made(kind, is_default)
        return self.known[key]

    def _made(self, kind: AvroType, is_default: bool) -> _Type:
        if kind.name == "record":
            return _Type(kind, self._record(kind, is_default), (dict,))
        inner = [self.type_of(one, is_default=is_default) for one in kind.inner]
        if kind.name == "union":
            return _union(kind, inner, is_default)
        if kind.name == "array":
            return _Type(kind, _array(inner[0].put), (list,))
        if kind.name == "map":
            return _Type(kind, _map(inner[0].put), (dict,))
        return _Type(kind, *leaf_of(kind, is_default=is_default))

    def _record(self, kind: AvroType, is_default: bool) -> Put:
        return _record(
            [
                (
                    one.name,
                    self.type_of(one.kind, is_default=is_default).put,
                    self._default(kind, one),
                )
                for one in kind.fields
            ]
        )

    def _default(self, kind: AvroType, one: AvroField) -> bytes | None:
        """What stands for a field that was left out; None: it may not be."""
        if one.default is ABSENT:
            return None
        out = Payload()
        out.left = _MOST_DEFAULTS
        try:
            self.type_of(one.kind, is_default=True).put(one.default, out)
        except Misfit as misfit:
            where = f"field {short_name(one.name)} of {kind.told}"
            raise ConfigError(f"the default of {where} is none: {misfit.reason}") from None
        if len(out) > _MOST_DEFAULTS:
            raise ConfigError(f"a default of {kind.told} has more than {_MOST_DEFAULTS} bytes")
        return bytes(out)


def _record(fields: Iterable[tuple[str, Put, bytes | None]]) -> Put:
    fields = tuple(fields)
    names = frozenset(name for name, _, _ in fields)

    def put(value: Any, out: Payload) -> None:
        if type(value) is not dict:
            raise unlike("an object", value)
        given, found = value.get, 0
        for name, put_field, default in fields:
            inner = given(name, _MISSING)
            if inner is _MISSING:
                _left_out(name, default, out)
                continue
            found += 1
            try:
                put_field(inner, out)
            except Misfit as misfit:
                misfit.path.append(name)
                raise
        if found < len(value):
            raise _unknown(value, names)

    return put


def _left_out(name: str, default: bytes | None, out: Payload) -> None:
    if default is None:
        raise Misfit("it is missing, and the schema has no default for it", name)
    out.left -= 1 + len(default)
    if out.left < 0:
        raise Misfit("defaults of what is left out come to far more than what is there")
    out += default


def _unknown(value: Mapping[str, Any], names: frozenset[str]) -> Misfit:
    name = next(name for name in value if name not in names)
    told = short_name(name)
    if told != name:
        return Misfit(f"the schema has no field {told}")
    return Misfit("the schema has no such field", name)


def _array(put_item: Put) -> Put:
    def put(value: Any, out: Payload) -> None:
        if type(value) is not list:
            raise unlike("a list", value)
        if value:
            put_long(len(value), out)
            number = 0
            try:
                for item in value:
                    put_item(item, out)
                    number += 1
            except Misfit as misfit:
                misfit.path.append(number)
                raise
        out.append(0)

    return put


def _map(put_value: Put) -> Put:
    def put(value: Any, out: Payload) -> None:
        if type(value) is not dict:
            raise unlike("an object", value)
        if value:
            put_long(len(value), out)
            for name, inner in value.items():
                put_bytes(name.encode(), out)
                try:
                    put_value(inner, out)
                except Misfit as misfit:
                    misfit.path.append(name)
                    raise
        out.append(0)

    return put


def _union(kind: AvroType, inner: Sequence[_Type], is_default: bool) -> _Type:
    """A default is of the first type that takes it, an event of the plainest."""
    numbered = list(enumerate(inner))
    if not is_default:
        numbered.sort(key=lambda one: _rank(one[1].kind))
    takes = tuple(dict.fromkeys(kind_ for _, one in numbered for kind_ in one.takes))
    table = {
        taken: [(number, one) for number, one in numbered if taken in one.takes] for taken in takes
    }
    puts = {taken: _branch(found, is_default) for taken, found in table.items()}
    expected = " or ".join(dict.fromkeys(map(_told, inner)))[:200]

    def put(value: Any, out: Payload) -> None:
        put_branch = puts.get(type(value))
        if put_branch is None:
            raise unlike(expected, value)
        put_branch(value, out)

    return _Type(kind, put, takes)


def _rank(kind: AvroType) -> int:
    """Which types of a union are asked first."""
    if kind.logical:
        return 3
    return {"string": 0, "int": 0, "long": 0, "double": 1, "map": 3}.get(kind.name, 2)


def _told(one: _Type) -> str:
    told = one.kind.logical or one.kind.full_name or _TOLD.get(one.kind.name, one.kind.name)
    return short_name(told)


def _branch(found: Sequence[tuple[int, _Type]], is_default: bool) -> Put:
    """What writes values of one kind of JSON."""
    if len(found) == 1:
        number, only = found[0]
        return _numbered(number, only.put)
    is_object = any(dict in one.takes for _, one in found)
    if len(found) > (_MOST_RECORDS if is_object else _MOST_SCALARS):
        raise ConfigError("a union has more types than are told apart")
    if is_object:
        return _object(found, is_default)
    return _scalar([(number, one.put) for number, one in found])


def _numbered(number: int, put_value: Put) -> Put:
    head = Payload()
    put_long(number, head)
    begin = bytes(head)

    def put(value: Any, out: Payload) -> None:
        out += begin
        put_value(value, out)

    return put


def _scalar(puts: Sequence[tuple[int, Put]]) -> Put:
    """The first that takes it: none of these holds others, and so none takes long."""
    branches = [_numbered(*one) for one in puts]

    def put(value: Any, out: Payload) -> None:
        begin, reasons = len(out), list[str]()
        for put_branch in branches:
            try:
                put_branch(value, out)
            except Misfit as misfit:
                del out[begin:]
                reasons.append(misfit.reason)
            else:
                return
        raise Misfit("; or ".join(dict.fromkeys(reasons))[:400])

    return put


def _object(found: Sequence[tuple[int, _Type]], is_default: bool) -> Put:
    """The record that has these fields, or the map; told by names, and not by what is within."""
    records = [
        (
            one.kind.told,
            frozenset(inner.name for inner in one.kind.fields),
            frozenset(inner.name for inner in one.kind.fields if inner.default is ABSENT),
            _numbered(number, one.put),
        )
        for number, one in found
        if one.kind.name == "record"
    ]
    maps = [_numbered(number, one.put) for number, one in found if one.kind.name == "map"]
    told = ", ".join(name for name, *_ in records)[:200]

    def put(value: Any, out: Payload) -> None:
        given = value.keys()
        fit = [
            put_record
            for _, names, needed, put_record in records
            if len(needed) <= len(given) <= len(names) and given <= names and needed <= given
        ]
        if len(fit) > 1 and not is_default:
            raise Misfit(f"it could be more than one of {told}: nobody knows which is meant")
        if not fit and not maps:
            raise Misfit(f"it has the fields of none of {told}")
        (fit or maps)[0](value, out)

    return put
