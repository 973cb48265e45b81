"""Many records at once, column by column: quick, and it decides nothing alone.

A plan is followed step by step in all records together (``places.py``), so Python's own cost is
that of a step, not of a record. What a record becomes is the same as with ``by_record``, or the
record is set aside for that one to judge: nothing is refused here, and nothing is accepted that it
would refuse. Records with far more items in an array than their neighbours are set aside too, as a
step for a few of them costs as much as for all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.formats.absent import absent
from headrace.formats.avro.places import Booleans, Bytes, Integers, Places, Source, as_buffer
from headrace.formats.avro.steps import (
    MOST_EMPTY,
    Blob,
    Choice,
    Digits,
    Gap,
    Guid,
    Items,
    Nothing,
    Real,
    Record,
    Refusal,
    Step,
    Symbol,
    Truth,
    Whole,
)

#: from so many rounds over items on, fewer records than this are left to the other reader
_MANY_ROUNDS, _FEW_RECORDS = 8, 64
_EXACT_FLOAT = 2**53


def read_columns(plan: Step, payloads: Any, begin: Integers, end: Integers) -> tuple[Any, Booleans]:
    """Read records that lie between places, in ascending order, in an array of binary.

    Returns:
        A value for each, and which of them are set aside: their values are anything.
    """
    first, last = (int(begin[0]), int(end[-1])) if len(begin) else (0, 0)
    source = Source.of(payloads, first, last)
    places = Places(source, begin - first, end - first, begin > end)
    with np.errstate(all="ignore"):  # of records that are set aside any number may come
        values = _read(plan, places)
    return values, places.bad | (places.at != places.end)


def _read(step: Step, places: Places) -> Any:
    """The values of a step, as an array; None, if nobody wants them."""
    return _STEPS[type(step)](step, places)


def _nothing(step: Nothing, places: Places) -> Any:
    return None if step.kind is None else absent(len(places), step.kind)


def _refusal(step: Refusal, places: Places) -> None:
    del step
    places.refuse(np.ones(len(places), np.bool_))


def _gap(step: Gap, places: Places) -> None:
    places.skip(step.size)


def _whole(step: Whole, places: Places) -> Any:
    values = places.longs()
    if step.kind is None:
        return None
    off = (values < step.lowest) | (values > step.highest)
    if step.kind == pa.float64():
        # Whether one of these is a float exactly the other reader finds out.
        off |= (values > _EXACT_FLOAT) | (values < -_EXACT_FLOAT)
        places.refuse(off)
        return pa.array(values.astype(np.float64))
    places.refuse(off)
    # No number here is larger than its column but one that is off.
    made = np.where(off, 0, values) * step.factor if step.factor > 1 or off.any() else values
    narrow = made.astype(np.int32) if step.kind in (pa.int32(), pa.date32()) else made
    return _plain(step.kind, narrow)


def _real(step: Real, places: Places) -> Any:
    begun = places.skip(step.size)
    kind = "<f8" if step.size == 8 else "<f4"
    found = np.ascontiguousarray(places.bytes_at(begun, step.size)).view(kind).reshape(-1)
    return _plain(step.kind, found.astype(np.float64))


def _truth(step: Truth, places: Places) -> Any:
    del step
    found = places.bytes_at(places.skip(1), 1).reshape(-1)
    places.refuse(found > 1)
    return pa.array(found == 1)


def _blob(step: Blob, places: Places) -> Any:
    begun = places.skip(places.longs() if step.size is None else step.size)
    if step.kind is None:
        return None
    found = _cut(places, begun)
    return _text(found, places) if step.kind == pa.string() else found


def _cut(places: Places, begun: Integers) -> Any:
    """The bytes from a place to where it has moved since, of each."""
    count = len(begun)
    # What lies between two of them is cut as well, and left: Arrow then copies each by itself.
    edges = np.empty(2 * count + 1, np.int32)
    edges[0:-1:2], edges[1::2] = begun, places.at
    edges[-1] = places.at[-1] if count else 0
    buffers = [None, as_buffer(edges), places.source.buffer]
    every: Any = pa.Array.from_buffers(pa.binary(), 2 * count, buffers)
    return every.take(np.arange(0, 2 * count, 2))


def _text(found: Any, places: Places) -> Any:
    try:
        return found.cast(pa.string())
    except pa.ArrowInvalid:
        good = np.fromiter(map(_is_text, found.to_pylist()), np.bool_, len(found))
    places.refuse(~good)
    return pc.if_else(pa.array(good), found, b"").cast(pa.string())


def _is_text(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def _digits(step: Digits, places: Places) -> Any:
    begun = places.skip(places.longs() if step.size is None else step.size)
    size, data = places.at - begun, places.source.bytes
    off = (size == 0) | (size > 16)
    fill = np.where(data[begun] > 127, 255, 0).astype(np.uint8)
    lowest_first = np.empty((len(begun), 16), np.uint8)
    for number in range(16):
        where = np.maximum(places.at - 1 - number, 0)
        lowest_first[:, number] = np.where(number < size, data[where], fill)
    off |= ~_within(lowest_first, 10**step.kind.precision - 1)
    lowest_first[off] = 0
    places.refuse(off)
    return _plain(step.kind, lowest_first)


def _within(numbers: Bytes, limit: int) -> Booleans:
    """Whether numbers of 128 bits are not further from zero than that."""
    halves = numbers.view("<u8")
    low, high = halves[:, 0], halves[:, 1].view(np.int64)

    def at_most(bound: int) -> Booleans:
        bound_low, bound_high = np.uint64(bound & (2**64 - 1)), bound >> 64
        found: Booleans = (high < bound_high) | ((high == bound_high) & (low <= bound_low))
        return found

    return at_most(limit) & ~at_most(-limit - 1)


def _guid(step: Guid, places: Places) -> Any:
    found = places.bytes_at(places.skip(16), 16)
    hexed = _HEX[found].reshape(-1, 32)
    text = np.full((len(found), 36), ord("-"), np.uint8)
    text[:, _HEX_AT] = hexed
    edges = np.arange(0, 36 * (len(found) + 1), 36, dtype=np.int32)
    buffers = [None, as_buffer(edges), as_buffer(text)]
    return pa.Array.from_buffers(step.kind, len(found), buffers)


_HEX = np.frombuffer(bytes(range(256)).hex().encode(), np.uint8).reshape(256, 2)
_HEX_AT = [place for place in range(36) if place not in (8, 13, 18, 23)]


def _symbol(step: Symbol, places: Places) -> Any:
    numbers = places.longs()
    known = np.array([symbol is not None for symbol in step.symbols] or [False])
    off = (numbers < 0) | (numbers >= len(known))
    numbers = np.where(off, 0, numbers)
    places.refuse(off | ~known[numbers])
    symbols = pa.array([symbol or "" for symbol in step.symbols] or [""], step.kind)
    return symbols.take(pa.array(numbers))


def _choice(step: Choice, places: Places) -> Any:
    numbers = places.longs()
    places.refuse((numbers < 0) | (numbers >= len(step.branches)))
    found = list[tuple[Integers, Any]]()
    for number, branch in enumerate(step.branches):
        rows = np.flatnonzero((numbers == number) & ~places.bad)
        if len(rows) and not (isinstance(branch, Nothing)):
            some = places.some(rows)
            values = _read(branch, some)
            places.back(rows, some)
            if values is not None:
                found.append((rows, values))
    return None if step.kind is None else _spread(found, len(places), step.kind)


def _spread(found: list[tuple[Integers, Any]], count: int, kind: Any) -> Any:
    """The values of some rows each; null where there is none."""
    if not found:
        return absent(count, kind)
    if len(found[0][0]) == count:
        return found[0][1]
    rows = np.concatenate([rows for rows, _ in found])
    # Behind the values stands one null, which all of the other rows take.
    index = np.full(count, len(rows), np.int64)
    index[rows] = np.arange(len(rows))
    some = [values for _, values in found]
    return pa.concat_arrays([*some, absent(1, kind)]).take(pa.array(index))


def _record(step: Record, places: Places) -> Any:
    columns: list[Any] = [None] * len(step.fields)
    for slot, value in step.defaults:
        one = pa.array([value], step.fields[slot].type)
        columns[slot] = one.take(pa.array(np.zeros(len(places), np.int64)))
    for part in step.parts:
        values = _read(part.step, places)
        if part.slot is not None:
            kind = step.fields[part.slot].type
            columns[part.slot] = absent(len(places), kind) if values is None else values
    if step.kind is None:
        return None
    return pa.StructArray.from_arrays(columns, fields=list(step.fields))


def _items(step: Items, places: Places) -> Any:
    counts = np.zeros(len(places), np.int64)
    found = list[tuple[Integers, Any, Any]]()
    for rows in _rounds(step, places, counts):
        some = places.some(rows)
        keys = (
            _blob(Blob(pa.string() if step.kind is not None else None), some)
            if step.keyed
            else None
        )
        found.append((rows, keys, _read(step.item, some)))
        places.back(rows, some)
        counts[rows] += 1
    return None if step.kind is None else _lists(step, places, counts, found)


def _rounds(step: Items, places: Places, counts: Integers) -> Iterator[Integers]:
    """The rows that have a first item, then those that have a second, and so on."""
    active, rounds = np.flatnonzero(~places.bad), 0
    left, block_end = np.zeros_like(counts), np.full_like(counts, -1)
    while True:
        done = active[left[active] == 0]
        if len(done):
            _open_blocks(step, places, done, (left, block_end, counts))
        active = active[(left[active] > 0) & ~places.bad[active]]
        rounds += 1
        if rounds > _MANY_ROUNDS and len(active) < _FEW_RECORDS:
            places.bad[active] = True
            return
        yield active
        left[active] -= 1


def _open_blocks(
    step: Items,
    places: Places,
    rows: Integers,
    state: tuple[Integers, Integers, Integers],
) -> None:
    """Where a block has ended, see that it did where it said, and how many items the next has."""
    left, block_end, counts = state
    some = places.some(rows)
    some.refuse((block_end[rows] >= 0) & (block_end[rows] != some.at))
    count, ends = some.longs(), np.full(len(rows), -1, np.int64)
    sized = np.flatnonzero(count < 0)
    if len(sized):
        these = some.some(sized)
        size = these.longs()
        these.refuse((size < 0) | (size > these.end - these.at))
        ends[sized] = these.at + np.where(these.bad, 0, size)
        some.back(sized, these)
        count = np.abs(count)
    room = some.end - some.at
    some.refuse(count < 0)
    if step.item_least:
        some.refuse(count > room // step.item_least)
    else:
        some.refuse((count > MOST_EMPTY) | (counts[rows] + count > MOST_EMPTY))
    left[rows] = np.where(some.bad, 0, count)
    block_end[rows] = ends
    places.back(rows, some)


def _lists(
    step: Items, places: Places, counts: Integers, found: list[tuple[Integers, Any, Any]]
) -> Any:
    """What rounds have found, as a list or a map of each row."""
    edges: Any = pa.array(np.concatenate([[0], np.cumsum(counts)]).astype(np.int32))
    rows = np.concatenate([rows for rows, _, _ in found] or [np.zeros(0, np.int64)])
    order = pa.array(np.argsort(rows, kind="stable"))
    inner = step.kind.item_type if step.keyed else step.kind.value_type
    values = _joined([_or_null(values, rows, inner) for rows, _, values in found], inner).take(
        order
    )
    if not step.keyed:
        return pa.ListArray.from_arrays(edges, values, type=step.kind)
    keys = _joined([keys for _, keys, _ in found], pa.string()).take(order)
    _refuse_doubled(np.sort(rows), keys, places)
    return pa.MapArray.from_arrays(edges, keys, values, type=step.kind)


def _or_null(values: Any, rows: Integers, kind: Any) -> Any:
    return absent(len(rows), kind) if values is None else values


def _joined(parts: list[Any], kind: Any) -> Any:
    return pa.concat_arrays(parts) if parts else pa.array([], kind)


def _refuse_doubled(rows: Integers, keys: Any, places: Places) -> None:
    """Where a key is there twice the last one counts, which the other reader sees to."""
    coded = keys.dictionary_encode()
    both = np.sort(rows * max(1, len(coded.dictionary)) + coded.indices.to_numpy())
    twice = both[1:][both[1:] == both[:-1]]
    places.bad[twice // max(1, len(coded.dictionary))] = True


def _plain(kind: Any, values: Any) -> Any:
    """An array of values that lie as Arrow has them."""
    return pa.Array.from_buffers(kind, len(values), [None, as_buffer(values)])


_STEPS: dict[type, Callable[[Any, Places], Any]] = {
    Nothing: _nothing,
    Refusal: _refusal,
    Gap: _gap,
    Whole: _whole,
    Real: _real,
    Truth: _truth,
    Blob: _blob,
    Digits: _digits,
    Guid: _guid,
    Symbol: _symbol,
    Choice: _choice,
    Record: _record,
    Items: _items,
}
