"""Ten fields to columns: our formats against a parser for each record, and against columnar ones.

All of one format make the same Arrow table of the same values, in turn, in one thread; what they
made is compared. The values are a column of bytes, as a handler is given them. ``json.loads``,
``orjson``, ``fastavro``, ``protobuf``: the handler that parses for itself, with values in lists, a
column of each, nothing checked but by Arrow. ``pyarrow.json`` takes lines and no records, and fails
as a whole if one of them is bad. Avro and Protobuf are in Confluent's wire format.
"""

from __future__ import annotations

import io
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import fastavro
import orjson
import pyarrow as pa
import pyarrow.json
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from benchmarks import harness
from benchmarks.visits import (
    AVRO,
    COUNT,
    FRAME,
    SCHEMA,
    avro_values,
    json_values,
    made_rows,
    registry,
)
from headrace.formats import Avro, Json, Protobuf
from headrace.testing.format_contract import as_given

_ROUNDS = 9
_ONE_BAD_IN = 100
TARGET, AVRO_TARGET = 4.0, 3.0
BAD_TARGET = 0.5
_Contenders = dict[str, Callable[[], pa.Table]]


def main(_args: list[str]) -> None:
    """Run and write `results/formats.json`."""
    rows = made_rows()
    result: dict[str, Any] = {}
    for name, measure in {"json": _json, "avro": _avro, "protobuf": _protobuf}.items():
        result[name] = measure(rows)
    harness.write("formats", result)


def _json(rows: list[dict[str, Any]]) -> dict[str, Any]:
    values = json_values(rows)
    good, bad, kind = _column(values), _spoilt(values, b"{"), Json(SCHEMA)
    rates = _rates(
        {
            "json.loads": lambda: _by_record(json.loads, good),
            "orjson": lambda: _by_record(orjson.loads, good),
            "pyarrow.json": lambda: _by_arrow(good),
            "Json": lambda: kind.decode(as_given(good)).columns,
        },
        {"Json, 1 % bad": lambda: kind.decode(as_given(bad)).columns},
    )
    ratios = {
        "against json.loads": rates["Json"] / rates["json.loads"],
        "against orjson": rates["Json"] / rates["orjson"],
        "against pyarrow.json": rates["Json"] / rates["pyarrow.json"],
        "1 % bad against none": rates["Json, 1 % bad"] / rates["Json"],
    }
    _say(rates, ratios, {"against json.loads": TARGET, "1 % bad against none": BAD_TARGET})
    return _told(values, rates, ratios)


def _avro(rows: list[dict[str, Any]]) -> dict[str, Any]:
    parsed: Any = fastavro.parse_schema(AVRO)
    values, schemas = avro_values(rows), registry()
    good, bad, kind = _column(values), _spoilt(values, FRAME + b"\2"), Avro(AVRO)

    def theirs(value: bytes) -> Any:
        stream = io.BytesIO(value)
        stream.seek(len(FRAME))
        return fastavro.schemaless_reader(stream, parsed, None)

    def ours(given: pa.ChunkedArray[Any]) -> pa.Table:
        return kind.decode(as_given(given, schemas=schemas)).columns.cast(SCHEMA)

    few = good.slice(0, 20)
    rates = _rates(
        {"fastavro": lambda: _by_record(theirs, good), "Avro": lambda: ours(good)},
        {"Avro, 1 % bad": lambda: ours(bad)},
    )
    few_rates = _rates(
        {"fastavro, 20": lambda: _by_record(theirs, few), "Avro, 20": lambda: ours(few)},
        {},
        times=200,
    )
    ratios = {
        "against fastavro": rates["Avro"] / rates["fastavro"],
        "1 % bad against none": rates["Avro, 1 % bad"] / rates["Avro"],
        "20 records, against fastavro": few_rates["Avro, 20"] / few_rates["fastavro, 20"],
    }
    rates |= few_rates
    _say(rates, ratios, {"against fastavro": AVRO_TARGET, "1 % bad against none": BAD_TARGET})
    return _told(values, rates, ratios)


