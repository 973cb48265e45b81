"""Avro records of the rows of a table, each the same as its columns say, or refused.

``fastavro`` writes what it is given: 1.5 as the ``int`` 1, a number of 40 bits as an ``int`` that
no reader takes, 1e300 as an infinite ``float``, a time without a zone as one in UTC. Whoever reads
it would never know. So types of columns are judged first (`fitting.py`), each row is compared with
the schema before it is written, and where types do not tell, what was written is read back.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from uuid import UUID

import pyarrow as pa

from headrace.errors import ConfigError, WrongSchema, shortened
from headrace.formats.avro.fitting import by_value, fields_misfit, misfit
from headrace.formats.avro.schema_text import AvroType, json_of, parsed
from headrace.ports import SchemaKind, WrittenSchema

#: what fastavro raises for what is in a row, or in a schema
_REFUSALS = (
    ValueError,
    TypeError,
    KeyError,
    AttributeError,
    IndexError,
    ArithmeticError,
    struct.error,
)
#: appends the payload of a row, or says why there is none
Write = Callable[[dict[str, Any], list[bytes | None]], str]


@dataclass(frozen=True, slots=True, eq=False)
class Written:
    """A schema that one can write by."""

    kind: AvroType
    #: what fastavro makes of it; it travels nowhere
    prepared: Any

    @property
    def is_record(self) -> bool:
        """Whether columns are its fields; else there is one column."""
        return self.kind.name == "record"


@lru_cache(maxsize=256)
def written(schema: WrittenSchema) -> Written:
    """What is written by a schema.

    Raises:
        ConfigError: it is none, or none that one writes by, or fastavro is not installed.
    """
    if schema.kind is not SchemaKind.AVRO:
        raise ConfigError(f"it is {schema.kind}, and Avro is written")
    kind = parsed(schema.text, schema.references)
    if kind.name == "union":
        raise ConfigError("a union is not what one writes by: name its record")
    return Written(kind, _prepared(schema))


@lru_cache(maxsize=256)
def writer(schema: WrittenSchema, is_record: bool, columns: pa.Schema) -> Write:
    """What writes rows with these columns.

    Args:
        schema: that of the payloads.
        is_record: whether the columns are meant as the fields of a record.
        columns: of the rows.

    Raises:
        ConfigError: nothing is written by the schema.
        WrongSchema: a column would lose something; it is named.
    """
    by = written(schema)
    if by.is_record is not is_record:
        raise ConfigError("of two schemas for the same columns one is a record, and one is none")
    types = {column.name: column.type for column in columns}
    if is_record:
        name, told = fields_misfit(by.kind, types)
        doubt = not told and by_value(by.kind, pa.struct(list(columns)))
    else:
        name, arrow = next(iter(types.items()))
        told = misfit(by.kind, arrow)
        doubt = not told and by_value(by.kind, arrow)
    if told:
        found = f"is {types[name]}" if name in types else "is not there"
        raise WrongSchema(f"column {name!r} {found}: {told}")
    return row_writer(by, read_back=doubt)


def _prepared(schema: WrittenSchema) -> Any:
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
            parse_schema(_unwrapped(json_of(text)), named)
        return parse_schema(_unwrapped(json_of(schema.text)), named)
    except (SchemaParseException, UnknownType, *_REFUSALS) as error:
        raise ConfigError(f"this is no Avro schema: {type(error).__name__}: {error}") from error


def _unwrapped(schema: Any) -> Any:
    """The same with ``{"type": {...}}`` as what is in it: fastavro takes it, and fails later."""
    if isinstance(schema, list):
        return [_unwrapped(branch) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    if isinstance(schema["type"], (dict, list)):
        return _unwrapped(schema["type"])
    inner = {key: _unwrapped(schema[key]) for key in ("items", "values") if key in schema}
    if isinstance(schema.get("fields"), list):
        inner["fields"] = [{**one, "type": _unwrapped(one["type"])} for one in schema["fields"]]
    return {**schema, **inner}


def row_writer(by: Written, *, read_back: bool) -> Write:
    """What writes rows by a schema; with ``read_back`` what is written is compared with its row."""
    from fastavro import schemaless_reader, schemaless_writer, validate  # noqa: PLC0415
    from fastavro.validation import ValidationError  # noqa: PLC0415

    def write(values: dict[str, Any], made: list[bytes | None]) -> str:
        given = values if by.is_record else next(iter(values.values()))
        out = io.BytesIO()
        try:
            validate(given, by.prepared)
            schemaless_writer(out, by.prepared, given, strict_allow_default=True)
            if read_back:
                again: Any = schemaless_reader(io.BytesIO(out.getvalue()), by.prepared, None)
                if name := _changed(values, again if by.is_record else {next(iter(values)): again}):
                    return f"column {name}: the schema has no exact place for its value"
        except ValidationError as error:
            return _told(error, by.kind)
        except _REFUSALS as error:
            # Those of fastavro name a field; none of them quotes a value.
            return f"it cannot be written: {type(error).__name__}: {shortened(str(error), 300)}"
        made.append(out.getvalue())
        return ""

    return write


def _changed(given: dict[str, Any], again: dict[str, Any]) -> str:
    """The column whose value is another one when it is read; of a default nothing was given."""
    return next((name for name, value in given.items() if not _same(value, again[name])), "")


def _same(given: Any, again: Any) -> bool:
    if isinstance(given, dict):
        return isinstance(again, dict) and all(
            name in again and _same(value, again[name]) for name, value in given.items()
        )
    if isinstance(given, list):
        return isinstance(again, list) and all(map(_same, given, again))
    if isinstance(given, float) and given != given:  # noqa: PLR0124 - what is no number
        return bool(again != again)  # noqa: PLR0124
    if isinstance(again, UUID):
        return str(again) == str(given).lower()
    return bool(given == again)


def _told(error: Any, kind: AvroType) -> str:
    """Which field does not fit, and what was expected; nothing of its value."""
    found = list(error.errors)
    name = kind.full_name or kind.name
    field = str(found[0].field).removeprefix(f"{name}.") or "of the payload"
    expected = {_expected(one.schema): None for one in found}
    datum = type(found[0].datum).__name__
    few = " (it has more bits)" if datum == "int" and expected.keys() <= {"int", "long"} else ""
    return f"column {field}: {datum} is not {' or '.join(expected)}{few}"


def _expected(schema: Any) -> str:
    if isinstance(schema, list):
        return " or ".join(map(_expected, schema))
    if not isinstance(schema, dict):
        return str(schema)
    return str(schema.get("logicalType") or schema.get("name") or schema["type"])
