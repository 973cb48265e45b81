"""Formats of records, for ``decode=`` and ``decode_key=`` of a use case."""

from headrace.formats.avro_records import Avro
from headrace.formats.json_records import Json
from headrace.formats.plain import Bytes
from headrace.formats.text import Text

__all__ = ["Avro", "Bytes", "Json", "Text"]
