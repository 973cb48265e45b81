"""Text in UTF-8, as a column of strings."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from headrace.ports import Decoded, Payloads, Undecoded


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
