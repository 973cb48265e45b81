"""Text in UTF-8, as a column of strings, and back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pyarrow as pa
import pyarrow.types as at

from headrace.errors import WrongSchema
from headrace.ports import Decoded, Encoded, Payloads, Undecoded, WrittenSchema


@dataclass(frozen=True, slots=True)
class Text:
    """UTF-8: the column keeps its name, and is one of strings; null stays null."""

    def schema(self, column: str) -> pa.Schema:
        """The same column, of strings."""
        return pa.schema([pa.field(column, pa.string())])

    def decode(self, payloads: Payloads) -> Decoded:
        """All at once, or one by one where something is none."""
        try:
            return Decoded(pa.Table.from_arrays([payloads.bytes.cast(pa.string())], ["text"]))
        except pa.ArrowInvalid:
            pass
        texts: list[str | None] = []
        undecoded: list[Undecoded] = []
        for row, payload in enumerate(payloads.bytes.to_pylist()):
            try:
                texts.append(None if payload is None else payload.decode())
            except UnicodeDecodeError as error:
                undecoded.append(Undecoded(row, f"no UTF-8: {error.reason} at byte {error.start}"))
        return Decoded(pa.table({"text": pa.array(texts, pa.string())}), tuple(undecoded))

    @property
    def registers(self) -> None:
        """It has no schema."""

    def takes(self, column: Literal["value", "key"]) -> dict[str, bool]:
        """The one that has its name."""
        return {column: True}

    def check(self, found: pa.Schema, schema: WrittenSchema | None = None) -> None:
        """It has to be text."""
        del schema
        for column in found:
            kind = column.type
            if not (at.is_string(kind) or at.is_large_string(kind) or at.is_null(kind)):
                raise WrongSchema(f"column {column.name!r} must be text, and it is {kind}")

    def encode(self, rows: pa.Table, schema: WrittenSchema | None) -> Encoded:
        """As it is in memory: that is UTF-8 already."""
        del schema
        return Encoded(rows.columns[0].cast(pa.large_binary()).to_pylist())
