"""Which schema a record was written by: Confluent's wire format.

A payload begins with a zero byte and a number of four bytes, or with a one and a GUID of sixteen;
or the payload is bare, and the same stands in a header of the record. The header counts where it is
there, and of several the last one, as clients have it.

Nothing is looked up here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal
from uuid import UUID

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.errors import ConfigError
from headrace.ports import Payloads, SchemaId

Framing = Literal["confluent", "none"]
_NUMBERED, _BY_GUID = 5, 17
_UNFRAMED = "it does not begin with the id of a schema, as Confluent's wire format does"


def prefix_of(id_: SchemaId) -> bytes:
    """What stands before a payload, or in its header."""
    return b"\1" + id_.bytes if isinstance(id_, UUID) else b"\0" + id_.to_bytes(4, "big")


def header_of(column: str) -> str:
    """The name of the header that tells the id, where the payload itself does not."""
    return f"__{column}_schema_id"


@dataclass(frozen=True, slots=True)
class Framed:
    """Payloads, and what their framing says."""

    #: all bytes as one array
    payloads: Any
    #: where each begins and ends in these bytes, behind its framing
    begin: npt.NDArray[np.int64]
    end: npt.NDArray[np.int64]
    #: rows of those that can be read, by the id of their schema; None: no id is expected
    rows: dict[SchemaId | None, npt.NDArray[np.int64]]
    #: row -> why it cannot be read
    refused: dict[int, str]
    #: rows without a value
    gone: list[int] = field(default_factory=list)
    #: row -> what stands in a header behind the id
    tails: dict[int, bytes] = field(default_factory=dict)

    def values(self, rows: npt.NDArray[np.int64]) -> list[Any]:
        """Bytes of some rows, without their framing; None where there are none."""
        found: list[Any] = self.payloads.take(pa.array(rows)).to_pylist()
        lengths = (self.end - self.begin)[rows].tolist()
        return [
            None if value is None else value[len(value) - length :]
            for value, length in zip(found, lengths, strict=True)
        ]


def check_framing(framing: str) -> None:
    """Refuse what is none.

    Raises:
        ConfigError: it is none of the two.
    """
    if framing not in ("confluent", "none"):
        raise ConfigError("framing is 'confluent' or 'none'")


def framed(payloads: Payloads, framing: Framing, *, tails: bool = False) -> Framed:
    """Take the framing off; with ``tails`` a header may say more behind the id."""
    whole: Any = payloads.bytes.combine_chunks()
    if isinstance(whole, pa.ChunkedArray):
        whole = pa.concat_arrays(whole.chunks) if whole.num_chunks else pa.array([], pa.binary())
    offsets = np.frombuffer(whole.buffers()[1] or bytes(4), np.int32)[whole.offset :]
    edges = offsets[: len(whole) + 1].astype(np.int64)
    begin, end = edges[:-1].copy(), edges[1:]
    is_gone = whole.is_null().to_numpy(zero_copy_only=False)
    gone = np.flatnonzero(is_gone).tolist()
    if framing == "none":
        rows: dict[SchemaId | None, Any] = {None: np.flatnonzero(~is_gone)}
        return Framed(whole, begin, end, rows, {}, gone)
    found = _Ids(whole, begin, end)
    found.numbered(~is_gone)
    for row, header in _headers(payloads).items():
        if not is_gone[row]:
            found.by_header(row, header or b"")
    for row in () if tails else [row for row, tail in found.tails.items() if tail]:
        found.refuse_header(row)
    return Framed(whole, begin, end, found.rows(), found.refused, gone, found.tails)


def counted_ids(payloads: Payloads) -> dict[SchemaId, int]:
    """How many payloads name each schema; those that name none do not count."""
    start = (payloads.bytes[0].as_py() or b"")[:_NUMBERED] if len(payloads) else b""
    if start[:1] == b"\0" and len(start) == _NUMBERED and not _headers(payloads):
        # Mostly all are of one writer, and then this is by far the quickest.
        pattern: Any = start
        alike: Any = pc.starts_with(payloads.bytes, pattern=pattern)
        if pc.all(alike, skip_nulls=False).as_py():
            return {int.from_bytes(start[1:], "big"): len(payloads)}
    rows = framed(payloads, "confluent", tails=True).rows
    return {id_: len(its) for id_, its in rows.items() if id_ is not None}


@dataclass(slots=True)
class _Ids:
    """Finds the ids of payloads, and moves their begin behind them."""

    payloads: Any
    begin: npt.NDArray[np.int64]
    end: npt.NDArray[np.int64]
    #: row -> which of ``ids``; -1: none
    which: npt.NDArray[np.int64] = field(init=False)
    ids: dict[SchemaId, int] = field(default_factory=dict)
    refused: dict[int, str] = field(default_factory=dict)
    tails: dict[int, bytes] = field(default_factory=dict)

    def numbered(self, there: npt.NDArray[np.bool_]) -> None:
        """Of all those that are there, by what they begin with."""
        self.which = np.full(len(there), -1, np.int64)
        data = np.frombuffer(self.payloads.buffers()[2] or b"", np.uint8)
        size, rows = self.end - self.begin, np.flatnonzero(there)
        rows = rows[size[rows] >= _NUMBERED]
        begun = self.begin[rows]
        numbered = rows[data[begun] == 0]
        first = self.begin[numbered] + 1
        numbers = sum(
            data[first + place].astype(np.int64) << (24 - 8 * place) for place in range(4)
        )
        ids, inverse = _apart(numbers)
        self.which[numbered] = np.array([self._known(id_) for id_ in ids], np.int64)[inverse]
        for row in rows[(data[begun] == 1) & (size[rows] >= _BY_GUID)].tolist():
            at = int(self.begin[row])
            self.which[row] = self._known(UUID(bytes=data[at + 1 : at + _BY_GUID].tobytes()))
            self.begin[row] = at + _BY_GUID
        self.begin[numbered] += _NUMBERED
        for row in np.flatnonzero(there & (self.which < 0)).tolist():
            self.refused[row] = _UNFRAMED

    def by_header(self, row: int, header: bytes) -> None:
        """Of one whose payload is bare."""
        self.refused.pop(row, None)
        size = {0: _NUMBERED, 1: _BY_GUID}.get(header[0]) if header else None
        if size is None or len(header) < size:
            self.refuse_header(row)
            return
        id_ = header[1:size]
        self.which[row] = self._known(UUID(bytes=id_) if header[0] else int.from_bytes(id_, "big"))
        self.begin[row] = self._bare(row)
        self.tails[row] = header[size:]

    def refuse_header(self, row: int) -> None:
        """Its header says nothing that one understands."""
        self.which[row] = -1
        self.refused[row] = "its header is no id of a schema"

    def _bare(self, row: int) -> int:
        edges = np.frombuffer(self.payloads.buffers()[1], np.int32)
        return int(edges[self.payloads.offset + row])

    def _known(self, id_: SchemaId) -> int:
        return self.ids.setdefault(id_, len(self.ids))

    def rows(self) -> dict[SchemaId | None, npt.NDArray[np.int64]]:
        """By their id, in the order in which these are met."""
        order = np.argsort(self.which, kind="stable")
        edges = np.searchsorted(self.which[order], np.arange(len(self.ids) + 1))
        met = [
            (int(order[first]), id_, order[first:last])
            for id_, first, last in zip(self.ids, edges, edges[1:], strict=False)
            if last > first
        ]
        met.sort(key=lambda found: found[0])
        return {id_: rows for _, id_, rows in met}


def _apart(numbers: Any) -> tuple[list[int], Any]:
    """The different numbers, and which one stands where; mostly there is one."""
    if len(numbers) and (numbers == numbers[0]).all():
        return [int(numbers[0])], np.zeros(len(numbers), np.int64)
    different, inverse = np.unique(numbers, return_inverse=True)
    return different.tolist(), inverse


def _headers(payloads: Payloads) -> dict[int, bytes | None]:
    """Row -> what its header says, for those that have one; the last one counts."""
    headers: Any = payloads.headers
    if headers.null_count == len(headers):
        return {}
    every = pc.list_flatten(headers)
    name: Any = pa.scalar(header_of(payloads.column))
    ours: Any = pc.equal(pc.struct_field(every, [0]), name)
    if not pc.any(ours).as_py():
        return {}
    rows = pc.list_parent_indices(headers.combine_chunks()).filter(ours.combine_chunks())
    values = pc.struct_field(every, [1]).filter(ours)
    return dict(zip(rows.to_pylist(), values.to_pylist(), strict=True))
