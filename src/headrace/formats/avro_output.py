"""Avro records out of columns, each after the id that a registry gave to their schema.

``fastavro`` writes what it is given: 1.5 as the ``int`` 1, a number of 40 bits as an ``int`` that
no reader takes, 1e300 as an infinite ``float``, a time without a zone as one in UTC. Whoever reads
it would never know. So each row is compared with the schema before it is written, and columns whose
type alone loses something are refused by their name: a ``float`` needs a column of ``float32``,
``timestamp-millis`` one of milliseconds with a zone, ``local-timestamp-*`` one without a zone.

A column has the name of a field of the record; one whose field has a default may be left out. A
schema that is no record is written from the column ``value``, or ``key``. The registry is not asked
here, and no payload is null.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, get_args

import pyarrow as pa

from headrace.errors import ConfigError, WrongSchema, shortened
from headrace.formats.python_rows import python_rows
from headrace.ports import (
    Encoded,
    Registering,
    SchemaKind,
    SchemaToRegister,
    SubjectNames,
    Unencoded,
    WrittenSchema,
)

#: logical type -> units of columns whose times it can hold
_UNITS = {"millis": ("s", "ms"), "micros": ("s", "ms", "us")}
#: what fastavro raises for what is in a row
_REFUSALS = (ValueError, TypeError, KeyError, AttributeError, IndexError, OverflowError)


@dataclass(frozen=True, slots=True, init=False)
class AvroOutput:
    """Avro with a registered schema: a zero byte, the schema's id, and the record.

    Example: ``KafkaTopic("{tenant}.pages", encode=AvroOutput(schema))``
    """

    registers: SchemaToRegister

    def __init__(
        self,
        schema: str | Mapping[str, Any],
        *,
        auto_register_schemas: bool = True,
        use_latest_version: bool = False,
        normalize_schemas: bool = False,
        subject_name_strategy: SubjectNames = "TopicNameStrategy",
    ) -> None:
        """Say what is written, and how its schema comes by its id, as Confluent's clients have it.

        Args:
            schema: as JSON text, or what that is in Python.
            auto_register_schemas: register it where it is not; else it has to be there.
            use_latest_version: write by the newest schema of the subject.
            normalize_schemas: the registry is to see that two texts mean the same.
            subject_name_strategy: ``TopicNameStrategy`` (``<topic>-value``),
                ``RecordNameStrategy`` or ``TopicRecordNameStrategy``.

        Raises:
            ConfigError: the schema cannot be, or fastavro is not installed.
        """
        text = schema if isinstance(schema, str) else json.dumps(schema)
        written = WrittenSchema(SchemaKind.AVRO, text)
        if subject_name_strategy not in get_args(SubjectNames):
            known = ", ".join(get_args(SubjectNames))
            raise ConfigError(f"subject_name_strategy {subject_name_strategy!r} is none of {known}")
        how = Registering(auto_register_schemas, use_latest_version, normalize_schemas)
        name = _name(_parsed(written))
        registers = SchemaToRegister(written, name, subject_name_strategy, how)
        object.__setattr__(self, "registers", registers)

    @property
    def needs_registry(self) -> bool:
        """Always."""
        return True

    def takes(self, column: Literal["value", "key"]) -> dict[str, bool]:
        """The fields; one with a default need not be there."""
        parsed = _parsed(self.registers.schema)
        if not _is_record(parsed):
            return {column: True}
        return {field["name"]: "default" not in field for field in parsed["fields"]}

    def check(self, found: pa.Schema) -> None:
        """Refuse columns whose type loses what their values say."""
        parsed = _parsed(self.registers.schema)
        fields = parsed["fields"] if _is_record(parsed) else [{"name": "", "type": parsed}]
        types = {field["name"]: field["type"] for field in fields}
        for column in found:
            told = _loss(types.get(column.name, types.get("")), column.type)
            if told:
                raise WrongSchema(f"column {column.name!r} is {column.type}: {told}")

    def encode(self, rows: pa.Table, schema: WrittenSchema | None) -> Encoded:
        """One by one: what the schema does not take is told with its column."""
        made, unencoded = list[bytes | None](), list[Unencoded]()
        write = _writer(schema or self.registers.schema)
        for row, values in enumerate(python_rows(rows)):
            told = values if isinstance(values, str) else write(values, made)
            if told:
                unencoded.append(Unencoded(row, told))
        return Encoded(made, tuple(unencoded))


def _name(parsed: Any) -> str:
    """Under which a schema is registered, where subjects are called by records."""
    if isinstance(parsed, list):
        raise ConfigError("a union is not what one writes by: name its record")
    return str(parsed.get("name", parsed["type"]) if isinstance(parsed, dict) else parsed)


def _is_record(parsed: Any) -> bool:
    return isinstance(parsed, dict) and parsed["type"] == "record"


@lru_cache(maxsize=256)
def _parsed(schema: WrittenSchema) -> Any:
    """What fastavro makes of a text; it travels nowhere.

    Raises:
        ConfigError: it is no schema.
    """
    try:
        from fastavro import parse_schema  # noqa: PLC0415 - only who writes Avro needs it
        from fastavro.schema import SchemaParseException, UnknownType  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise ConfigError(
            "AvroOutput needs fastavro, which is not here: pip install 'headrace[avro]'"
        ) from error
    named: dict[str, Any] = {}
    try:
        for _, text in schema.references:
            parse_schema(json.loads(text), named)
        return parse_schema(json.loads(schema.text), named)
    except (SchemaParseException, UnknownType, *_REFUSALS) as error:
        raise ConfigError(f"this is no Avro schema: {type(error).__name__}: {error}") from error


def _writer(schema: WrittenSchema) -> Callable[[dict[str, Any], list[bytes | None]], str]:
    """What appends the payload of a row, or says why there is none."""
    from fastavro import schemaless_writer, validate  # noqa: PLC0415
    from fastavro.validation import ValidationError  # noqa: PLC0415

    parsed = _parsed(schema)
    is_record = _is_record(parsed)

    def write(values: dict[str, Any], made: list[bytes | None]) -> str:
        given = values if is_record else next(iter(values.values()))
        out = io.BytesIO()
        try:
            validate(given, parsed)
            schemaless_writer(out, parsed, given, strict_allow_default=True)
        except ValidationError as error:
            return _told(error, parsed)
        except _REFUSALS as error:
            # Those of fastavro name a field; none of them quotes a value.
            return f"it cannot be written: {type(error).__name__}: {shortened(str(error), 300)}"
        made.append(out.getvalue())
        return ""

    return write


def _told(error: Any, parsed: Any) -> str:
    """Which field does not fit, and what was expected; nothing of its value."""
    found = list(error.errors)
    field = str(found[0].field).removeprefix(f"{_name(parsed)}.") or "of the payload"
    expected = {_kind(one.schema): None for one in found}
    datum = type(found[0].datum).__name__
    few = " (it has more bits)" if datum == "int" and expected.keys() <= {"int", "long"} else ""
    return f"column {field}: {datum} is not {' or '.join(expected)}{few}"


def _kind(schema: Any) -> str:
    if isinstance(schema, list):
        return " or ".join(map(_kind, schema))
    if not isinstance(schema, dict):
        return str(schema)
    return str(schema.get("logicalType") or schema.get("name") or schema["type"])


def _loss(avro: Any, arrow: Any) -> str:
    """What values of an Arrow type would lose as one of Avro's, and what to do."""
    if isinstance(avro, list):
        kinds = [kind for kind in avro if kind != "null"]
        return _loss(kinds[0], arrow) if len(kinds) == 1 else ""
    if avro == "float" and pa.types.is_float64(arrow):
        return "a float of Avro has 32 bits; cast it to float32, or say double in the schema"
    if not isinstance(avro, dict):
        return ""
    if pa.types.is_timestamp(arrow):
        return _time_loss(str(avro.get("logicalType", "")), arrow)
    return next(filter(None, (_loss(*pair) for pair in _inner(avro, arrow))), "")


def _inner(avro: Mapping[str, Any], arrow: Any) -> Iterator[tuple[Any, Any]]:
    """What is within both."""
    if avro["type"] == "array" and pa.types.is_list(arrow):
        yield avro["items"], arrow.value_type
    elif avro["type"] == "map" and pa.types.is_map(arrow):
        yield avro["values"], arrow.item_type
    elif avro["type"] == "record" and pa.types.is_struct(arrow):
        types = {field.name: field.type for field in arrow}
        for field in avro["fields"]:
            if field["name"] in types:
                yield field["type"], types[field["name"]]


def _time_loss(logical: str, arrow: Any) -> str:
    kind, _, unit = logical.rpartition("-")
    if kind not in ("timestamp", "local-timestamp") or unit not in _UNITS:
        return "the schema has no time there"
    if (arrow.tz is None) is (kind == "timestamp"):
        has = "a zone" if arrow.tz else "no zone"
        return f"{logical} is not a time with {has}"
    if arrow.unit not in _UNITS[unit]:
        return f"{logical} has not its digits; cast it to timestamp('{_UNITS[unit][-1]}')"
    return ""
