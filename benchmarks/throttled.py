"""A backlog of 120,000 records into a search cluster that takes far less than it is given.

The published shape: batches of 120,000 into a service that throttles, the rate cut by hand,
executors growing as long as the backlog does. Here 20 tenants get 6,000 records each within some
seconds; a door before an OpenSearch node lets in 1,500 documents a second and answers 429 for each
one more (`throttling_door.py`). The handler waits 1 ms a record, so that the work needs executors,
of which there are one to four, on Spark's own standalone cluster. Beside it a second use case of
the same tenants writes a few records a second to SQLite: what the throttle must not delay.

Looked at: how much of what the door lets in is used until the backlog is gone, how much is offered
in vain, where the pace and the executors go, and the delay of the second use case before and
during. At the end each document has to be there once, and nothing may have failed for good.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks.charts import IMAGES, Panel, draw
from benchmarks.delays import COLUMNS, TABLE, Feed, Load, rows_of, verify, watched
from benchmarks.harness import RESULTS, Bench, await_executors, broker, driver_of, topics, write
from benchmarks.samples import Sample, of_spark, sampled
from benchmarks.seconds import line, means, quantiles
from benchmarks.throttling_door import counts, throttled
from headrace.connectors.search.servers import Cluster, address_of
from headrace.embedded import EmbeddedOpenSearch, EmbeddedSparkCluster
from headrace.policies.elasticity import SlotLimits
from headrace.ports import Server
from headrace.sinks import SearchIndex, SqlTable
from headrace.spark.session import build_session, elastic_options
from headrace.use_cases import use_case

TENANTS, EXECUTORS = 20, 4
BACKLOG, QUICK_BACKLOG = 120_000, 12_000
TAKEN_PER_S = 1_500.0
RECORD_S = 0.001
#: quiet before the flood, and how long that takes to be sent
BEFORE_S, FLOOD_S = 30.0, 6.0
WARM_UP_S = 10.0
#: records a second of each tenant's other use case
BESIDE_PER_S = 1.0
USED_TARGET, P99_TARGET_S = 0.8, 5.0
INDEX = "visits"
_MEMORY = {"spark.executor.memory": "512m", "spark.driver.memory": "1g"}


def value(_topic: str, number: int, _at_s: float) -> bytes:
    """What is sent: the same every time."""
    return json.dumps({"number": number, "path": f"/page/{number % 97}"}).encode()


def main(args: list[str]) -> None:
    """Run, write `results/throttled.json`, draw `docs/images/throttled.svg`."""
    if "--chart" in args:
        _chart(json.loads((RESULTS / "throttled.json").read_text()), IMAGES / "throttled.svg")
        return
    quick = "--quick" in args
    result = _run(QUICK_BACKLOG if quick else BACKLOG)
    written = write("throttled.quick" if quick else "throttled", result)
    _chart(result, written.with_suffix(".svg") if quick else IMAGES / "throttled.svg")
    print(
        f"{result['used_share']} of what the door lets in is used (target {USED_TARGET}), "
        f"{result['refused_share']} of what is offered is refused; beside it p99 "
        f"{result['beside_before']['p99_s']} s before, {result['beside_during']['p99_s']} s during "
        f"(target {P99_TARGET_S}); {result['most_executors']} executors"
    )


def _run(backlog: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as name:
        folder = Path(name)
        # Root's node is another user, who has to reach it.
        folder.chmod(0o711)
        with (
            EmbeddedOpenSearch(folder / "opensearch", heap_mb=1024) as node,
            throttled(node.url, TAKEN_PER_S) as door,
            EmbeddedSparkCluster(folder / "spark", cores=EXECUTORS, memory="4g") as cluster,
            broker() as config,
        ):
            os.environ.update(cluster.environment)
            options = {**elastic_options(1, EXECUTORS), **_MEMORY}
            spark = build_session("headrace benchmark", cluster.master_url, options, {"index": 1})
            try:
                await_executors(spark, 1)
                figures = _measured(spark, config, door, backlog)
            finally:
                spark.stop()
            documents = Cluster("benchmark", address_of(Server(node.url), "benchmark"))
            documents.asked("POST", f"/{INDEX}/_refresh")
            found = documents.asked("GET", f"/{INDEX}/_count")["count"]
            assert found == backlog, f"{found} of {backlog} documents"
            return figures


def _indexed(records: pa.Table, context: Any) -> pa.Table:
    time.sleep(RECORD_S * records.num_rows)
    return pa.table(
        {
            "id": [f"{context.tenant}-{offset}" for offset in records["offset"].to_pylist()],
            "body": records["value"].cast(pa.string()),
            "newness": context.versions(records),
        }
    )


def _counted(records: pa.Table, _context: Any) -> pa.Table:
    return rows_of(records, [1] * records.num_rows)


def _measured(spark: Any, config: Mapping[str, str], door: str, backlog: int) -> dict[str, Any]:
    tenants = [f"t-{number}" for number in range(TENANTS)]
    flood = tuple(f"{tenant}.visits" for tenant in tenants)
    beside = tuple(f"{tenant}.beats" for tenant in tenants)
    topics(config, (*flood, *beside))
    steps = ((0.0, 0.0), (BEFORE_S, 1.0), (BEFORE_S + FLOOD_S, 0.0))
    feeds = (
        Feed(beside, BESIDE_PER_S, value),
        Feed(flood, backlog / TENANTS / FLOOD_S, value, steps),
    )
    sink = SearchIndex(
        INDEX,
        {"id": "text", "body": "text", "newness": "version"},
        key=("id",),
        newest_by="newness",
        key_in_one_lane=True,
        at="search",
        copies=0,
    )
    index = use_case(topic="{tenant}.visits", sink=sink, guarantee="at-least-once", name="index")(
        _indexed
    )
    count = use_case(
        topic="{tenant}.beats",
        sink=SqlTable(TABLE, columns=COLUMNS),
        guarantee="at-least-once",
        name="count",
    )(_counted)
    # It goes on until the backlog is gone, and for a while after that.
    load = Load(config, feeds, BEFORE_S + FLOOD_S + backlog / TAKEN_PER_S + 30, frozenset(flood))
    with driver_of(
        spark,
        config,
        index,
        tenants,
        slots=SlotLimits(1, EXECUTORS),
        beside=(count,),
        servers={"search": Server(door)},
    ) as bench:

        def look() -> dict[str, float]:
            return _look(spark, bench, door)

        with sampled(look) as samples:
            seen = watched(
                bench.path,
                load,
                lambda: bench.driver.turn,
                lambda _elapsed_s: _done(bench) < backlog,
            )
        failures = bench.store.failures.every()
    assert not failures, failures
    repeats = verify(seen, flood)
    moved = [(at - seen.began_s, one) for at, one in samples]
    return {
        "tenants": TENANTS,
        "backlog_records": backlog,
        "taken_per_s": TAKEN_PER_S,
        "repeats_beside": repeats,
        **_figures(moved, backlog),
        "beside_before": seen.delays(WARM_UP_S, BEFORE_S),
        "beside_during": seen.delays(BEFORE_S, _gone_s(moved)),
        "beside_p99_s": quantiles(seen, int(load.seconds), "p99_s"),
        **seen.cpu.told(),
    }


def _done(bench: Bench) -> int:
    meters = dict(bench.driver.reporter.meters)
    return sum(one.records_total for name, one in meters.items() if name.use_case == "index")


def _look(spark: Any, bench: Bench, door: str) -> dict[str, float]:
    pace = bench.driver.capacity.paces.get("index")
    return {
        **of_spark(spark),
        **counts(door),
        "slots": bench.driver.slots,
        "done": _done(bench),
        **({} if pace is None else {"pace_per_s": pace}),
    }


def _gone_s(samples: Sequence[Sample]) -> float:
    """When the backlog was gone."""
    most = max(one["done"] for _, one in samples)
    return next(at for at, one in samples if one["done"] == most)


def _figures(samples: Sequence[Sample], backlog: int) -> dict[str, Any]:
    gone_s = _gone_s(samples)
    last = samples[-1][1]
    assert last["let_in"] >= backlog, last
    offered = last["let_in"] + last["refused"]
    seconds = int(samples[-1][0])
    return {
        "gone_after_s": round(gone_s - BEFORE_S, 1),
        "used_share": round(backlog / TAKEN_PER_S / (gone_s - BEFORE_S), 3),
        "offered": offered,
        "let_in": last["let_in"],
        "refused_share": round(last["refused"] / offered, 3),
        "most_executors": max(one["executors"] for _, one in samples),
        "let_in_per_s": _per_s(samples, "let_in", seconds),
        "refused_per_s": _per_s(samples, "refused", seconds),
        "waiting": means([(at, _waiting(at, one, backlog)) for at, one in samples], seconds),
        **{
            name: means([(at, one[name]) for at, one in samples if name in one], seconds)
            for name in ("executors", "slots", "tasks", "pace_per_s")
        },
    }


def _waiting(at_s: float, seen: Mapping[str, float], backlog: int) -> float:
    """Records that were sent, by the plan, and are not done."""
    sent = backlog * min(1.0, max(0.0, (at_s - BEFORE_S) / FLOOD_S))
    return max(0.0, sent - seen["done"])


def _per_s(samples: Sequence[Sample], name: str, seconds: int) -> list[float | None]:
    rates = [
        (at, (now[name] - before[name]) / (at - earlier))
        for (earlier, before), (at, now) in pairwise(samples)
    ]
    return means(rates, seconds)


# --- the chart -------------------------------------------------------------------------------

_HELD, _IN, _REFUSED, _BESIDE = "what the door lets in", "taken", "refused", "the other use case"


def _chart(result: dict[str, Any], path: Path) -> None:
    capacity = [result["taken_per_s"]] * len(result["let_in_per_s"])
    panels = [
        Panel(
            "documents/s",
            [
                line(_HELD, capacity),
                line(_IN, result["let_in_per_s"]),
                line(_REFUSED, result["refused_per_s"]),
            ],
        ),
        Panel("pace, records/s", [line(_IN, result["pace_per_s"])], log=True),
        Panel("records waiting", [line(_IN, result["waiting"])]),
        Panel("executors", [line(_IN, result["executors"])]),
        Panel("delay p99, s", [line(_BESIDE, result["beside_p99_s"])]),
    ]
    title = f"{result['backlog_records']:,} records into a service that takes fewer"
    print(draw(path, title, [_HELD, _IN, _REFUSED, _BESIDE], panels))
