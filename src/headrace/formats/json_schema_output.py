"""JSON objects out of columns, whose JSON Schema has an id in a registry.

How columns become JSON is ``Json``'s business, and so it is exact or refused (`json_output.py`).
What is made is then held against the schema that it is written by: that of the use case, or the
newest of a registry, if one writes by that. A row that the schema does not take is told with its
column and the word of the schema that refuses it. Columns that no row could have are told by their
name before that: one that the schema does not allow, or one that it requires and that is not there.

What a schema takes is told in ``json_judge``. The newest of a registry is somebody else's, so none
is used that could hold a worker, and no row is judged that would (``json_weight``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Unpack

import jsonschema_rs
import pyarrow as pa

from headrace.errors import ConfigError, WrongSchema
from headrace.formats.json_judge import JsonJudge, exactly, judge_of
from headrace.formats.json_records import Json
from headrace.formats.json_weight import values_of
from headrace.formats.registered import HowRegistered, to_register
from headrace.formats.schema_file import schema_text
from headrace.ports import Encoded, SchemaKind, SchemaToRegister, Unencoded, WrittenSchema

#: words whose fault holds those of all that they lead to
_ALTERNATIVES = ("anyOf", "oneOf")
#: faults that are made in one go, were there one for each value and each part of the schema: a
#: fifth of a second
_MOST_TOGETHER = 20_000


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
        title = judge_of(own).tree.get("title")
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
        judge = judge_of(schema or self.registers.schema)
        made = self.objects.encode(rows, None)
        unencoded, payloads = dict(made.unencoded), list[bytes | None]()
        given = iter(made.payloads)
        columns = {name: column for column, name in self.objects.names}
        for row in range(rows.num_rows):
            if row in unencoded:
                continue
            payload = next(given)
            if told := _refusal(judge, payload or b"", columns):
                unencoded[row] = told
            else:
                payloads.append(payload)
        return Encoded(payloads, tuple(Unencoded(*one) for one in sorted(unencoded.items())))

    def _misfit(self, found: pa.Schema, schema: WrittenSchema) -> str:
        """What is told of a column that no row may have by the schema, or that each has to have."""
        tree = judge_of(schema).tree
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


def _refusal(judge: JsonJudge, payload: bytes, columns: Mapping[str, str]) -> str:
    """What a schema has against an object, and nothing of its values; empty: nothing."""
    if told := judge.weight.refusal(payload):
        return told
    found = exactly(payload)
    if judge.validator.is_valid(found):
        return ""
    error = _first_error(judge, found, values_of(payload))
    if error is None:
        return "it does not fit the schema"
    if not error.instance_path:
        return f"it does not fit the schema's {_word(error)}"
    name = str(error.instance_path[0])
    return f"column {columns.get(name, name)}: it does not fit the schema's {_word(error)}"


def _first_error(
    judge: JsonJudge, found: object, values: int
) -> jsonschema_rs.ValidationError | None:
    """What the schema has against a value that does not fit; None: to tell that takes too long."""
    if judge.weight.parts * values > _MOST_TOGETHER and _has_alternatives(judge):
        return None
    try:
        judge.validator.validate(found)
    except jsonschema_rs.ValidationError as error:
        return error
    except ValueError:  # more than 255 levels are judged, and not told
        pass
    return None


def _has_alternatives(judge: JsonJudge) -> bool:
    """Whether what it has against a value may hold all that each of several has against it."""
    todo = [judge.tree, *judge.others.values()]
    while todo:
        part = todo.pop()
        if isinstance(part, list):
            todo += part
        elif isinstance(part, Mapping):
            if not part.keys().isdisjoint(_ALTERNATIVES):
                return True
            todo += part.values()
    return False


def _word(error: jsonschema_rs.ValidationError) -> str:
    """The word of the schema that refuses a value."""
    words = [word for word in error.schema_path if isinstance(word, str)]
    return words[-1] if words else "false"
