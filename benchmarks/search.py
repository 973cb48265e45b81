"""Rows into OpenSearch through the sink, against the client's own ``helpers.bulk``.

Both write the same rows, in turn, in one process, to an index of their own in one node; the sink
from the effects of a hundred slices, a bin at a time; the other from actions that are made before,
under the same versions, as many at a time. The documents are counted, and a number in them summed.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import opensearchpy
import pyarrow.compute as pc

from benchmarks import harness
from benchmarks.valkey import COLUMNS, EACH, LANES, effects_of
from headrace.connectors.in_parts import AT_ONCE
from headrace.embedded import EmbeddedOpenSearch
from headrace.ports import Connections, Effect, Server, Site
from headrace.sinks import SearchIndex

BINS, ROUNDS = 2, 5
TARGET = 0.7


def main(args: list[str]) -> None:
    """Run and write `results/search.json`."""
    quick = "--quick" in args
    bins, rounds = (1, 1) if quick else (BINS, ROUNDS)
    waves = [effects_of(number) for number in range(bins)]
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as name:
        # Root's node is another user, who has to reach it.
        Path(name).chmod(0o711)
        with EmbeddedOpenSearch(Path(name) / "opensearch", heap_mb=1024) as server:
            found = _measured(server.url, waves, rounds)
    print(f"rows/s: {found['rows_per_s']}; ratio {found['ratio']} (target {TARGET})")
    if not quick:
        harness.write("search", {"bins": bins, "rows_a_bin": LANES * EACH, **found})


def _sink(name: str) -> SearchIndex:
    return SearchIndex(
        name,
        COLUMNS,
        key=("lane", "record"),
        newest_by="newness",
        key_in_one_lane=True,
        at="search",
        copies=0,
    )


def _measured(url: str, waves: Sequence[Sequence[Effect]], rounds: int) -> dict[str, Any]:
    site = Site(Connections({}, "", servers={"search": Server(url)}), None)
    tables = [effect.output for wave in waves for effect in wave]
    due = sum(t.num_rows for t in tables), sum(pc.sum(t["bytes"]).as_py() for t in tables)
    client = opensearchpy.OpenSearch(hosts=[url], timeout=60)
    given = [_as_actions(wave) for wave in waves]
    took: dict[str, list[float]] = {"sink": [], "client": []}
    for number in range(rounds + 1):
        client.indices.delete(index="by_*")
        for name in ("by_sink", "by_client"):
            _sink(name).prepare(site)
        contenders = {
            "sink": lambda: _by_sink(site, waves),
            "client": lambda: _by_client(client, given),
        }
        for name in contenders if number % 2 else reversed(contenders):
            begun = time.perf_counter()
            contenders[name]()
            if number:  # the first one warms up
                took[name].append(round(time.perf_counter() - begun, 3))
        assert _counted(client, "by_sink") == due, "the sink has other rows"
        assert _counted(client, "by_client") == due, "the client has other rows"
    speeds = {name: round(due[0] / statistics.median(took[name])) for name in took}
    return {
        "seconds": took,
        "rows_per_s": speeds,
        "ratio": harness.ratio(took["client"], took["sink"]),
    }


def _as_actions(wave: Sequence[Effect]) -> list[dict[str, Any]]:
    return [
        {
            "_index": "by_client",
            "_id": f"{row['lane']}:{row['record']}",
            "version": effect.version,
            "version_type": "external_gte",
            "_source": {**row, "newness": effect.version},
        }
        for effect in wave
        for row in effect.output.to_pylist()
    ]


def _by_sink(site: Site, waves: Sequence[Sequence[Effect]]) -> None:
    for effects in waves:
        writer = _sink("by_sink").open(site)
        assert all(not told.error and not told.refused for told in writer.write(effects))
        writer.close()


def _by_client(client: Any, given: Sequence[list[dict[str, Any]]]) -> None:
    for actions in given:
        opensearchpy.helpers.bulk(client, actions, chunk_size=AT_ONCE)


def _counted(client: Any, name: str) -> tuple[int, int]:
    client.indices.refresh(index=name)
    body = {"size": 0, "aggs": {"bytes": {"sum": {"field": "bytes"}}}, "track_total_hits": True}
    found = client.search(index=name, body=body)
    return found["hits"]["total"]["value"], int(found["aggregations"]["bytes"]["value"])
