"""Visits of ten fields, as rows, JSON and Avro: what is decoded wherever decoding is measured.

About 280 bytes as JSON, 139 as Avro behind the id of a schema. Everybody makes the same ones, and a
visit's ``id`` is its place among them, so whoever has decoded one can look up what it was to be.
"""

from __future__ import annotations

import io
import json
import random
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import fastavro
import pyarrow as pa

from headrace.ports import SchemaKind, WrittenSchema
from headrace.testing.schemas_fake import MemorySchemas

COUNT = 20_000
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("lead", pa.string()),
        ("page", pa.string()),
        ("referrer", pa.string()),
        ("agent", pa.string()),
        ("status", pa.int32()),
        ("bytes", pa.int64()),
        ("seconds", pa.float64()),
        ("returning", pa.bool_()),
        ("campaign", pa.string()),
    ]
)
_AVRO_TYPES = {
    pa.int64(): "long",
    pa.int32(): "int",
    pa.string(): "string",
    pa.float64(): "double",
    pa.bool_(): "boolean",
}
#: as most schemas are: what is always there may not be null
AVRO = {
    "type": "record",
    "name": "Visit",
    "fields": [
        {
            "name": f.name,
            "type": ["null", "string"] if f.name == "campaign" else _AVRO_TYPES[f.type],
        }
        for f in SCHEMA
    ],
}
_ID = 7
#: Confluent's wire format: what stands in front of a record
FRAME = b"\0" + _ID.to_bytes(4)


def made_rows() -> list[dict[str, Any]]:
    """The visits; the same at every call."""
    chance = random.Random(7)

    def word(length: int) -> str:
        return "".join(chance.choices("abcdefghijklmnopqrstuvwxyz/-", k=length))

    return [
        {
            "id": number,
            "lead": word(12),
            "page": f"/{word(30)}",
            "referrer": f"https://{word(24)}",
            "agent": word(30),
            "status": chance.choice([200, 304, 404]),
            "bytes": chance.randrange(1 << 40),
            "seconds": chance.random(),
            "returning": chance.random() < 0.5,
            "campaign": None if chance.random() < 0.5 else word(8),
        }
        for number in range(COUNT)
    ]


@lru_cache(maxsize=1)
def expected() -> pa.Table:
    """What all of them are, decoded."""
    return pa.Table.from_pylist(made_rows(), SCHEMA)


def json_values(rows: Sequence[dict[str, Any]]) -> list[bytes]:
    """Each as JSON."""
    return [json.dumps(row).encode() for row in rows]


def avro_values(rows: Sequence[dict[str, Any]]) -> list[bytes]:
    """Each as Avro, with the id of its schema in front."""
    parsed: Any = fastavro.parse_schema(AVRO)
    return [FRAME + _written(parsed, row) for row in rows]


def _written(parsed: Any, row: dict[str, Any]) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, parsed, row)
    return stream.getvalue()


def registry() -> MemorySchemas:
    """A registry that has the schema of these, and no other."""
    return MemorySchemas({_ID: WrittenSchema(SchemaKind.AVRO, json.dumps(AVRO))})
