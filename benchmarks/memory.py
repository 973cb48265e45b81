"""Memory of a driver and its workers over ten minutes of steady work: is it flat?

500 records a second over 1,000 topics into SQL, exactly once. Resident memory of the driver's
Python, its JVM and its Python workers is read every five seconds; after a warm-up of two minutes
the slope must not differ from nothing by more than a few megabytes in ten minutes.
"""

from __future__ import annotations

import os
import time
from typing import Any

import numpy as np
import psutil

from benchmarks.harness import broker, driver_of, session, topics, write
from benchmarks.steady import LANES, Load, _row
from headrace.sinks import SqlTable
from headrace.use_cases import use_case

SECONDS = 600.0
WARM_UP_S = 120.0
EVERY_S = 5.0


def main(_args: list[str]) -> None:
    """Run and write `results/memory.json`."""
    samples: list[dict[str, float]] = []
    with broker() as config, session() as spark:
        names = [f"m-{lane}.visits" for lane in range(LANES)]
        topics(config, names)
        rows = SqlTable("results", columns={"topic": "text", "at": "bigint", "sent_ms": "bigint"})
        made = use_case(topic="{tenant}.visits", sink=rows, guarantee="exactly-once", name="keep")(
            _row
        )
        with driver_of(spark, config, made, [f"m-{lane}" for lane in range(LANES)]) as bench:
            load = Load(config, names, SECONDS)
            began, next_s = time.monotonic(), 0.0
            load.start()
            while load.is_alive() or bench.done < load.sent:
                bench.driver.turn()
                elapsed = time.monotonic() - began
                if elapsed >= next_s:
                    samples.append({"at_s": round(elapsed, 1), **_resident_mb()})
                    next_s = elapsed + EVERY_S
                assert elapsed < SECONDS + 120, "the driver did not get through"
            assert bench.done == load.sent
    result = {"samples": samples, "slope_mb_in_10_min": _slopes(samples), "records": load.sent}
    write("memory", result)
    print(f"slope in MB over ten minutes: {result['slope_mb_in_10_min']}, last {samples[-1]}")


def _resident_mb() -> dict[str, float]:
    """Of this process, its JVM (without the broker's) and its Python workers."""
    found = {"driver": psutil.Process().memory_info().rss, "jvm": 0, "workers": 0}
    for child in psutil.Process().children(recursive=True):
        try:
            line = " ".join(child.cmdline())
            rss = child.memory_info().rss
        except psutil.Error:
            continue
        if "org.apache.spark" in line:
            found["jvm"] += rss
        elif "pyspark" in line:
            found["workers"] += rss
    assert found["jvm"], f"no JVM among the children of {os.getpid()}"
    return {name: round(rss / 1024**2, 1) for name, rss in found.items()}


def _slopes(samples: list[dict[str, float]]) -> dict[str, Any]:
    warm = [sample for sample in samples if sample["at_s"] >= WARM_UP_S]
    seconds = np.array([sample["at_s"] for sample in warm])
    return {
        name: round(float(np.polyfit(seconds, [sample[name] for sample in warm], 1)[0]) * 600, 2)
        for name in ("driver", "jvm", "workers")
    }
