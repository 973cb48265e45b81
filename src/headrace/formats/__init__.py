"""Formats of records, for ``decode=`` and ``decode_key=`` of a use case.

``Json`` and ``Text`` are for ``encode=`` and ``encode_key=`` of the Kafka sink as well, and
``AvroOutput``, ``JsonSchemaOutput`` and ``ProtobufOutput`` are for these alone.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from headrace.errors import ConfigError
from headrace.formats.avro_output import AvroOutput
from headrace.formats.avro_records import Avro
from headrace.formats.json_records import Json
from headrace.formats.plain import Bytes
from headrace.formats.text import Text

if TYPE_CHECKING:
    from headrace.formats.json_schema_output import JsonSchemaOutput
    from headrace.formats.protobuf_output import ProtobufOutput
    from headrace.formats.protobuf_records import Protobuf

__all__ = [
    "Avro",
    "AvroOutput",
    "Bytes",
    "Json",
    "JsonSchemaOutput",
    "Protobuf",
    "ProtobufOutput",
    "Text",
]
#: of those whose library not everybody has, or that takes a while to import: the module
_APART = {
    "JsonSchemaOutput": "json_schema_output",
    "Protobuf": "protobuf_records",
    "ProtobufOutput": "protobuf_output",
}


def __getattr__(name: str) -> Any:
    """What is imported when it is used."""
    if name not in _APART:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(f"headrace.formats.{_APART[name]}"), name)
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"{name} needs the package protobuf: pip install 'headrace[protobuf]' ({error})"
        ) from error
