"""A round over many small topics, against Spark's own Kafka source over the same offsets.

Each round puts 10 records into each of 200, 1,000 or 2,000 one-partition topics. Ours is the whole
way: observe, plan, Spark jobs, read, handler, sink, committed positions. Spark's is one batch read
into its `noop` writer, with the offsets given and nothing committed. Both read the same records,
in the same session, taking turns in being first.
"""

from __future__ import annotations

import json
import time
from typing import Any

from benchmarks.contenders import passing
from benchmarks.harness import Bench, broker, driver_of, fill, ratio, session, topics, write

SIZES = (200, 1000, 2000)
RECORDS = 10
ROUNDS = 5
TIME_TARGET = 0.10
TASKS_TARGET = 0.02


def main(_args: list[str]) -> None:
    """Run all sizes and write `results/many_lanes.json`."""
    with broker() as config, session() as spark:
        sizes = [_measure(spark, config, size) for size in SIZES]
    write("many_lanes", {"rounds": ROUNDS, "records_per_lane": RECORDS, "sizes": sizes})
    for size in sizes:
        print(
            f"{size['lanes']} lanes: time {size['time_ratio']['median']:.3f} of Spark's "
            f"(target {TIME_TARGET}), tasks {size['tasks_ratio']:.4f} (target {TASKS_TARGET}); "
            f"ours {size['ours_s']} s, Spark's source {size['spark_s']} s"
        )


def _measure(spark: Any, config: dict[str, str], size: int) -> dict[str, Any]:
    tenants = [f"t{size}-{number}" for number in range(size)]
    names = [f"{name}.visits" for name in tenants]
    topics(config, names)
    ours_s: list[float] = []
    spark_s: list[float] = []
    tasks: list[int] = []
    with driver_of(spark, config, passing(), tenants) as bench:
        bench.driver.turn()
        for number in range(ROUNDS + 1):
            fill(config, names, RECORDS, 300)
            bins_before = bench.bins_started
            # Who goes first alternates: the first finds the broker's cache as the fill left it.
            if number % 2:
                theirs, mine = _read(spark, config, names, number), _drive(bench, size)
            else:
                mine, theirs = _drive(bench, size), _read(spark, config, names, number)
            if number:
                ours_s.append(round(mine, 4))
                spark_s.append(round(theirs, 4))
                tasks.append(bench.bins_started - bins_before)
    return {
        "lanes": size,
        "ours_s": ours_s,
        "spark_s": spark_s,
        "time_ratio": ratio(ours_s, spark_s),
        "ours_tasks": tasks,
        "spark_tasks": size,
        "tasks_ratio": max(tasks) / size,
    }


def _drive(bench: Bench, size: int) -> float:
    return bench.until_done(size * RECORDS)


def _read(spark: Any, config: dict[str, str], names: list[str], number: int) -> float:
    start, end = number * RECORDS, (number + 1) * RECORDS
    frame = (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", config["bootstrap.servers"])
        .option("kafka.fetch.max.wait.ms", "5")
        .option("assign", json.dumps({name: [0] for name in names}))
        .option("startingOffsets", json.dumps({name: {"0": start} for name in names}))
        .option("endingOffsets", json.dumps({name: {"0": end} for name in names}))
        .load()
    )
    began = time.perf_counter()
    frame.write.format("noop").mode("overwrite").save()
    took = time.perf_counter() - began
    if number == 0:
        assert frame.count() == len(names) * RECORDS, "Spark's source did not read every record"
    return took
