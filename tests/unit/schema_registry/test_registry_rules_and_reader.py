"""What the registry judges compatible for Avro, a use case reads; logical types are beside that."""

import json
from itertools import count

import pytest
from hypothesis import find, given, settings
from hypothesis import strategies as st

from headrace.errors import ConfigError
from headrace.formats import Avro
from headrace.formats.avro.resolving import plan_of
from headrace.formats.avro.schema_text import parsed
from headrace.formats.avro.steps import Refusal, Symbol, within
from headrace.ports.schemas import WrittenSchema
from headrace.schema_registry.rules.avro_form import avro_form
from headrace.schema_registry.rules.avro_rules import avro_faults

#: reader -> writers, and a default of the reader
PLAIN = {
    "boolean": (["boolean"], True),
    "int": (["int"], -(2**31)),
    "long": (["long", "int"], 2**63 - 1),
    "float": (["float", "long", "int"], 0.1),
    "double": (["double", "float", "long", "int"], "NaN"),
    "string": (["string", "bytes"], "ü"),
    "bytes": (["bytes", "string"], "\xff"),
}
LOGICAL = {
    "int": [{"logicalType": "date"}, {"logicalType": "time-millis"}],
    "long": [{"logicalType": f"timestamp-{unit}"} for unit in ("millis", "micros")],
    "bytes": [{"logicalType": "decimal", "precision": 9, "scale": scale} for scale in (0, 2)],
    "string": [{"logicalType": "uuid"}],
}
SYMBOLS = st.lists(st.sampled_from("ABCD"), min_size=1, max_size=3, unique=True)


class Pair:
    """Draws a reader's type and a writer's that may be read as it, or nearly so."""

    def __init__(self, draw):
        self.draw, self.numbers = draw, count()

    def chance(self):
        return self.draw(st.integers(0, 19)) == 13

    def either(self):
        return self.draw(st.booleans())

    def one(self, depth):
        """Reader, writer, a default of the reader."""
        nested = ["array", "map", "record", "record", "null"] if depth else []
        kind = self.draw(st.sampled_from([*PLAIN, "enum", "fixed", *nested]))
        if kind in PLAIN:
            return self.plain(kind)
        reader, writer, default = getattr(self, kind)(depth - 1)
        return (
            reader,
            self.draw(st.sampled_from(sorted(PLAIN))) if self.chance() else writer,
            default,
        )

    def plain(self, kind):
        writers, default = PLAIN[kind]
        writer = self.draw(st.sampled_from([*PLAIN] if self.chance() else writers))
        if kind not in LOGICAL or not self.either():
            return kind, writer, default
        logical = self.draw(st.sampled_from(LOGICAL[kind]))
        default = "\x01" if kind == "bytes" else 1 if kind in ("int", "long") else default
        # The same, or none: another one is what the registry does not judge.
        same = writer == kind and self.either()
        return {"type": kind} | logical, {"type": writer} | logical if same else writer, default

    def named(self, kind, reader, writer):
        name = f"T{next(self.numbers)}"
        old = f"Old{name}" if self.chance() else name
        spaces = [{}, {"namespace": "a"}, {"namespace": "a.b"}]
        there = self.draw(st.sampled_from(spaces))
        aliases = [] if old == name else [".".join([*there.values(), old])]
        return (
            {"type": kind, "name": name, "aliases": aliases} | there | reader,
            {"type": kind, "name": old} | there | writer,
        )

    def enum(self, _):
        symbols, written = self.draw(SYMBOLS), self.draw(SYMBOLS)
        default = {"default": symbols[0]} if self.either() else {}
        written = written if default or self.chance() else symbols[::-1]
        pair = self.named("enum", {"symbols": symbols} | default, {"symbols": written})
        return *pair, symbols[-1]

    def fixed(self, _):
        size = self.draw(st.integers(1, 3))
        written = size + 1 if self.chance() else size
        return *self.named("fixed", {"size": size}, {"size": written}), "z" * size

    def array(self, depth):
        reader, writer, default = self.one(depth)
        return {"type": "array", "items": reader}, {"type": "array", "items": writer}, [default]

    def map(self, depth):
        reader, writer, default = self.one(depth)
        return {"type": "map", "values": reader}, {"type": "map", "values": writer}, {"k": default}

    def null(self, depth):
        reader, writer, _ = self.one(depth)
        if isinstance(reader, list):
            return reader, writer, None
        there = [writer] if not isinstance(writer, list) else writer
        others = st.sampled_from([there[0], ["null", *there], [*there, "null"], there, "null"])
        writer = self.draw(others) if "null" not in there else there
        return self.draw(st.sampled_from([["null", reader], [reader, "null"]])), writer, None

    def record(self, depth):
        readers, writers, default = [], [], {}
        for number in range(self.draw(st.integers(1, 3))):
            reader, writer, value = self.one(depth)
            name = f"f{number}"
            made = {"name": name, "type": reader}
            where = self.draw(st.sampled_from(["both", "both", "reader", "writer", "alias"]))
            if self.chance() is not (where == "reader"):
                made["default"] = value
            if where == "alias":
                made |= {"name": f"new{number}", "aliases": [] if self.chance() else [name]}
            if where != "reader":
                writers.append({"name": name, "type": writer})
            if where != "writer":
                readers.append(made)
                default[made["name"]] = value
        if self.either():
            writers.reverse()
        readers = readers or [{"name": "none", "type": "int", "default": 0}]
        return *self.named("record", {"fields": readers}, {"fields": writers}), default


