"""JSON objects out of columns, whose JSON Schema has an id in a registry.

How columns become JSON is ``Json``'s business, and so it is exact or refused (`json_output.py`).
What is made is then held against the schema that it is written by: that of the use case, or the
newest of a registry, if one writes by that. A row that the schema does not take is told with its
column and the word of the schema that refuses it. Columns that no row could have are told by their
name before that: one that the schema does not allow, or one that it requires and that is not there.

Numbers are judged with all of their digits, and so are those of the schema: as a double, a decimal
just above a ``maximum`` would be that.

A pattern is matched in linear time, and one that cannot be is refused. Nothing is fetched: what a
schema refers to is in it, or is told with it by the registry.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, Unpack

import jsonschema_rs
import msgspec
import pyarrow as pa

from headrace.errors import ConfigError, WrongSchema, shortened
from headrace.formats.json_keywords import KEYWORDS
from headrace.formats.json_records import Json
from headrace.formats.registered import HowRegistered, to_register
from headrace.formats.schema_file import schema_text
from headrace.ports import Encoded, SchemaKind, SchemaToRegister, Unencoded, WrittenSchema

_MOST_TOLD = 200


def _exact(number: str) -> Decimal | float:
    """A number with all of its digits, unless it is too large or too small for any double."""
    rounded = float(number)
    return Decimal(number) if rounded and math.isfinite(rounded) else rounded


def _said(number: str) -> Decimal | float:
    """A number of a schema; one without a part is an integer: beside 1.0 all would be doubles."""
    exact = _exact(number)
    return int(exact) if math.isfinite(exact) and exact == int(exact) else exact


_parsed = msgspec.json.Decoder(float_hook=_exact).decode


@dataclass(frozen=True, slots=True, init=False)
class JsonSchemaOutput:
    """JSON with a registered schema.

    Example: ``KafkaTopic("{tenant}.pages", encode=JsonSchemaOutput(columns, "page.json"))``
    """

    objects: Json
    registers: SchemaToRegister

    def __init__(
        self,
        columns: pa.Schema,
        schema: str | Path | Mapping[str, Any],
        *,
        names: Mapping[str, str] | None = None,
        **how: Unpack[HowRegistered],
    ) -> None:
        """Say what is written, and how its schema comes by its id, as Confluent's clients have it.

        Args:
            columns: names and types, as for ``Json``.
            schema: the JSON Schema, as a dict, its JSON, or the path of a file, which is read now.
            names: column -> name in the record, where that is another.
            how: see ``HowRegistered``, such as ``auto_register_schemas=False``.

        Raises:
            ConfigError: the columns or the schema cannot be, or the columns do not suit it.
        """
        own = WrittenSchema(SchemaKind.JSON, schema_text(schema, "a JSON Schema"))
        title = _judge(own).tree.get("title")
        object.__setattr__(self, "objects", Json(columns, names=names))
        object.__setattr__(self, "registers", to_register(own, str(title or ""), **how))
        if told := self._misfit(columns, own):
            raise ConfigError(told)

    def takes(self, column: Literal["value", "key"]) -> dict[str, bool]:
        """The columns; one that may be null may be left out."""
        return self.objects.takes(column)

    def check(self, found: pa.Schema, schema: WrittenSchema | None = None) -> None:
        """They have the types that were said, and names that the schema allows."""
        self.objects.check(found)
        if told := self._misfit(found, schema or self.registers.schema):
            raise WrongSchema(told)

    def encode(self, rows: pa.Table, schema: WrittenSchema | None) -> Encoded:
        """An object for each row, which decodes to it and which the schema takes."""
        try:
            self.check(rows.schema, schema)
        except (ConfigError, WrongSchema) as error:
            told = str(error)
            return Encoded([], tuple(Unencoded(row, told) for row in range(rows.num_rows)))
        judge = _judge(schema or self.registers.schema)
        made = self.objects.encode(rows, None)
        unencoded, payloads = dict(made.unencoded), list[bytes | None]()
        given = iter(made.payloads)
        columns = {name: column for column, name in self.objects.names}
        for row in range(rows.num_rows):
            if row in unencoded:
                continue
            payload = next(given)
            if told := judge.refusal(payload or b"", columns):
                unencoded[row] = told
            else:
                payloads.append(payload)
        return Encoded(payloads, tuple(Unencoded(*one) for one in sorted(unencoded.items())))

    def _misfit(self, found: pa.Schema, schema: WrittenSchema) -> str:
        """What is told of a column that no row may have by the schema, or that each has to have."""
        tree = _judge(schema).tree
        if "$ref" in tree:  # what stands beside it may count for nothing
            return ""
        names = {self._name(name): name for name in found.names}
        if tree.get("additionalProperties") is False and "patternProperties" not in tree:
            unknown = names.keys() - tree.get("properties", {}).keys()
            if unknown:
                return f"column {names[min(unknown)]!r}: the schema has no such property"
        required = tree.get("required", [])
        missing = [name for name in required if name not in names]
        return f"column {missing[0]!r} is not there: the schema requires it" if missing else ""

    def _name(self, column: str) -> str:
        return dict(self.objects.names).get(column, column)


@dataclass(frozen=True, slots=True, eq=False)
class _Judge:
    """A schema that one writes by."""

    tree: Mapping[str, Any]
    validator: jsonschema_rs.Validator

    def refusal(self, payload: bytes, columns: Mapping[str, str]) -> str:
        """What the schema has against an object, and nothing of its values; empty: nothing."""
        found = _parsed(payload)
        try:
            if self.validator.is_valid(found):
                return ""
            error = next(iter(self.validator.iter_errors(found)))
            word, place = _word(error), [*error.instance_path]
        except ValueError:  # more than 255 levels are judged, and not told
            return "it does not fit the schema"
        if not place:
            return f"it does not fit the schema's {word}"
        name = str(place[0])
        return f"column {columns.get(name, name)}: it does not fit the schema's {word}"


def _word(error: jsonschema_rs.ValidationError) -> str:
    """The word of the schema that refuses a value."""
    words = [word for word in error.schema_path if isinstance(word, str)]
    return words[-1] if words else "false"


@lru_cache(maxsize=256)
def _judge(schema: WrittenSchema) -> _Judge:
    """What is written by a schema.

    Raises:
        ConfigError: it is none.
    """
    if schema.kind is not SchemaKind.JSON:
        raise ConfigError(f"it is {schema.kind}, and JSON is written")
    try:
        tree = json.loads(schema.text, parse_float=_said)
        others = [(name, json.loads(text, parse_float=_said)) for name, text in schema.references]
    except (ValueError, RecursionError):
        raise ConfigError("a JSON Schema is no JSON") from None
    if not isinstance(tree, dict):
        raise ConfigError("a JSON Schema that one writes by is an object")
    try:
        validator = jsonschema_rs.validator_for(
            tree,
            registry=jsonschema_rs.Registry(others),
            offline=True,
            pattern_options=jsonschema_rs.RegexOptions(),
            validate_formats=False,
            keywords=dict(KEYWORDS),
        )
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
        words = shortened(str(getattr(error, "message", error)), _MOST_TOLD)
        raise ConfigError(f"this is no JSON Schema that one can write by: {words}") from error
    return _Judge(tree, validator)
