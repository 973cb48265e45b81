"""Formats of records, for ``decode=`` and ``decode_key=`` of a use case.

``Json`` and ``Text`` are for ``encode=`` and ``encode_key=`` of the Kafka sink as well, and
``AvroOutput`` is for these alone.
"""

from headrace.formats.avro_output import AvroOutput
from headrace.formats.json_records import Json
from headrace.formats.text import Text

__all__ = ["AvroOutput", "Json", "Text"]
