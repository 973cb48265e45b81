"""What decoding costs where nothing waits: Avro at 500 records a second over 1,000 topics.

The load, the sink and the probe are those of ``steady``: one row a record in SQLite, exactly once,
seen by another process. Two use cases take turns on the same records, of ten fields in Confluent's
wire format: one is given bytes, the other has ``decode=Avro(...)``. Each keeps one number of what
it was given: the length of a value, or the id of the visit. Their sums are compared with what was
sent.

At this rate a slice is a record or two, so nothing is read by column, and what a call costs
whatever it is given counts as much as what a record does. So calls of the format alone are timed as
well, with so many records.
"""

from __future__ import annotations

import sqlite3
import statistics
import time
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.cpu import line
from benchmarks.harness import broker, driver_of, session, topics, write
from benchmarks.steady import LANES, RATE_PER_S, Load, figures, watched
from benchmarks.visits import AVRO, avro_values, made_rows, registry
from headrace.formats import Avro
from headrace.sinks import SqlTable
from headrace.testing.format_contract import as_given
from headrace.use_cases import UseCase, use_case

WARM_UP_S, MEASURED_S = 10.0, 30.0
TARGET = 1.1
_ROUNDS = 2
_ROWS = SqlTable(
    "results", columns={"topic": "text", "at": "bigint", "sent_ms": "bigint", "kept": "bigint"}
)
_CALLS = 500
_SIZES = (1, 2, 5, 20, 64)


def main(args: list[str]) -> None:
    """Run and write `results/decoded_steady.json`."""
    quick = "--quick" in args
    warm_up_s, measured_s = (4.0, 6.0) if quick else (WARM_UP_S, MEASURED_S)
    values = avro_values(made_rows())
    runs: dict[str, list[dict[str, Any]]] = {"bytes": [], "avro": []}
    alone = _alone(values)
    with broker() as config, session() as spark:
        # Not measured: a broker and a JVM that have just started spend both cores on compiling.
        _measured(spark, config, "avro", "warm", values, (2.0, 10.0))
        for number in range(1 if quick else _ROUNDS):
            for name in list(runs)[:: 1 if number % 2 == 0 else -1]:
                run = _measured(
                    spark, config, name, f"{name}{number}", values, (warm_up_s, measured_s)
                )
                runs[name].append(run)
                print(name, run, flush=True)
    ratios = {
        what: [
            avro[what] / raw[what] for avro, raw in zip(runs["avro"], runs["bytes"], strict=True)
        ]
        for what in ("p50_s", "p99_s", "cpu_us_per_record", "worker_cpu_us_per_record")
    }
    result = {"lanes": LANES, "rate_per_s": RATE_PER_S, **runs, "ratios": ratios}
    result["decode_alone_us_per_record"] = alone
    write("decoded_steady.quick" if quick else "decoded_steady", result)
    for what, found in ratios.items():
        print(f"{what}: {', '.join(f'{one:.2f}' for one in found)} (target {TARGET})")
    print("decode alone, us a record, by records a call:", alone)
    for name, its_runs in runs.items():
        print(f"{name}: " + "; ".join(line(run["cpu_cores"]) for run in its_runs))


def _measured(
    spark: Any,
    config: dict[str, str],
    name: str,
    prefix: str,
    values: list[bytes],
    seconds: tuple[float, float],
) -> dict[str, Any]:
    warm_up_s, measured_s = seconds
    made, kept = _CONTENDERS[name]
    tenants = [f"{prefix}-{lane}" for lane in range(LANES)]
    names = [f"{tenant}.visits" for tenant in tenants]
    topics(config, names)
    load = Load(config, names, warm_up_s + measured_s, values)
    with driver_of(spark, config, made, tenants, schemas=registry()) as bench:
        bench.driver.turn()
        seen = watched(bench.path, "results", load, bench.driver.turn, warm_up_s)
        store = sqlite3.connect(bench.path)
        (total,) = store.execute("SELECT sum(kept) FROM results").fetchone()
        store.close()
        slices = sum(wave.slices for wave in bench.counter.ended)
        records = sum(wave.records for wave in bench.counter.ended)
        waves = len(bench.counter.ended)
    wanted = sum(kept(values, number % len(values)) for number in range(load.sent))
    assert load.refused or total == wanted, (total, wanted)
    told = figures(seen)
    used = told["cpu_s"]
    return {
        **told,
        "waves": waves,
        "records_per_slice": round(records / slices, 2),
        "cpu_us_per_record": round(sum(used.values()) / told["measured"] * 1e6, 1),
        "worker_cpu_us_per_record": round(used["workers"] / told["measured"] * 1e6, 1),
    }


def _alone(values: list[bytes]) -> dict[str, float]:
    """Microseconds a record that calls of the format take, by how many records they are given."""
    kind, schemas, found = Avro(AVRO), registry(), dict[str, float]()
    for size in _SIZES:
        given = as_given(pa.chunked_array([pa.array(values[:size], pa.binary())]), schemas=schemas)
        took_s = list[float]()
        for _ in range(_CALLS):
            begun_s = time.thread_time()
            kind.decode(given)
            took_s.append(time.thread_time() - begun_s)
        found[str(size)] = round(statistics.median(took_s) / size * 1e6, 1)
    return found


# --- contenders ------------------------------------------------------------------------------


def _row(table: pa.Table, kept: Any) -> pa.Table:
    return pa.table(
        {
            "topic": table["topic"],
            "at": table["offset"],
            "sent_ms": pc.cast(table["timestamp"], pa.int64()),
            "kept": kept,
        }
    )


def _length(table: pa.Table, _context: Any) -> pa.Table:
    return _row(table, pc.cast(pc.binary_length(table["value"]), pa.int64()))


def _id(visits: pa.Table, _context: Any) -> pa.Table:
    return _row(visits, visits["id"])


def _case(handler: Any, decode: Avro | None) -> UseCase:
    made = use_case(
        topic="{tenant}.visits", decode=decode, sink=_ROWS, guarantee="exactly-once", name="keep"
    )
    return made(handler)


#: a use case, and what it keeps of the value at a place among those that are sent
_CONTENDERS = {
    "bytes": (_case(_length, None), lambda values, place: len(values[place])),
    "avro": (_case(_id, Avro(AVRO)), lambda _, place: place),
}
