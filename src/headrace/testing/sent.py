"""Values of a test as their writers would have sent them.

A test says what is in a record, as a dict; its bytes are the format's business. So a dict is
written by the schema that the use case reads by, under an id that the schemas of the test have, and
where nothing else is decoded it is JSON. Bytes are given as they are, and text as UTF-8: with these
a test can send what is none of the format's.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from headrace.errors import ConfigError
from headrace.formats import Avro
from headrace.formats.avro.writing import row_writer, written
from headrace.formats.framing import prefix_of
from headrace.ports import Format, SchemaKind, Schemas, WrittenSchema
from headrace.testing.schemas_fake import MemorySchemas

if TYPE_CHECKING:
    from headrace.formats import Protobuf

#: what stands for the value of a record: bytes as they are, text, or what a format has places for
Value = bytes | str | Mapping[str, Any] | Sequence[Any] | None


def sent(kind: Format | None, values: Sequence[Value], schemas: Schemas) -> list[bytes | None]:
    """The bytes of some values.

    Args:
        kind: that reads them; None: nothing is decoded.
        values: what is in them.
        schemas: where the schema of a dict is registered, if it is to have an id.

    Raises:
        ConfigError: a dict is nothing that the format's schema has an exact place for.
    """
    return [_bytes_of(kind, row, value, schemas) for row, value in enumerate(values)]


def _bytes_of(kind: Format | None, row: int, value: Value, schemas: Schemas) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, Mapping) and isinstance(kind, Avro):
        return _as_avro(kind, row, value, schemas)
    # Its library may be missing, so its class is not imported to look.
    if isinstance(value, Mapping) and type(kind).__name__ == "Protobuf":
        return _as_protobuf(kind, row, value)  # type: ignore[arg-type]
    framed = getattr(kind, "framing", "none") == "confluent"
    try:
        return (prefix_of(1) if framed else b"") + json.dumps(value).encode()
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"value {row} is no JSON: {error}; give an amount and a time as text, as a sender does"
        ) from error


def _as_avro(kind: Avro, row: int, value: Mapping[str, Any], schemas: Schemas) -> bytes:
    schema, made = WrittenSchema(SchemaKind.AVRO, kind.text), list[bytes | None]()
    if told := row_writer(written(schema), read_back=True)(dict(value), made):
        raise ConfigError(
            f"value {row} is none of the reader's schema: {told}; give a time as a datetime, and a "
            "bad record as bytes"
        )
    if kind.framing == "none":
        return made[0] or b""
    if not isinstance(schemas, MemorySchemas):
        raise ConfigError("a dict is given an id by MemorySchemas of headrace.testing.schemas_fake")
    return prefix_of(schemas.add(schema)) + (made[0] or b"")


def _as_protobuf(kind: Protobuf, row: int, value: Mapping[str, Any]) -> bytes:
    from headrace.formats.protobuf.filling import message_of  # noqa: PLC0415 - not everybody has it
    from headrace.formats.protobuf.messages import (  # noqa: PLC0415
        class_of,
        place_of,
        written_place,
    )

    descriptor = class_of(kind.name, kind.descriptors).DESCRIPTOR
    try:
        made: bytes = message_of(descriptor)(value).SerializeToString(deterministic=True)
    except Exception as error:
        raise ConfigError(
            f"value {row} is no {kind.name}: {error!r}; give a bad record as bytes"
        ) from error
    place = written_place(place_of(descriptor))[0]
    return (prefix_of(1) + place if kind.framing == "confluent" else b"") + made
