"""JSON of ten fields to columns: ours against a parser for each record, and against Arrow's own.

All make the same Arrow table of the same 280-byte values, in turn, in one thread; what they made is
compared. The values are a column of bytes, as a handler is given them. ``json.loads``, ``orjson``:
the handler that parses for itself, with values in lists, a column of each, nothing checked but by
Arrow. ``pyarrow.json`` takes lines and no records, and fails as a whole if one of them is bad.
"""

from __future__ import annotations

import io
import json
import random
import statistics
import time
from collections.abc import Callable
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.json

from benchmarks import harness
from headrace.formats import Json
from headrace.testing.format_contract import as_given

_RECORDS = 20_000
_ROUNDS = 9
_ONE_BAD_IN = 100
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("lead", pa.string()),
        ("page", pa.string()),
        ("referrer", pa.string()),
        ("agent", pa.string()),
        ("status", pa.int32()),
        ("bytes", pa.int64()),
        ("seconds", pa.float64()),
        ("returning", pa.bool_()),
        ("campaign", pa.string()),
    ]
)
TARGET = 4.0
BAD_TARGET = 0.5


def main(_args: list[str]) -> None:
    """Run and write `results/formats.json`."""
    values = _values(random.Random(7))
    good = _column(values)
    bad = _column([b"{" if row % _ONE_BAD_IN == 0 else text for row, text in enumerate(values)])
    contenders: dict[str, Callable[[], pa.Table]] = {
        "json.loads": lambda: _by_record(json.loads, good),
        "orjson": lambda: _by_record(orjson.loads, good),
        "pyarrow.json": lambda: _by_arrow(good),
        "Json": lambda: _ours(good),
        "Json, 1 % bad": lambda: _ours(bad),
    }
    expected = _by_record(json.loads, good)
    for name, make in contenders.items():
        assert name == "Json, 1 % bad" or make().equals(expected), f"{name} made another table"
    assert _ours(bad).num_rows == _RECORDS - _RECORDS // _ONE_BAD_IN
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(_ROUNDS):
        for name, make in contenders.items():
            begun_s = time.thread_time()
            make()
            seconds[name].append(time.thread_time() - begun_s)
    rates = {name: round(_RECORDS / statistics.median(took)) for name, took in seconds.items()}
    ratios = {
        "against json.loads": rates["Json"] / rates["json.loads"],
        "against orjson": rates["Json"] / rates["orjson"],
        "against pyarrow.json": rates["Json"] / rates["pyarrow.json"],
        "1 % bad against none": rates["Json, 1 % bad"] / rates["Json"],
    }
    bytes_each = sum(map(len, values)) / _RECORDS
    result = {"bytes_each": round(bytes_each), "records_per_cpu_s": rates, "ratios": ratios}
    harness.write("formats", result)
    for name, rate in rates.items():
        print(f"{name:<16}{rate:>12,} records/CPU-s")
    print(
        f"{ratios['against json.loads']:.2f} x json.loads (target {TARGET}), with 1 % bad "
        f"{ratios['1 % bad against none']:.2f} of itself (target {BAD_TARGET})"
    )


def _values(chance: random.Random) -> list[bytes]:
    def word(length: int) -> str:
        return "".join(chance.choices("abcdefghijklmnopqrstuvwxyz/-", k=length))

    return [
        json.dumps(
            {
                "id": number,
                "lead": word(12),
                "page": f"/{word(30)}",
                "referrer": f"https://{word(24)}",
                "agent": word(30),
                "status": chance.choice([200, 304, 404]),
                "bytes": chance.randrange(1 << 40),
                "seconds": chance.random(),
                "returning": chance.random() < 0.5,
                "campaign": None if chance.random() < 0.5 else word(8),
            }
        ).encode()
        for number in range(_RECORDS)
    ]


def _column(values: list[bytes]) -> pa.ChunkedArray[Any]:
    return pa.chunked_array([pa.array(values, pa.binary())])


def _by_record(parse: Callable[[bytes], Any], values: pa.ChunkedArray[Any]) -> pa.Table:
    rows = [parse(value) for value in values.to_pylist()]
    columns = [pa.array([row.get(field.name) for row in rows], field.type) for field in SCHEMA]
    return pa.Table.from_arrays(columns, schema=SCHEMA)


def _by_arrow(values: pa.ChunkedArray[Any]) -> pa.Table:
    options = pyarrow.json.ParseOptions(explicit_schema=SCHEMA, unexpected_field_behavior="ignore")
    whole = io.BytesIO(b"\n".join(values.to_pylist()))
    reading = pyarrow.json.ReadOptions(use_threads=False, block_size=1 << 25)
    found = pyarrow.json.read_json(whole, parse_options=options, read_options=reading)
    return found.select(SCHEMA.names).combine_chunks()


def _ours(values: pa.ChunkedArray[Any]) -> pa.Table:
    return Json(SCHEMA).decode(as_given(values)).columns
