"""Rows into Solr through the sink, against what a client of Solr does: documents posted as JSON.

All write the same rows, in turn, in one process, to a core of their own in one node, under
versions that Solr compares; the sink from the effects of a hundred slices, a bin at a time; the
others from documents that are made before, as many at a time: once encoded and posted as `pysolr`
does, by Python's own ``json`` (``client``), and once by ``orjson``, which is what the sink encodes
with (``orjson``). The documents are counted, and a number in them summed.
"""

from __future__ import annotations

import json
import tempfile
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import orjson
import urllib3

from benchmarks import harness
from benchmarks.beside_client import by_sink, measured
from benchmarks.valkey import COLUMNS, EACH, LANES, effects_of
from headrace.connectors.in_parts import AT_ONCE
from headrace.embedded import EmbeddedSolr
from headrace.embedded.solr_home import make_config
from headrace.ports import Connections, Effect, Server, Site
from headrace.sinks import SolrIndex

BINS, ROUNDS = 2, 5
TARGET = 0.7
CONTENDERS = ("by_sink", "by_client", "by_orjson")
_FIELDS = {"text": "string", "bigint": "plong", "version": "plong", "double": "pdouble"}


def main(args: list[str]) -> None:
    """Run and write `results/solr.json`."""
    quick = "--quick" in args
    bins, rounds = (1, 1) if quick else (BINS, ROUNDS)
    waves = [effects_of(number) for number in range(bins)]
    with (
        tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder,
        EmbeddedSolr(Path(folder) / "solr", heap_mb=1024) as server,
    ):
        for name in CONTENDERS:
            _make_core(server, name)
        found = _measured(server.url, waves, rounds)
    found["ratio_to_orjson"] = harness.ratio(found["seconds"]["orjson"], found["seconds"]["sink"])
    print(
        f"rows/s: {found['rows_per_s']}; ratio {found['ratio']} (target {TARGET}), to who encodes "
        f"as the sink does {found['ratio_to_orjson']}"
    )
    if not quick:
        harness.write("solr", {"bins": bins, "rows_a_bin": LANES * EACH, **found})


def _make_core(server: EmbeddedSolr, name: str) -> None:
    make_config(server.folder / "home" / name)
    query = urlencode({"action": "CREATE", "name": name})
    urllib.request.urlopen(f"{server.url}/admin/cores?{query}", timeout=120).close()
    fields = [{"name": column, "type": _FIELDS[kind]} for column, kind in COLUMNS.items()]
    _posted(server.url, f"{name}/schema", {"add-field": fields})


def _sink() -> SolrIndex:
    return SolrIndex(
        "by_sink",
        COLUMNS,
        key=("lane", "record"),
        newest_by="newness",
        key_in_one_lane=True,
        at="solr",
    )


def _measured(url: str, waves: Sequence[Sequence[Effect]], rounds: int) -> dict[str, Any]:
    site = Site(Connections({}, "", servers={"solr": Server(url)}), None)
    _sink().prepare(site)
    given = [_as_documents(wave) for wave in waves]

    def empty() -> None:
        for name in CONTENDERS:
            _posted(url, f"{name}/update?commit=true", {"delete": {"query": "*:*"}})

    return measured(
        waves,
        rounds,
        {
            "sink": lambda: by_sink(_sink(), site, waves),
            "client": lambda: _by_client(f"{url}/by_client", given, _as_pysolr),
            "orjson": lambda: _by_client(f"{url}/by_orjson", given, orjson.dumps),
        },
        empty,
        counted=lambda name: _counted(url, name),
    )


def _as_documents(wave: Sequence[Effect]) -> list[dict[str, Any]]:
    return [
        {
            **row,
            "id": f"{row['lane']}:{row['record']}",
            "newness": effect.version,
            "headrace_version": effect.version,
        }
        for effect in wave
        for row in effect.output.to_pylist()
    ]


def _as_pysolr(documents: Any) -> bytes:
    return json.dumps(documents).encode()


def _by_client(
    core: str, given: Sequence[list[dict[str, Any]]], encode: Callable[[Any], bytes]
) -> None:
    pool = urllib3.PoolManager()
    path = f"{core}/update?update.chain=headrace&commitWithin=1000"
    for documents in given:
        for first in range(0, len(documents), AT_ONCE):
            body = encode(documents[first : first + AT_ONCE])
            answer = pool.request("POST", path, body=body, headers=_JSON)
            assert answer.status == 200, answer.data


_JSON = {"content-type": "application/json"}


def _posted(url: str, path: str, body: Any) -> Any:
    request = urllib.request.Request(f"{url}/{path}", orjson.dumps(body), _JSON)
    with urllib.request.urlopen(request, timeout=120) as answer:
        return orjson.loads(answer.read())


def _counted(url: str, name: str) -> tuple[int, int]:
    _posted(url, f"{name}/update?commit=true", [])
    asked = urlencode({"q": "*:*", "rows": 0, "json.facet": '{"bytes": "sum(bytes)"}'})
    with urllib.request.urlopen(f"{url}/{name}/select?{asked}", timeout=120) as answer:
        found = orjson.loads(answer.read())
    return found["response"]["numFound"], int(found["facets"]["bytes"])
