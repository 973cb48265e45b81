"""Rows into OpenSearch through the sink, against the client's own ``helpers.bulk``.

Both write the same rows, in turn, in one process, to an index of their own in one node; the sink
from the effects of a hundred slices, a bin at a time; the other from actions that are made before,
under the same versions, as many at a time. The documents are counted, and a number in them summed.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import opensearchpy

from benchmarks import harness
from benchmarks.beside_client import by_sink, measured
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
    client = opensearchpy.OpenSearch(hosts=[url], timeout=60)
    given = [_as_actions(wave) for wave in waves]

    def empty() -> None:
        client.indices.delete(index="by_*")
        for name in ("by_sink", "by_client"):
            _sink(name).prepare(site)

    return measured(
        waves,
        rounds,
        {
            "sink": lambda: by_sink(_sink("by_sink"), site, waves),
            "client": lambda: _by_client(client, given),
        },
        empty,
        counted=lambda name: _counted(client, name),
    )


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


def _by_client(client: Any, given: Sequence[list[dict[str, Any]]]) -> None:
    for actions in given:
        opensearchpy.helpers.bulk(client, actions, chunk_size=AT_ONCE)


def _counted(client: Any, name: str) -> tuple[int, int]:
    client.indices.refresh(index=name)
    body = {"size": 0, "aggs": {"bytes": {"sum": {"field": "bytes"}}}, "track_total_hits": True}
    found = client.search(index=name, body=body)
    return found["hits"]["total"]["value"], int(found["aggregations"]["bytes"]["value"])
