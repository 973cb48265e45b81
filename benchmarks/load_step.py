"""Eight times the load for a minute: what builds up, how fast it is worked off, and what swings.

50 tenants. The handler computes (some 200 us a record in plain Python), so that CPU is the limit,
and each record becomes a row in SQLite, at least once. The rate in the step is 1.3 times what our
driver sustained in a calibration under the same conditions, with load and probe running; before and
after it is an eighth of that. By simple arithmetic a step of 60 s then leaves some 14 s of backlog
to whoever sustains as much as ours.

Structured Streaming runs the same function and writes the same rows, with
`kafka.fetch.max.wait.ms=5`: once without a limit, and once with a fixed `maxOffsetsPerTrigger`,
tuned in a calibration of its own. From batches of two sizes the fixed cost of a batch and the cost
of a record are fitted; the limit is what fits into a second, or into twice the fixed cost where
that is more, so that at least half of each batch is work.

Delays are by the second in which a record was meant to be sent; rates by the second in which it was
sent or seen in the table. *Peak* is the largest p99 of a second. *Steady again* is the first second
after the step from which on p99 stays under twice its base level for three seconds; the base level
is each contender's own. *Swings* are the turns of the throughput, smoothed over 3 s, by more than a
tenth of its highest, from the beginning of the step on; up and down again is one.
"""

from __future__ import annotations

import functools
import json
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.charts import IMAGES, Line, Panel, draw
from benchmarks.delays import COLUMNS, TABLE, Feed, Load, Seen, rows_of, table, verify, watched
from benchmarks.harness import RESULTS, broker, driver_of, session, topics, write
from benchmarks.samples import Sample, of_spark, sampled
from benchmarks.seconds import counts, line, means, quantiles
from benchmarks.streaming import Query, batch_of
from headrace.sinks import SqlTable
from headrace.use_cases import use_case

TENANTS = 50
STEP = 8.0
OVERLOAD = 1.3
#: rounds of the loop that is the handler's work
LOOPS = 1_500
PEAK_TARGET = 0.3
STEADY_TARGET = 0.5
SWINGS_TARGET = 2
#: lengths of the batches by which a contender's limit is tuned, in seconds of what ours sustains
CALIBRATED_S = (0.5, 2.0)
#: a turn of the throughput counts from this share of its highest on
_AMPLITUDE = 0.1
_SMOOTHED_S = 3
#: seconds in a row that p99 has to stay low
_CALM_S = 3


@dataclass(frozen=True, slots=True)
class Times:
    """How long, in seconds."""

    calibration: float
    base: float
    step: float
    after: float
    #: base before this is not looked at
    warm_up: float
    rounds: int

    @property
    def end(self) -> float:
        """When the load ends."""
        return self.base + self.step + self.after


FULL = Times(calibration=20.0, base=20.0, step=60.0, after=40.0, warm_up=8.0, rounds=1)
QUICK = Times(calibration=6.0, base=6.0, step=8.0, after=8.0, warm_up=2.0, rounds=1)


@dataclass(frozen=True, slots=True)
class Done:
    """One run of one contender; seconds are since the first record was meant to be sent."""

    seen: Seen
    #: (when it ended, records, seconds it took) of each wave or batch
    waves: list[tuple[float, int, float]]
    samples: list[Sample]


Contender = Callable[[Any, Load], Done]


def work(raw: bytes) -> int:
    """What is done with each record, by every contender."""
    score = len(raw)
    for number in range(LOOPS):
        score = (score * 31 + number) % 65_521
    return score


def value(_topic: str, _number: int, _at_s: float) -> bytes:
    """What is sent: the same every time."""
    return b"x" * 200


