"""Formats of records, for ``decode=`` and ``decode_key=`` of a use case.

``Json`` and ``Text`` are for ``encode=`` and ``encode_key=`` of the Kafka sink as well, and
``AvroOutput`` is for these alone.
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
    from headrace.formats.protobuf_records import Protobuf

__all__ = ["Avro", "AvroOutput", "Bytes", "Json", "Protobuf", "Text"]


def __getattr__(name: str) -> Any:
    """``Protobuf``, whose library not everybody has."""
    if name != "Protobuf":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return import_module("headrace.formats.protobuf_records").Protobuf
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"Protobuf needs the package protobuf: pip install 'headrace[protobuf]' ({error})"
        ) from error
