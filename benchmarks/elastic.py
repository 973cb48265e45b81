"""Executors that follow a day's load, against a fixed fleet of the size of the peak.

A day in four minutes: 20 tenants, next to nothing at night, and a peak at which some two of
four executors are busy. The handler waits 5 ms for each record, as one that asks a server does, so
that slots are the limit and not the cores of this machine; each record becomes a row in SQLite, at
least once. Spark's own standalone cluster runs on this machine, with executors of one core. Once
the driver chooses between one and four slots, and Spark's dynamic allocation adds and releases
executors; once four executors are there from the beginning to the end.

A day that is 360 times shorter leaves no time for the usual patience on the way down (30 s until
fewer slots are used, 60 s until Spark releases an executor), so both are 10 s here.

Counted are executor-seconds, by asking Spark twice a second, from the first record meant to be
sent to the last one done, or the end of the day if that is later; and the delay of every record.
One process can hold one Spark session, so each side is a process of its own on a cluster of its
own; they take turns in being first.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks.charts import IMAGES, Panel, draw
from benchmarks.delays import COLUMNS, TABLE, Feed, Load, Seen, rows_of, verify, watched
from benchmarks.harness import RESULTS, Bench, await_executors, broker, driver_of, topics, write
from benchmarks.samples import Sample, of_spark, sampled
from benchmarks.seconds import counts, line, means, quantiles
from headrace.embedded import EmbeddedSparkCluster
from headrace.policies.elasticity import SlotLimits
from headrace.sinks import SqlTable
from headrace.spark.session import build_session, elastic_options
from headrace.use_cases import use_case

TENANTS = 20
EXECUTORS = 4
RECORD_S = 0.005
PEAK_PER_S = 250.0
#: share of the peak
NIGHT = 0.02
PATIENCE_S = 10.0
#: delays of records sent before are of cold workers, on both sides
WARM_UP_S = 10.0
SHARE_TARGET = 0.5
P99_TARGET_S = 5.0
SIDES = ("elastic", "fixed")
_MEMORY = {"spark.executor.memory": "512m", "spark.driver.memory": "1g"}
_FLEET = {
    "elastic": {
        **elastic_options(1, EXECUTORS),
        "spark.dynamicAllocation.executorIdleTimeout": f"{PATIENCE_S:.0f}s",
    },
    "fixed": {"spark.executor.cores": "1", "spark.cores.max": str(EXECUTORS)},
}
_SLOTS = {
    "elastic": SlotLimits(1, EXECUTORS, down_cooldown_s=PATIENCE_S),
    "fixed": None,
}


@dataclass(frozen=True, slots=True)
class Times:
    """How long a day is, in seconds, and how often it is run."""

    day: int
    rounds: int


FULL = Times(day=240, rounds=1)
QUICK = Times(day=60, rounds=1)


def main(args: list[str]) -> None:
    """Run, write `results/elastic.json`, draw `docs/images/elastic.svg`; `--chart` only draws."""
    job = next(
        (argument.removeprefix("--job=") for argument in args if argument.startswith("--job=")),
        None,
    )
    if job is not None:
        _side(Path(job))
        return
    if "--chart" in args:
        _chart(json.loads((RESULTS / "elastic.json").read_text()), IMAGES / "elastic.svg")
        return
    times = QUICK if "--quick" in args else FULL
    runs: dict[str, list[dict[str, Any]]] = {side: [] for side in SIDES}
    with broker() as config, tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder:
        for number in range(times.rounds):
            for side in SIDES if number % 2 == 0 else SIDES[::-1]:
                place = Path(folder) / f"{side}{number}"
                runs[side].append(_apart(place, {"side": side, "config": config, "day": times.day}))
                print(side, {key: runs[side][-1][key] for key in _SHOWN}, flush=True)
    shares = [
        round(mine["executor_s"] / his["executor_s"], 3)
        for mine, his in zip(runs["elastic"], runs["fixed"], strict=True)
    ]
    result = {"tenants": TENANTS, "day_s": times.day, "executor_s_ratios": shares, "runs": runs}
    written = write("elastic.quick" if times is QUICK else "elastic", result)
    _chart(result, written.with_suffix(".svg") if times is QUICK else IMAGES / "elastic.svg")
    p99_s = max(run["delay"]["p99_s"] for run in runs["elastic"])
    print(
        f"{max(shares)} of the fixed fleet's executor-seconds (target {SHARE_TARGET}), "
        f"p99 {p99_s} s (target {P99_TARGET_S})"
    )


_SHOWN = ("executor_s", "delay", "most_executors", "repeats")


def _apart(folder: Path, job: Mapping[str, Any]) -> dict[str, Any]:
    """Run a side in a process of its own, on a cluster of its own."""
    folder.mkdir()
    with EmbeddedSparkCluster(folder / "spark", cores=EXECUTORS, memory="4g") as cluster:
        path = folder / "job.json"
        path.write_text(json.dumps({**job, "master": cluster.master_url, "name": folder.name}))
        command = [sys.executable, "-m", "benchmarks", "elastic", f"--job={path}"]
        environment = {**os.environ, **cluster.environment}
        subprocess.run(command, env=environment, check=True, timeout=job["day"] + 600)
    answer: dict[str, Any] = json.loads(path.with_name("answer.json").read_text())
    return answer


# --- one side, in its own process ------------------------------------------------------------


def value(_topic: str, _number: int, _at_s: float) -> bytes:
    """What is sent: the same every time."""
    return b"x" * 200


def share_of_peak(at_s: float, day_s: float) -> float:
    """The load at a time of the day: a sinus, squared so that the night is long and quiet."""
    sinus = (1 - math.cos(2 * math.pi * at_s / day_s)) / 2
    return NIGHT + (1 - NIGHT) * sinus**2


def _asked(records: pa.Table, _context: Any) -> pa.Table:
    for _ in range(records.num_rows):
        time.sleep(RECORD_S)
    return rows_of(records, [1] * records.num_rows)


def _side(path: Path) -> None:
    job = json.loads(path.read_text())
    side, day = job["side"], job["day"]
    tenants = [f"{job['name']}-{number}" for number in range(TENANTS)]
    names = tuple(f"{tenant}.visits" for tenant in tenants)
    topics(job["config"], names)
    steps = tuple((float(at), share_of_peak(at, day)) for at in range(day))
    load = Load(job["config"], (Feed(names, PEAK_PER_S / TENANTS, value, steps),), float(day))
    rows = SqlTable(TABLE, columns=COLUMNS)
    made = use_case(topic="{tenant}.visits", sink=rows, guarantee="at-least-once", name="ask")
    spark = build_session(
        "headrace benchmark", job["master"], {**_FLEET[side], **_MEMORY}, {"ask": 1}
    )
    try:
        await_executors(spark, 1 if side == "elastic" else EXECUTORS)
        slots = _SLOTS[side]
        with driver_of(spark, job["config"], made(_asked), tenants, slots=slots) as bench:
            _await_warm(spark)
            answer = _run(spark, bench, load)
    finally:
        spark.stop()
    path.with_name("answer.json").write_text(json.dumps(answer))


def _await_warm(spark: Any) -> None:
    """Wait until the first workers are there: this is about a day, not about its first seconds."""
    deadline_s, calm = time.monotonic() + 120, 0
    while calm < 4:
        assert time.monotonic() < deadline_s, "workers did not get warm"
        calm = 0 if of_spark(spark)["tasks"] else calm + 1
        time.sleep(0.5)


def _run(spark: Any, bench: Bench, load: Load) -> dict[str, Any]:
    def look() -> dict[str, float]:
        board = bench.driver.board
        return {
            **of_spark(spark),
            "slots": bench.driver.slots,
            "in_flight": sum(len(flight.wave.bins) for flight in list(board.flights.values())),
            "lag_records": sum(stream.lag_records for stream in list(board.streams.values())),
        }

    with sampled(look) as samples:
        seen = watched(bench.path, load, lambda: bench.driver.turn)
    began_s = seen.began_s
    waves = [(wave.at_s - began_s, wave.records, wave.seconds) for wave in bench.counter.ended]
    return _figures(seen, [(at - began_s, one) for at, one in samples], waves, int(load.seconds))


def _figures(
    seen: Seen,
    samples: Sequence[Sample],
    waves: Sequence[tuple[float, int, float]],
    day: int,
) -> dict[str, Any]:
    return {
        "executor_s": round(_executor_s(samples, max(day, seen.seen_s.max())), 1),
        "delay": seen.delays(WARM_UP_S, day),
        "most_executors": max(one["executors"] for _, one in samples),
        "repeats": verify(seen),
        "in_per_s": counts(seen.sent_s, day),
        "out_per_s": counts(seen.seen_s, day),
        "p50_s": quantiles(seen, day, "p50_s"),
        "p99_s": quantiles(seen, day, "p99_s"),
        "wave_records": means([(at, count) for at, count, _ in waves], day),
        "wave_s": means([(at, took) for at, _, took in waves], day),
        **{
            name: means([(at, one[name]) for at, one in samples], day)
            for name in ("executors", "tasks", "slots", "in_flight", "lag_records")
        },
    }


def _executor_s(samples: Sequence[Sample], until_s: float) -> float:
    """Executors over time: each sample holds until the next."""
    inside = [(at, one["executors"]) for at, one in samples if 0 <= at <= until_s]
    ends = [at for at, _ in inside[1:]] + [until_s]
    return sum(count * (end - at) for (at, count), end in zip(inside, ends, strict=True))


# --- the chart -------------------------------------------------------------------------------

_SENT, _ASKED_FOR = "sent", "slots asked for"
_NAMES = {"elastic": "one to four executors", "fixed": "four executors"}


def _chart(result: dict[str, Any], path: Path) -> None:
    first = {side: runs[0] for side, runs in result["runs"].items()}

    def lines(key: str) -> list[Any]:
        return [line(_NAMES[side], run[key]) for side, run in first.items()]

    sent = line(_SENT, first["elastic"]["in_per_s"])
    asked_for = line(_ASKED_FOR, first["elastic"]["slots"])
    panels = [
        Panel("records/s", [sent, *lines("out_per_s")]),
        Panel("executors", [asked_for, *lines("executors")]),
        Panel("tasks running", lines("tasks")),
        Panel("delay p99, s", lines("p99_s")),
    ]
    title = f"A day of {TENANTS} tenants in {result['day_s']} s"
    print(draw(path, title, [_SENT, *_NAMES.values(), _ASKED_FOR], panels))