def _protobuf(rows: list[dict[str, Any]]) -> dict[str, Any]:
    visit = _visit()
    messages = [visit(**{k: v for k, v in row.items() if v is not None}) for row in rows]
    values = [FRAME + b"\0" + message.SerializeToString() for message in messages]
    good, bad, kind = _column(values), _spoilt(values, FRAME + b"\0\x08"), Protobuf(visit)

    def theirs(value: bytes) -> dict[str, Any]:
        message = visit()
        message.ParseFromString(value[len(FRAME) + 1 :])
        row = {name: getattr(message, name) for name in SCHEMA.names}
        return row if message.HasField("campaign") else row | {"campaign": None}

    def ours(given: pa.ChunkedArray[Any]) -> pa.Table:
        return kind.decode(as_given(given)).columns.cast(SCHEMA)

    rates = _rates(
        {"protobuf": lambda: _by_record(theirs, good), "Protobuf": lambda: ours(good)},
        {"Protobuf, 1 % bad": lambda: ours(bad)},
    )
    ratios = {
        "against protobuf": rates["Protobuf"] / rates["protobuf"],
        "1 % bad against none": rates["Protobuf, 1 % bad"] / rates["Protobuf"],
    }
    _say(rates, ratios, {"1 % bad against none": BAD_TARGET})
    return _told(values, rates, ratios)


def _rates(contenders: _Contenders, spoilt: _Contenders, *, times: int = 1) -> dict[str, int]:
    """Records a CPU second of each, in turn; what they make of good records is the same."""
    expected = next(iter(contenders.values()))()
    for name, make in contenders.items():
        assert make().combine_chunks().equals(expected), f"{name} made another table"
    for make in spoilt.values():
        assert make().num_rows == COUNT - COUNT // _ONE_BAD_IN
    every = contenders | spoilt
    seconds: dict[str, list[float]] = {name: [] for name in every}
    for _ in range(_ROUNDS):
        for name, make in every.items():
            begun_s = time.thread_time()
            for _ in range(times):
                make()
            seconds[name].append(time.thread_time() - begun_s)
    count = times * expected.num_rows
    return {name: round(count / statistics.median(took)) for name, took in seconds.items()}


def _say(rates: dict[str, int], ratios: dict[str, float], targets: dict[str, float]) -> None:
    for name, rate in rates.items():
        print(f"{name:<18}{rate:>12,} records/CPU-s")
    for name, ratio in ratios.items():
        target = f" (target {targets[name]})" if name in targets else ""
        print(f"  {name}: {ratio:.2f}{target}")


def _told(values: list[bytes], rates: dict[str, int], ratios: dict[str, float]) -> dict[str, Any]:
    bytes_each = round(sum(map(len, values)) / len(values))
    return {"bytes_each": bytes_each, "records_per_cpu_s": rates, "ratios": ratios}


def _column(values: list[bytes]) -> pa.ChunkedArray[Any]:
    return pa.chunked_array([pa.array(values, pa.binary())])


def _spoilt(values: list[bytes], bad: bytes) -> pa.ChunkedArray[Any]:
    return _column([bad if row % _ONE_BAD_IN == 0 else value for row, value in enumerate(values)])


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


def _visit() -> Any:
    """The class of a message with these fields, made as a generated module makes it."""
    kinds = {
        pa.int64(): FieldDescriptorProto.TYPE_INT64,
        pa.int32(): FieldDescriptorProto.TYPE_INT32,
        pa.string(): FieldDescriptorProto.TYPE_STRING,
        pa.float64(): FieldDescriptorProto.TYPE_DOUBLE,
        pa.bool_(): FieldDescriptorProto.TYPE_BOOL,
    }
    made = DescriptorProto(name="Visit")
    for number, field in enumerate(SCHEMA, 1):
        added = made.field.add(name=field.name, number=number, type=kinds[field.type], label=1)
        if field.name == "campaign":
            made.oneof_decl.add(name="_campaign")
            added.proto3_optional, added.oneof_index = True, 0
    pool = DescriptorPool()
    file = FileDescriptorProto(name="visit.proto", package="bench", syntax="proto3")
    file.message_type.append(made)
    pool.AddSerializedFile(file.SerializeToString())
    return GetMessageClass(pool.FindMessageTypeByName("bench.Visit"))