def main(args: list[str]) -> None:
    """Run, write `results/load_step.json` and draw its chart; `--chart` only draws."""
    if "--chart" in args:
        _chart(json.loads((RESULTS / "load_step.json").read_text()), IMAGES / "load-step.svg")
        return
    times = QUICK if "--quick" in args else FULL
    with broker() as config, session() as spark:
        spark.conf.set("spark.sql.streaming.numRecentProgressUpdates", "10000")
        ours = _sustained(_ours(spark, _overload(config, "c", _possible_per_s(), times)), times)
        print(f"ours sustain {ours} records/s", flush=True)
        tuned = _tuned(
            _theirs(spark, _overload(config, f"c{number}", ours, times), int(ours * seconds))
            for number, seconds in enumerate(CALIBRATED_S)
        )
        capacity = {"ours": ours, **tuned}
        print(capacity, flush=True)
        base_per_s = OVERLOAD * ours / STEP
        contenders: dict[str, Contender] = {
            "ours": _ours,
            "limited": functools.partial(_theirs, most_offsets=int(tuned["limit"])),
            "unlimited": functools.partial(_theirs, most_offsets=None),
        }
        runs: dict[str, list[dict[str, Any]]] = {name: [] for name in contenders}
        for number in range(times.rounds):
            # Who goes first alternates.
            for name in list(contenders) if number % 2 == 0 else list(reversed(contenders)):
                load = _load(config, f"{name}{number}", base_per_s, times)
                runs[name].append(_figures(contenders[name](spark, load), times))
                print(name, {key: runs[name][-1][key] for key in _SHOWN}, flush=True)
    compared = {
        name: [_compared(*pair) for pair in zip(runs["ours"], runs[name], strict=True)]
        for name in ("limited", "unlimited")
    }
    result = {
        "tenants": TENANTS,
        "step_s": [times.base, times.base + times.step],
        "base_per_s": round(base_per_s, 1),
        "capacity": capacity,
        "compared": compared,
        "runs": runs,
    }
    name = "load_step.quick" if times is QUICK else "load_step"
    written = write(name, result)
    _chart(result, written.with_suffix(".svg") if times is QUICK else IMAGES / "load-step.svg")
    for name, ratios in ((name, pair) for name, pairs in compared.items() for pair in pairs):
        print(
            f"against {name}: peak {ratios['peak_ratio']} x (target {PEAK_TARGET}), "
            f"steady again {ratios['steady_ratio']} x (target {STEADY_TARGET}), "
            f"{ratios['swings']} swings (target {SWINGS_TARGET})"
        )


_SHOWN = ("base", "peak_p99_s", "steady_again_s", "swings", "most_per_s", "repeats")


def _compared(mine: dict[str, Any], his: dict[str, Any]) -> dict[str, Any]:
    return {
        "peak_ratio": round(mine["peak_p99_s"] / his["peak_p99_s"], 3),
        "steady_ratio": round(mine["steady_again_s"] / his["steady_again_s"], 3),
        "swings": mine["swings"],
    }


# --- load and calibration --------------------------------------------------------------------


def _load(config: dict[str, str], prefix: str, base_per_s: float, times: Times) -> Load:
    names = tuple(f"{prefix}-{number}.visits" for number in range(TENANTS))
    topics(config, names)
    steps = ((0.0, 1.0), (times.base, STEP), (times.base + times.step, 1.0))
    feed = Feed(names, base_per_s / TENANTS, value, steps)
    return Load(config, (feed,), times.end)


def _possible_per_s() -> float:
    """What two cores could do if they did nothing but the handler's work."""
    began = time.perf_counter()
    for _ in range(2_000):
        work(b"x")
    return 2 * 2_000 / (time.perf_counter() - began)


def _overload(config: dict[str, str], prefix: str, per_s: float, times: Times) -> Load:
    names = tuple(f"{prefix}-{number}.visits" for number in range(TENANTS))
    topics(config, names)
    return Load(config, (Feed(names, per_s / TENANTS, value),), times.calibration)


def _sustained(done: Done, times: Times) -> float:
    """Records a second, while there was too much to do."""
    verify(done.seen)
    from_s, until_s = times.calibration / 3, times.calibration
    count = int(((done.seen.seen_s >= from_s) & (done.seen.seen_s < until_s)).sum())
    return round(count / (until_s - from_s), 1)


def _tuned(runs: Iterable[Done]) -> dict[str, float]:
    """What a batch and a record cost Structured Streaming, and the limit that follows."""
    points: list[tuple[float, float]] = []
    for done in runs:
        verify(done.seen)
        # The first two compile and start workers, the last is not full.
        most = max(records for _, records, _ in done.waves)
        full = [wave for wave in done.waves[2:] if wave[1] > 0.9 * most] or done.waves
        # The quick ones: what slowed down the others was not the contender.
        points.append((most, float(np.quantile([took for _, _, took in full], 0.25))))
        print(f"batches of {most} records take theirs {points[-1][1]:.2f} s", flush=True)
    (few, few_s), (many, many_s) = points
    record_s = max((many_s - few_s) / (many - few), 0.1 * many_s / many)
    fixed_s = max(0.0, many_s - many * record_s)
    target_s = max(1.0, 2 * fixed_s)
    return {
        "theirs_record_s": round(record_s, 7),
        "theirs_batch_s": round(fixed_s, 3),
        "limit": max(TENANTS, int((target_s - fixed_s) / record_s)),
    }


# --- figures ---------------------------------------------------------------------------------


def _figures(done: Done, times: Times) -> dict[str, Any]:
    seen = done.seen
    repeats = verify(seen)
    seconds = int(np.ceil(max(seen.seen_s.max(), times.end)))
    p99 = quantiles(seen, int(times.end), "p99_s")
    out = counts(seen.seen_s, seconds)
    base = seen.delays(times.warm_up, times.base)
    swings, smooth = _swings(out[int(times.base) :])
    return {
        "base": base,
        "peak_p99_s": max(delay_s for delay_s in p99 if delay_s is not None),
        "steady_again_s": _steady(p99, int(times.base + times.step), 2 * base["p99_s"]),
        "swings": swings,
        "most_per_s": round(max(smooth)),
        "repeats": repeats,
        "in_per_s": counts(seen.sent_s, seconds),
        "out_per_s": out,
        "p50_s": quantiles(seen, int(times.end), "p50_s"),
        "p99_s": p99,
        "wave_records": means([(at, count) for at, count, _ in done.waves], seconds),
        "wave_s": means([(at, took) for at, _, took in done.waves], seconds),
        "busy_slots": means([(at, one["tasks"]) for at, one in done.samples], seconds),
    }


