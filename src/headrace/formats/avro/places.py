"""Where many records are read at, all at once: one place in each of them, moved together.

The bytes of all records lie in one array, as Arrow has them. A step of a plan is done in all
records at a time: their next bytes are gathered, made numbers, and every place moves on by its own
length.
What a record is refused for moves it nowhere and touches no other one: it is ``bad``, its value is
anything, and whoever asked drops it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Integers = npt.NDArray[np.int64]
Booleans = npt.NDArray[np.bool_]
Bytes = npt.NDArray[np.uint8]
#: behind the last byte: no step that does not look first reads further than that
_PADDING = 16


@dataclass(frozen=True, slots=True)
class Source:
    """The bytes of all records."""

    #: with padding, for NumPy
    bytes: Bytes
    #: the same, for Arrow
    buffer: pa.Buffer

    @classmethod
    def of(cls, payloads: Any, first: int, last: int) -> Source:
        """A part of the bytes of an array of binary."""
        padded = np.zeros(last - first + _PADDING, np.uint8)
        if last > first:
            buffer: Any = payloads.buffers()[2]
            padded[: last - first] = np.frombuffer(buffer, np.uint8)[first:last]
        return cls(padded, as_buffer(padded))


def as_buffer(values: Any) -> pa.Buffer:
    """An array of NumPy's, for Arrow."""
    return pa.py_buffer(values)


@dataclass(slots=True)
class Places:
    """One place in each of some records, in ascending order."""

    source: Source
    at: Integers
    end: Integers
    bad: Booleans

    def __len__(self) -> int:
        """How many records."""
        return len(self.at)

    def some(self, rows: Integers) -> Places:
        """Those of some records, which ``back`` brings back."""
        return Places(self.source, self.at[rows], self.end[rows], self.bad[rows])

    def back(self, rows: Integers, moved: Places) -> None:
        """Take over what became of some."""
        self.at[rows] = moved.at
        self.bad[rows] = moved.bad

    def refuse(self, those: Booleans) -> None:
        """Of those nothing that is read counts any more."""
        self.bad |= those

    def skip(self, lengths: Integers | int) -> Integers:
        """Pass over so many bytes, where there are as many; where it began is returned."""
        begun = self.at
        short = (lengths < 0) | (lengths > self.end - begun)
        if short.any():
            self.bad |= short
            lengths = np.where(short, 0, lengths)
        self.at = begun + lengths
        return begun

    def longs(self) -> Integers:
        """Read a number of variable length in each."""
        byte = self.source.bytes[self.at]
        after = self.at + 1
        more = np.flatnonzero(byte > 127)
        if len(more):
            value = self._long(byte, after, more)
        else:  # as lengths and branches mostly are
            value = byte.astype(np.int64)
            value = (value >> 1) ^ -(value & 1)
        past = after > self.end
        if past.any():
            self.bad |= past
            after = np.minimum(after, self.end)
        self.at = after
        return value

    def _long(self, byte: Bytes, after: Integers, more: Integers) -> Integers:
        """The numbers, of which some go on; ``after`` is moved behind them."""
        value = (byte & 127).astype(np.uint64)
        for shift in range(7, 70, 7):
            # No record ends behind its end, so this stays within the padding.
            where = np.minimum(after[more], self.end[more])
            byte = self.source.bytes[where]
            value[more] |= (byte & 127).astype(np.uint64) << np.uint64(shift)
            after[more] = where + 1
            if shift == 63:
                self.bad[more[byte > 1]] = True
            more = more[byte > 127]
            if not len(more):
                break
        signs = (value & np.uint64(1)).astype(np.int64)
        return (value >> np.uint64(1)).astype(np.int64) ^ -signs

    def bytes_at(self, begun: Integers, count: int) -> Bytes:
        """So many bytes from each of some places on, of those that ``skip`` went over."""
        if count == 1:
            return self.source.bytes[begun].reshape(-1, 1)
        reach = np.lib.stride_tricks.sliding_window_view(self.source.bytes, count)
        return reach[np.minimum(begun, len(reach) - 1)]
