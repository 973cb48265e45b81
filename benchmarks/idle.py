"""What 10,000 idle lanes cost a driver, and how soon the first record after a quiet time is done.

Three drivers in one process, on one broker and one Spark, take turns in being turned: one with no
lane, one with 10,000 partitions, one with 5,000 topics that two use cases read (10,000 lanes, one
question a partition). Nothing is sent. Counted are the CPU seconds of the driver process, of
Spark's JVM, of its workers and of the broker, and the tasks started.

Then records are sent to random topics that were quiet so far, one every 0.3 s, and each topic gets
a second record a while after its first. Taken is the time from sending to the durable commit, with
1,000 and with 10,000 lanes.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
from confluent_kafka import Producer

from benchmarks.contenders import passing
from benchmarks.cpu import counted, line
from benchmarks.harness import Bench, broker, driver_of, session, topics, write
from headrace.connectors.kafka import producer_config
from headrace.cycle.ends import LIVELY_S
from headrace.model.streams import StreamId

LANES = 10_000
FEW_LANES = 1_000
ROUNDS = 3
MEASURED_S = 20.0
WAKE_UPS = 100
WAKE_EVERY_S = 0.3
SECOND_AFTER_S = 6.0
CPU_TARGET = 0.05
FIRST_TARGET_S = {FEW_LANES: 0.5, LANES: 5.0}


def main(_args: list[str]) -> None:
    """Run and write `results/idle.json`."""
    tenants = [f"t{number}" for number in range(LANES)]
    with broker() as config, session() as spark:
        topics(config, [f"{name}.visits" for name in tenants])
        idle = _idle(spark, config, tenants)
        delays = {lanes: _wake_ups(spark, config, tenants[:lanes]) for lanes in (FEW_LANES, LANES)}
    added = {
        name: [round(mine["driver"] - none["driver"], 4) for mine, none in _pairs(idle, name)]
        for name in ("partitions", "shared")
    }
    result = {"seconds": MEASURED_S, "cpu_share": idle, "added_by_10000_lanes": added}
    write("idle", {**result, "delays_s": delays})
    for name, shares in added.items():
        print(f"{name}: 10,000 lanes add {shares} of a core (target < {CPU_TARGET})")
    for name, rounds in idle.items():
        print(f"{name}: " + "; ".join(map(line, rounds)))
    for lanes, delay_s in delays.items():
        print(f"{lanes} lanes: {delay_s}, target for the first {FIRST_TARGET_S[lanes]} s")


def _pairs(
    idle: Mapping[str, list[dict[str, float]]], name: str
) -> Iterator[tuple[dict[str, float], dict[str, float]]]:
    return zip(idle[name], idle["none"], strict=True)


# --- what idle lanes cost --------------------------------------------------------------------


def _idle(spark: Any, config: dict[str, str], tenants: list[str]) -> dict[str, Any]:
    with ExitStack() as stack:
        benches = {
            "none": stack.enter_context(driver_of(spark, config, passing(), [])),
            "partitions": stack.enter_context(driver_of(spark, config, passing(), tenants)),
            "shared": stack.enter_context(_twice(spark, config, tenants[: LANES // 2])),
        }
        for bench in benches.values():
            _turn_for(bench, 10.0)
        shares: dict[str, list[dict[str, float]]] = {name: [] for name in benches}
        for number in range(ROUNDS):
            order = list(benches) if number % 2 == 0 else list(reversed(benches))
            for name in order:
                shares[name].append(_share(benches[name]))
                print(name, shares[name][-1], flush=True)
        return shares


@contextmanager
def _twice(spark: Any, config: dict[str, str], tenants: Sequence[str]) -> Iterator[Bench]:
    """A driver of two use cases that read the same topics."""
    one = passing()
    other = replace(one, name="other")
    with driver_of(spark, config, one, tenants) as bench:
        deployment = replace(bench.driver.deployed[one.name], use_case=other.name)
        bench.store.registry.deploy(deployment)
        bench.engine.take(other, deployment)
        bench.driver.take(other, deployment)
        yield bench


def _share(bench: Bench) -> dict[str, float]:
    """CPU seconds a second, by process, of an idle driver that is turned."""
    tasks = bench.bins_started
    with counted(closely=False) as cpu:
        turns = _turn_for(bench, MEASURED_S)
    assert bench.done == 0, "somebody sent records"
    per_s = round(turns / cpu.took_s, 1)
    return {**cpu.cores, "turns_per_s": per_s, "tasks": bench.bins_started - tasks}


def _turn_for(bench: Bench, seconds: float) -> int:
    until, turns = time.perf_counter() + seconds, 0
    while time.perf_counter() < until:
        bench.driver.turn()
        turns += 1
    return turns


# --- the first record after a quiet time -----------------------------------------------------


def _wake_ups(spark: Any, config: dict[str, str], tenants: Sequence[str]) -> dict[str, Any]:
    chance = random.Random(len(tenants))
    warm, *chosen = chance.sample(tenants, WAKE_UPS + 1)
    sends = [
        (WAKE_EVERY_S * (number + chance.random()) + after_s, name)
        for number, name in enumerate(chosen)
        for after_s in (0.0, SECOND_AFTER_S)
    ]
    with driver_of(spark, config, passing(), tenants) as bench:
        _delays(bench, Sends(config, [(0.0, warm)]))  # Spark's workers start with it
        _turn_for(bench, LIVELY_S + 5.0)
        delays = _delays(bench, Sends(config, sorted(sends)))
    return {
        "first": _figures([delay[0] for delay in delays.values()]),
        "second": _figures([delay[1] for delay in delays.values()]),
    }


class Sends(threading.Thread):
    """Sends a record to each topic at the second it is told, from now."""

    def __init__(self, config: Mapping[str, str], sends: Sequence[tuple[float, str]]) -> None:
        super().__init__(name="sends", daemon=True)
        self._producer = Producer({**producer_config(config), "linger.ms": 0})
        now_s = time.perf_counter()
        #: tenant -> the seconds its records are sent at, oldest first
        self.at_s: dict[str, list[float]] = {}
        self._sends = [(now_s + after_s, name) for after_s, name in sends]
        for at_s, name in self._sends:
            self.at_s.setdefault(name, []).append(at_s)

    def run(self) -> None:
        """Send them all."""
        for at_s, name in self._sends:
            time.sleep(max(0.0, at_s - time.perf_counter()))
            self._producer.produce(f"{name}.visits", b"x", partition=0)
            self._producer.poll(0)
        assert self._producer.flush(30) == 0, "not all records were acknowledged"


def _delays(bench: Bench, sends: Sends) -> dict[str, list[float]]:
    """Turn until everything sent is committed; the seconds from each sending to its commit."""
    delays: dict[str, list[float]] = {name: [] for name in sends.at_s}
    before = {name: _committed(bench, name) for name in delays}
    sends.start()
    began = time.perf_counter()
    while any(len(delays[name]) < len(sends.at_s[name]) for name in delays):
        bench.driver.turn()
        now_s = time.perf_counter()
        for name, found in delays.items():
            for at_s in sends.at_s[name][len(found) : _committed(bench, name) - before[name]]:
                found.append(now_s - at_s)
        assert now_s - began < 300, "the driver did not get through"
    return delays


def _committed(bench: Bench, tenant: str) -> int:
    meter = bench.driver.reporter.meters.get(StreamId("pass", tenant))
    return meter.records_total if meter is not None else 0


def _figures(delays_s: Sequence[float]) -> dict[str, float]:
    p50, p99, most = np.quantile(np.array(delays_s), [0.5, 0.99, 1.0])
    return {
        "p50_s": round(float(p50), 3),
        "p99_s": round(float(p99), 3),
        "max_s": round(float(most), 3),
        "measured": len(delays_s),
    }