@st.composite
def pairs(draw):
    """Texts of a reader and a writer, both of which a registry and a use case take."""
    reader, writer, _ = Pair(draw).record(3)
    return json.dumps(reader), json.dumps(writer)


def unread(reader, writer):
    """What a use case with this schema cannot read of what was written by the other."""
    try:
        steps = [plan_of(parsed(writer), parsed(reader))]
    except ConfigError as error:
        return [str(error)]
    found = []
    while steps:
        step = steps.pop()
        if isinstance(step, Refusal):
            found.append(step.reason)
        if isinstance(step, Symbol) and None in step.symbols:
            found.append("a symbol")
        steps += within(step)
    return found


def are_compatible(reader, writer):
    return not avro_faults(*(WrittenSchema("AVRO", text) for text in (reader, writer)))


@given(pairs())
def test_what_is_judged_compatible_is_read(pair):
    for text in pair:
        avro_form(text)
    Avro(pair[0])
    assert not are_compatible(*pair) or unread(*pair) == []


@pytest.mark.parametrize("answer", [True, False])
def test_both_answers_are_met_of_records_within_records(answer):
    found = find(
        pairs(),
        lambda pair: pair[0].count('"record"') > 1 and are_compatible(*pair) is answer,
        settings=settings(database=None, max_examples=5_000, derandomize=True),
    )
    assert found[0] != found[1]


def one(kind, **more):
    return json.dumps(
        {"type": "record", "name": "R", "fields": [{"name": "a", "type": kind} | more]}
    )


def logical(kind, name, **more):
    return one({"type": kind, "logicalType": name, **more})


@pytest.mark.parametrize(
    ("reader", "writer"),
    [
        (logical("long", "timestamp-micros"), logical("long", "timestamp-millis")),
        (logical("int", "time-millis"), logical("int", "date")),
        (
            logical("bytes", "decimal", precision=9, scale=3),
            logical("bytes", "decimal", precision=9, scale=2),
        ),
    ],
)
def test_another_logical_type_is_compatible_as_with_confluents_registry_and_not_read(
    reader, writer
):
    assert are_compatible(reader, writer)
    assert unread(reader, writer)


@pytest.mark.parametrize(
    "writer",
    [
        one(["null", "R"]),
        one(["null", {"type": "array", "items": []}]),
        one(["null", {"type": "fixed", "name": "F", "size": 2**31}]),
        json.dumps(
            {
                "type": "record",
                "name": "R",
                "fields": [
                    {"name": f"f{number}", "type": ["null", "int"]} for number in range(3_334)
                ],
            }
        ),
    ],
    ids=["holds itself", "no type", "2 GB", "10,003 types"],
)
def test_what_the_registry_takes_and_no_use_case_reads(writer):
    """docs/registry.md tells of each of them."""
    assert avro_form(writer)
    with pytest.raises(ConfigError):
        parsed(writer)


@pytest.mark.parametrize(
    ("reader", "writer"),
    [
        (one("int"), one("long")),
        (one("int"), one(["int", "string"])),
        (
            one({"type": "enum", "name": "E", "symbols": ["A"]}),
            one({"type": "enum", "name": "E", "symbols": ["A", "B"]}),
        ),
        (one("int", aliases=["b"]), json.dumps({"type": "record", "name": "R", "fields": []})),
    ],
)
def test_what_is_not_read_is_seen(reader, writer):
    assert unread(reader, writer)
    assert not are_compatible(reader, writer)
