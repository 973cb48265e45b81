"""Formats: what the bytes of a record mean, as columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import pyarrow as pa


class Undecoded(NamedTuple):
    """Bytes that are not what the format says."""

    #: of the payloads that were given
    row: int
    #: with the place within, as ``$.lead.id``; nothing of the bytes
    reason: str


@dataclass(frozen=True, slots=True)
class Decoded:
    """What many payloads are."""

    #: a row for each payload that could be decoded, in their order
    columns: pa.Table
    #: the others, in their order
    undecoded: tuple[Undecoded, ...] = ()


class Format(Protocol):
    """Turns the values or the keys of records into columns. Travels to the tasks by pickle.

    The same bytes give the same row, whatever is decoded beside or before them: a call that was
    repeated, or cut elsewhere, is not to be seen in its outcome.
    """

    def schema(self, column: str) -> pa.Schema:
        """What stands in the place of ``column``, which is ``value`` or ``key``."""

    def decode(self, payloads: pa.ChunkedArray[Any]) -> Decoded:
        """Decode binary payloads, of which some may be null; never raises for what is in them.

        ``columns`` has the types and the order of ``schema``, and its names but where a format
        gives one column, which has the name of the column that it replaces.
        """
