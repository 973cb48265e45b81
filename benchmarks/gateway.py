"""The ingest gateway: events acknowledged in batches of 100, and single events at a steady rate.

Batches are against a bare confluent-kafka producer with acks=all that is given the same events and
counts the same acknowledgements: what HTTP, JSON, credentials, counting and an answer for each
event cost. Contenders take turns, and after each the records in Kafka are counted.

Singles come at 2,000 a second, a thousandth of a second apart however long answers take, and the
delay is from when an event was due until its answer is here. The gateway has one core to itself;
broker and senders have the others.

Both are made once more with a type that names a subject: the same events are then checked against
its Avro schema, and written by it.

The gateway is a process as `headrace gateway` starts it, with API keys; rates are off.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import orjson
import psutil
from confluent_kafka import Producer

from benchmarks.harness import broker, ratio, topics, write
from benchmarks.steady_sender import steady
from headrace.connectors.kafka import KafkaLog
from headrace.connectors.kafka.config import ingest_config
from headrace.doors.keys import new_key
from headrace.embedded.addresses import free_ports
from headrace.model.credentials import Role
from headrace.model.lane_names import named
from headrace.model.streams import Tenant
from headrace.store import open_store

EVENTS = 200_000
QUICK_EVENTS = 40_000
BATCH = 100
ROUNDS = 5
QUICK_ROUNDS = 2
CONNECTIONS = 16
TARGET = 0.4
SINGLES_PER_S = 2000
SINGLES_S = 60
WARM_UP_S = 10
QUICK_SINGLES_S = 8
SINGLE_CONNECTIONS = 64
SINGLES_TARGET_MS = 50
TENANT = "acme"
TOPIC = "acme.visits"
UNDER_WAY_BYTES = 64 * 1024 * 1024
#: the type that names a subject, and the schema of it
AS_AVRO = "visit_as_avro"
SCHEMA = {
    "type": "record",
    "name": "Visit",
    "fields": [
        *({"name": name, "type": "string"} for name in ("lead", "page", "agent")),
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "referrer", "type": ["null", "string"], "default": None},
        {
            "name": "screen",
            "type": {
                "type": "record",
                "name": "Screen",
                "fields": [{"name": name, "type": "int"} for name in ("width", "height")],
            },
        },
        {"name": "seconds", "type": "double"},
    ],
}


def main(args: list[str]) -> None:
    """Run and write `results/gateway.json`."""
    quick = "--quick" in args
    with broker() as config:
        topics(config, [TOPIC])
        with _gateway(config) as (port, key, process):
            batches = _batches(config, port, key, quick)
            _on_one_core(process)
            singles = _singles(config, port, key, quick)
            as_avro = _singles(config, port, key, quick, AS_AVRO)
    result = {"batches": batches, "singles": singles, "singles_as_avro": as_avro}
    write("gateway", result)
    told = batches["events_per_s_over_bare"]
    print(
        f"batches of {BATCH}: {told['median']:.2f} of a bare producer (target {TARGET}); "
        f"NDJSON {batches['ndjson_over_bare']['median']:.2f}; seconds: {batches['json_s']} JSON, "
        f"{batches['ndjson_s']} NDJSON, {batches['bare_s']} bare\n"
        f"singles at {SINGLES_PER_S}/s: p50 {singles['p50_ms']} ms, p99 {singles['p99_ms']} ms "
        f"(target {SINGLES_TARGET_MS}), {singles['cpu']:.2f} of one core\n"
        f"by the Avro schema of a subject: JSON {batches['avro_over_json']['median']:.2f}, NDJSON "
        f"{batches['avro_over_ndjson']['median']:.2f} of without; singles p50 {as_avro['p50_ms']} "
        f"ms, p99 {as_avro['p99_ms']} ms, {as_avro['cpu']:.2f} of one core"
    )


def _batches(config: dict[str, str], port: int, key: str, quick: bool) -> dict[str, Any]:
    events = QUICK_EVENTS if quick else EVENTS
    rounds = QUICK_ROUNDS if quick else ROUNDS
    values = [_event(number) for number in range(BATCH)]
    array, lines = b"[" + b",".join(values) + b"]", b"\n".join(values)
    asked = {
        "json_s": _request(key, array, "application/json"),
        "ndjson_s": _request(key, lines, "application/x-ndjson"),
        "avro_json_s": _request(key, array, "application/json", AS_AVRO),
        "avro_ndjson_s": _request(key, lines, "application/x-ndjson", AS_AVRO),
    }
    contenders = {
        name: lambda request=request: _post_all(port, request, events // BATCH)
        for name, request in asked.items()
    }
    contenders["bare_s"] = lambda: _bare(config, values, events)
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(rounds + 1):
        names = list(contenders)
        first = number % len(names)
        for name in names[first:] + names[:first]:
            before = _records(config)
            took = contenders[name]()
            assert _records(config) - before == events, f"{name}: not every event is in Kafka"
            if number > 0:
                times[name].append(round(took, 3))
    return {
        "events": events,
        "bytes_per_event": len(values[0]),
        **times,
        "events_per_s_over_bare": ratio(times["bare_s"], times["json_s"]),
        "ndjson_over_bare": ratio(times["bare_s"], times["ndjson_s"]),
        "avro_over_json": ratio(times["json_s"], times["avro_json_s"]),
        "avro_over_ndjson": ratio(times["ndjson_s"], times["avro_ndjson_s"]),
    }


def _singles(
    config: dict[str, str], port: int, key: str, quick: bool, kind: str = "visit"
) -> dict[str, Any]:
    seconds = QUICK_SINGLES_S if quick else SINGLES_S
    count = SINGLES_PER_S * seconds
    asked = [_request(key, _event(number), "application/json", kind) for number in range(100)]

    def sent(number: int) -> list[float]:
        return steady(
            port, asked, count=number, per_s=SINGLES_PER_S, connections=SINGLE_CONNECTIONS
        )

    sent(SINGLES_PER_S * WARM_UP_S)
    before = _records(config)
    cpu_before_s, began_s = _cpu_s(), time.perf_counter()
    delays = sorted(sent(count))
    took_s = time.perf_counter() - began_s
    assert _records(config) - before == count, "not every event is in Kafka"
    return {
        "events_per_s": SINGLES_PER_S,
        "seconds": seconds,
        "connections": SINGLE_CONNECTIONS,
        **{f"p{p}_ms": round(delays[int(count * p / 100)] * 1e3, 1) for p in (50, 95, 99)},
        "max_ms": round(delays[-1] * 1e3, 1),
        "cpu": round((_cpu_s() - cpu_before_s) / took_s, 3),
    }


def _event(number: int) -> bytes:
    return orjson.dumps(
        {
            "lead": f"lead-{number:05}",
            "page": f"/products/{number}/details",
            "at": "2026-11-21T20:18:51Z",
            "agent": "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/129.0",
            "referrer": "https://www.example.com/search?q=headrace+kafka+spark",
            "screen": {"width": 1920, "height": 1080},
            "seconds": number / 4,
        }
    )


def _bare(config: dict[str, str], values: Sequence[bytes], events: int) -> float:
    """The same events through a producer alone, acknowledged and counted."""
    producer = Producer(ingest_config(config, 60.0, UNDER_WAY_BYTES))
    acknowledged = 0

    def told(error: Any, _: Any) -> None:
        nonlocal acknowledged
        acknowledged += error is None

    began = time.perf_counter()
    for _ in range(events // len(values)):
        for value in values:
            producer.produce(TOPIC, value, on_delivery=told)
        producer.poll(0)
    producer.flush(60)
    took = time.perf_counter() - began
    assert acknowledged == events
    return took


def _post_all(port: int, asked: bytes, requests: int) -> float:
    async def sender(count: int) -> int:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        accepted = 0
        for _ in range(count):
            writer.write(asked)
            status, answer = await _answer(reader)
            assert status == 202, answer
            accepted += answer.count(b'"status":202')
        writer.close()
        return accepted

    async def all_senders() -> int:
        share = requests // CONNECTIONS
        return sum(await asyncio.gather(*(sender(share) for _ in range(CONNECTIONS))))

    began = time.perf_counter()
    accepted = asyncio.run(all_senders())
    took = time.perf_counter() - began
    assert accepted == requests * BATCH, f"{accepted} acknowledged"
    return took


async def _answer(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
    return int(head[9:12]), await reader.readexactly(length)


def _request(key: str, body: bytes, media: str, kind: str = "visit") -> bytes:
    return (
        f"POST /v1/events/{kind} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {key}\r\n"
        f"Content-Type: {media}\r\nContent-Length: {len(body)}\r\n\r\n"
    ).encode() + body


def _records(config: dict[str, str]) -> int:
    log, lane = KafkaLog(config), named(TOPIC, 0)
    try:
        return log.end_offsets([lane])[lane]
    finally:
        log.close()


_process: psutil.Process | None = None


def _cpu_s() -> float:
    assert _process is not None
    times = _process.cpu_times()
    return float(times.user + times.system)


def _on_one_core(process: subprocess.Popen[bytes]) -> None:
    """Give the gateway a core, and everybody else the others."""
    global _process  # noqa: PLW0603 - there is one
    _process = psutil.Process(process.pid)
    first, *others = sorted(os.sched_getaffinity(0))
    for pid, cores in [(process.pid, {first}), (os.getpid(), set(others) or {first})]:
        for thread in psutil.Process(pid).threads():
            os.sched_setaffinity(thread.id, cores)


@contextmanager
def _gateway(config: dict[str, str]) -> Iterator[tuple[int, str, subprocess.Popen[bytes]]]:
    """A gateway process: its port, a key of the tenant, the process."""
    secret = secrets.token_urlsafe(32)
    (port,) = free_ports(1)
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder, _registry() as registry:
        url = f"sqlite:///{folder}/store.db"
        store = open_store(url)
        store.registry.add_tenant(Tenant(TENANT))
        text, key = new_key(Role.SENDER, TENANT, "benchmark", secret.encode(), time.time())
        store.keys.add(key)
        store.close()
        settings = {
            "module": "use_cases.py",
            "kafka": config,
            "database_url": url,
            "registry": {"schema.registry.url": registry},
            "gateway": {
                "port": port,
                "types": {
                    "visit": {"topic": "visits"},
                    AS_AVRO: {"topic": "visits", "subject": "visits-value"},
                },
                "rate": {"records_per_s": None, "bytes_per_s": None},
                "under_way": "64m",
            },
        }
        path = Path(folder) / "headrace.yaml"
        path.write_text(json.dumps(settings))
        process = subprocess.Popen(
            [sys.executable, "-m", "headrace", "gateway", "-c", str(path)],
            env={**os.environ, "HEADRACE_SECRET": secret},
        )
        try:
            asyncio.run(_until_it_listens(port))
            _until_schemas_are_known(port)
            yield port, text, process
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0


@contextmanager
def _registry() -> Iterator[str]:
    """As much of a registry as the gateway asks for: one schema, whatever is asked."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = orjson.dumps({"id": 1, "version": 1, "schema": json.dumps(SCHEMA)})
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Say nothing between the figures."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def _until_schemas_are_known(port: int) -> None:
    give_up_s = time.monotonic() + 60
    while True:
        with suppress(OSError), urlopen(f"http://127.0.0.1:{port}/readyz") as answer:
            if "schemas" not in orjson.loads(answer.read()):
                return
        assert time.monotonic() < give_up_s, "the gateway knows no schema"
        time.sleep(0.1)


async def _until_it_listens(port: int) -> None:
    give_up_s = time.monotonic() + 60
    while True:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            assert time.monotonic() < give_up_s, "the gateway does not listen"
            await asyncio.sleep(0.1)
        else:
            writer.close()
            return


if __name__ == "__main__":
    main([])