def _steady(p99: Sequence[float | None], step_end: int, level_s: float) -> float:
    """Seconds from the end of the step until p99 stays low; all that were seen if it never does."""
    low = [delay_s is not None and delay_s < level_s for delay_s in p99[step_end:]]
    calm = (at for at in range(len(low)) if all(low[at : at + _CALM_S]))
    return float(max(1, next(calm, len(low))))


def _swings(per_s: Sequence[int]) -> tuple[int, list[float]]:
    """Turns by more than a tenth of the highest, and the smoothed throughput."""
    smooth = np.convolve(per_s, np.ones(_SMOOTHED_S) / _SMOOTHED_S, mode="valid").tolist()
    least = _AMPLITUDE * max(smooth)
    swings, direction, extreme = 0, 0, smooth[0]
    for rate in smooth:
        if direction * (rate - extreme) > 0:
            extreme = rate
        elif abs(rate - extreme) > least:
            swings += direction != 0
            direction = 1 if rate > extreme else -1
            extreme = rate
    return swings, smooth


# --- the chart -------------------------------------------------------------------------------

_NAMES = {
    "ours": "Headrace",
    "limited": "Structured Streaming, tuned limit",
    "unlimited": "Structured Streaming, no limit",
}
_SENT = "sent"


def _chart(result: dict[str, Any], path: Path) -> None:
    first = {name: runs[0] for name, runs in result["runs"].items()}

    def lines(key: str) -> list[Line]:
        return [line(_NAMES[name], run[key]) for name, run in first.items()]

    sent = line(_SENT, first["ours"]["in_per_s"])
    panels = [
        Panel("records/s", [sent, *lines("out_per_s")]),
        Panel("delay p99, s", lines("p99_s"), log=True),
        Panel("records a wave\nor batch", lines("wave_records"), log=True),
        Panel("busy slots", lines("busy_slots")),
    ]
    title = f"Load of {TENANTS} tenants times {STEP:.0f} for a while"
    shaded = tuple(result["step_s"])
    print(draw(path, title, [_SENT, *_NAMES.values()], panels, shaded))


# --- contenders ------------------------------------------------------------------------------


def _scored(records: pa.Table, _context: Any) -> pa.Table:
    return rows_of(records, [work(raw) for raw in records["value"].to_pylist()])


def _ours(spark: Any, load: Load) -> Done:
    rows = SqlTable(TABLE, columns=COLUMNS)
    made = use_case(topic="{tenant}.visits", sink=rows, guarantee="at-least-once", name="score")
    tenants = [name.removesuffix(".visits") for name in load.feeds[0].topics]
    with driver_of(spark, load.config, made(_scored), tenants) as bench:
        with sampled(lambda: of_spark(spark)) as samples:
            seen = watched(bench.path, load, lambda: bench.driver.turn)
        waves = [(wave.at_s, wave.records, wave.seconds) for wave in bench.counter.ended]
        return _done(seen, waves, samples)


def _theirs(spark: Any, load: Load, most_offsets: int | None) -> Done:
    with (
        tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder,
        table(folder) as path,
        ExitStack() as stack,
    ):
        running: list[Any] = []

        def start() -> Callable[[], object]:
            prefix = load.feeds[0].topics[0].partition("-")[0]
            query = Query(load.config, f"{prefix}-.*[.]visits", path, most_offsets)
            running.append(stack.enter_context(query.running(spark, _batches)))
            # Raises if the query failed.
            return functools.partial(running[0].awaitTermination, 0.05)

        with sampled(lambda: of_spark(spark)) as samples:
            seen = watched(path, load, start)
        waves = [_batch(progress) for progress in running[0].recentProgress]
        return _done(seen, waves, samples)


def _done(seen: Seen, waves: Sequence[tuple[float, int, float]], samples: list[Sample]) -> Done:
    moved = [(at - seen.began_s, records, took) for at, records, took in waves]
    return Done(seen, moved, [(at - seen.began_s, one) for at, one in samples])


def _batch(progress: Any) -> tuple[float, int, float]:
    """When a batch ended, its records, and its seconds."""
    told = json.loads(progress.json)
    began = datetime.fromisoformat(told["timestamp"]).timestamp()
    took = told["durationMs"].get("triggerExecution", 0) / 1000
    return began + took, told["numInputRows"], took


def _batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch_of(batch, [work(raw) for raw in batch["value"].to_pylist()])
