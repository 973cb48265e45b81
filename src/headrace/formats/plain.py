"""Bytes, as they are."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from headrace.ports import Decoded, Payloads


@dataclass(frozen=True, slots=True)
class Bytes:
    """What a handler is given without ``decode=``, said by name: the column as it is."""

    def schema(self, column: str) -> pa.Schema:
        """The same column."""
        return pa.schema([pa.field(column, pa.binary())])

    def decode(self, payloads: Payloads) -> Decoded:
        """Nothing is refused."""
        return Decoded(pa.Table.from_arrays([payloads.bytes], schema=self.schema(payloads.column)))
