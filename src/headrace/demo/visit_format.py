"""How visits are read: as Avro by the schemas of their writers, and as JSON from the gateway.

The site's own producers write Avro, with the id of a schema in front. The gateway takes JSON, and
whoever posts a visit by hand types it. Both come into the same topics, as they do wherever a
company moves from one to the other. So this is a format of the demo's own, made of two that there
are: what begins with a zero byte is Avro, which no JSON does.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.formats import Avro, Json
from headrace.ports import Decoded, Format, Payloads, Undecoded, Waiting


@dataclass(frozen=True, slots=True)
class AvroOrJson:
    """Records of two kinds, as the same columns."""

    avro: Avro
    json: Json

    @property
    def framing(self) -> str:
        """That of Avro: whoever writes it names a schema."""
        return self.avro.framing

    @property
    def needs_registry(self) -> bool:
        """Where these schemas are."""
        return self.avro.needs_registry

    def schema(self, column: str) -> pa.Schema:
        """The columns of both."""
        return self.avro.schema(column)

    def decode(self, payloads: Payloads) -> Decoded:
        """Each kind by itself, put together in the order of the records."""
        first: Any = pc.binary_slice(payloads.bytes, 0, 1)
        is_avro = pc.fill_null(pc.equal(first, pa.scalar(b"\0")), False)
        framed = np.asarray(is_avro.to_numpy(), dtype=bool)
        both = [
            _Part.of(self.avro, payloads, np.flatnonzero(framed)),
            _Part.of(self.json, payloads, np.flatnonzero(~framed)),
        ]
        if (waiting := both[0].waiting) is not None:
            before = self.decode(_until(payloads, waiting.row))
            return before if before.waiting else replace(before, waiting=waiting)
        schema = self.schema(payloads.column)
        columns = pa.concat_tables([part.columns.cast(schema) for part in both])
        order = np.argsort(np.concatenate([part.rows for part in both]))
        undecoded = sorted(bad for part in both for bad in part.undecoded)
        return Decoded(columns.take(order), tuple(undecoded))


@dataclass(frozen=True, slots=True)
class _Part:
    """The payloads of one kind, decoded, by their rows among all."""

    columns: pa.Table
    rows: npt.NDArray[np.int64]
    undecoded: list[Undecoded]
    waiting: Waiting | None

    @classmethod
    def of(cls, kind: Format, payloads: Payloads, rows: npt.NDArray[np.int64]) -> _Part:
        found = kind.decode(
            replace(payloads, bytes=payloads.bytes.take(rows), headers=payloads.headers.take(rows))
        )
        bad = [Undecoded(int(rows[row]), reason) for row, reason in found.undecoded]
        waiting = found.waiting and Waiting(int(rows[found.waiting.row]), found.waiting.error)
        good = np.delete(rows, [row for row, _ in found.undecoded])
        return cls(found.columns, good, bad, waiting)


def _until(payloads: Payloads, row: int) -> Payloads:
    return replace(
        payloads, bytes=payloads.bytes.slice(0, row), headers=payloads.headers.slice(0, row)
    )
