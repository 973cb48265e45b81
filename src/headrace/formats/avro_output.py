"""Avro records out of columns, whose schema has an id in a registry.

A value is written as what it is, or refused: each row by itself, and columns whose type alone loses
something by their name. ``timestamp-*`` needs a column with a zone, ``local-timestamp-*`` one
without a zone; of a column in a finer unit each value has to be a whole number of the schema's, and
of floats of 64 bits one that a ``float`` has, where that is its place. So it is with the schema of
the use case, and with the newest of a registry, if one writes by that (`avro/writing.py`).

A column has the name of a field of the record; one whose field has a default may be left out. A
schema that is no record is written from the column ``value``, or ``key``. The registry is not asked
here, and no payload is null.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Unpack

import pyarrow as pa

from headrace.errors import ConfigError, WrongSchema
from headrace.formats.avro.schema_text import ABSENT, json_of
from headrace.formats.avro.writing import Write, writer, written
from headrace.formats.python_rows import python_rows
from headrace.formats.registered import HowRegistered, to_register
from headrace.formats.schema_file import schema_text
from headrace.ports import (
    Encoded,
    SchemaKind,
    SchemaToRegister,
    Unencoded,
    WrittenSchema,
)


@dataclass(frozen=True, slots=True, init=False)
class AvroOutput:
    """Avro with a registered schema.

    Example: ``KafkaTopic("{tenant}.pages", encode=AvroOutput(schema))``
    """

    registers: SchemaToRegister

    def __init__(
        self,
        schema: str | Path | Mapping[str, Any],
        **how: Unpack[HowRegistered],
    ) -> None:
        """Say what is written, and how its schema comes by its id, as Confluent's clients have it.

        Args:
            schema: as a dict, its JSON, or the path of a file, which is read now.
            how: see ``HowRegistered``, such as ``auto_register_schemas=False``.

        Raises:
            ConfigError: the schema cannot be, or fastavro is not installed.
        """
        text = schema_text(schema, "a schema of Avro")
        if isinstance(name_alone := json_of(text), str):
            text = json.dumps(name_alone)
        own = WrittenSchema(SchemaKind.AVRO, text)
        kind = written(own).kind
        registers = to_register(own, kind.full_name or kind.name, **how)
        object.__setattr__(self, "registers", registers)

    def takes(self, column: Literal["value", "key"]) -> dict[str, bool]:
        """The fields; one with a default need not be there."""
        own = written(self.registers.schema)
        if not own.is_record:
            return {column: True}
        return {field.name: field.default is ABSENT for field in own.kind.fields}

    def check(self, found: pa.Schema, schema: WrittenSchema | None = None) -> None:
        """Refuse columns whose type loses what their values say."""
        self._writer(found, schema)

    def encode(self, rows: pa.Table, schema: WrittenSchema | None) -> Encoded:
        """One by one: what the schema does not take is told with its column."""
        made, unencoded = list[bytes | None](), list[Unencoded]()
        try:
            write = self._writer(rows.schema, schema)
        except (ConfigError, WrongSchema) as error:
            told = str(error)
            return Encoded(made, tuple(Unencoded(row, told) for row in range(rows.num_rows)))
        for row, values in enumerate(python_rows(rows)):
            told = values if isinstance(values, str) else write(values, made)
            if told:
                unencoded.append(Unencoded(row, told))
        return Encoded(made, tuple(unencoded))

    def _writer(self, columns: pa.Schema, schema: WrittenSchema | None) -> Write:
        own = self.registers.schema
        return writer(schema or own, written(own).is_record, columns)
