"""Rows into DynamoDB through the sink, against the client's own puts and its ``batch_writer``.

All write the same rows, in turn, in one process, to a table of their own in one service; the sink
from the effects of ten slices, a bin at a time. The client's own puts are made before, under the
same condition, one after the other. Its ``batch_writer`` has 25 of them in a request, and no
condition: what is older would replace what is newer. The items are counted, and a number in them
summed.

The service is moto's, a process of its own on the same cores, which takes longer for a put than the
client does: how many a second Amazon's takes is not known by this.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import boto3
import boto3.dynamodb.types

from benchmarks import harness
from benchmarks.beside_client import by_sink, measured
from benchmarks.valkey import COLUMNS, EACH, effects_of
from headrace.embedded.addresses import free_ports
from headrace.ports import Connections, Effect, Server, Site
from headrace.sinks import DynamoTable

LANES, ROUNDS = 10, 5
TARGET = 0.7
REGION, USER, SECRET = "eu-central-1", "AKIABENCH", "not-a-secret"
NAMES = ("by_sink", "by_client", "by_batch")
#: moto's own server, which else sends the second half of an answer 40 ms after the first
_MOTO = """
import moto.server, werkzeug.serving
werkzeug.serving.WSGIRequestHandler.disable_nagle_algorithm = True
moto.server.main(["-p", "{port}"])
"""


def main(args: list[str]) -> None:
    """Run and write `results/dynamodb.json`."""
    quick = "--quick" in args
    waves = [effects_of(0)[:LANES]]
    with _service() as endpoint:
        found = _measured(endpoint, waves, 1 if quick else ROUNDS)
    took = found["seconds"]
    found["ratio_to_batch"] = harness.ratio(took["batch"], took["sink"])
    print(
        f"rows/s: {found['rows_per_s']}; ratio {found['ratio']} (target {TARGET}), to batches "
        f"without conditions {found['ratio_to_batch']}"
    )
    if not quick:
        harness.write("dynamodb", {"rows_a_bin": LANES * EACH, **found})


@contextmanager
def _service() -> Iterator[str]:
    [port] = free_ports(1)
    endpoint = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-c", _MOTO.format(port=port)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as moto:
        try:
            client, give_up_s = _client(endpoint), time.monotonic() + 60
            while True:
                try:
                    client.list_tables()
                    break
                except Exception:
                    assert moto.poll() is None, "moto has ended"
                    assert time.monotonic() < give_up_s, "moto does not answer"
                    time.sleep(0.1)
            yield endpoint
        finally:
            moto.kill()


def _session() -> boto3.Session:
    return boto3.Session(USER, SECRET, region_name=REGION)


def _client(endpoint: str) -> Any:
    return _session().client("dynamodb", endpoint_url=endpoint)


def _sink(name: str) -> DynamoTable:
    return DynamoTable(
        name,
        COLUMNS,
        key=("lane", "record"),
        newest_by="newness",
        key_in_one_lane=True,
        at="there",
    )


def _measured(endpoint: str, waves: Sequence[Sequence[Effect]], rounds: int) -> dict[str, Any]:
    server = Server(f"dynamodb://{REGION}?endpoint={endpoint}", USER, SECRET)
    site = Site(Connections({}, "", servers={"there": server}), None)
    client = _client(endpoint)
    table = _session().resource("dynamodb", endpoint_url=endpoint).Table("by_batch")
    sink, rows = _sink("by_sink"), _plain(waves)
    puts = _puts(waves)

    def empty() -> None:
        for name in NAMES:
            if name in client.list_tables()["TableNames"]:
                client.delete_table(TableName=name)
            _sink(name).prepare(site)

    def by_batch() -> None:
        with table.batch_writer() as batch:
            for row in rows:
                batch.put_item(row)

    return measured(
        waves,
        rounds,
        {
            "sink": lambda: by_sink(sink, site, waves),
            "client": lambda: _by_client(client, puts),
            "batch": by_batch,
        },
        empty,
        counted=lambda name: _counted(client, name),
    )


def _items(waves: Sequence[Sequence[Effect]]) -> Iterator[dict[str, Any]]:
    """What the sink puts, as it makes it."""
    sink = _sink("by_sink")
    for effect in (effect for wave in waves for effect in wave):
        tenant = effect.slices[0].lane.tenant
        for change in sink._items.changes(effect.output, effect.version, tenant):
            (item,) = change.values
            yield item


def _puts(waves: Sequence[Sequence[Effect]]) -> list[dict[str, Any]]:
    return [
        {
            "TableName": "by_client",
            "Item": item,
            "ConditionExpression": "attribute_not_exists(#newest) OR #newest <= :newest",
            "ExpressionAttributeNames": {"#newest": "_newest"},
            "ExpressionAttributeValues": {":newest": item["_newest"]},
        }
        for item in _items(waves)
    ]


def _by_client(client: Any, puts: Sequence[dict[str, Any]]) -> None:
    for put in puts:
        client.put_item(**put)


def _plain(waves: Sequence[Sequence[Effect]]) -> list[dict[str, Any]]:
    read = boto3.dynamodb.types.TypeDeserializer().deserialize
    return [{name: read(value) for name, value in item.items()} for item in _items(waves)]


def _counted(client: Any, name: str) -> tuple[int, int]:
    pages = client.get_paginator("scan").paginate(TableName=name)
    items = [item for page in pages for item in page["Items"]]
    return len(items), sum(int(item["bytes"]["N"]) for item in items)
