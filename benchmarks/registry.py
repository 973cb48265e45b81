"""The schema registry: registered and looked up at 100 a second, and 10,000 subjects listed.

A real `headrace registry` on SQLite answers over HTTP with a key. Requests come when they are due,
whatever happens, half of them a registration of a schema that is new and half a look at one by its
id; the delay is from when a request was due. Then 10,000 subjects are there and are listed. Each
registration is read back at the end, and its id counted once.
"""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx

from benchmarks.harness import write
from headrace.doors.keys import new_key
from headrace.embedded.addresses import free_ports
from headrace.model.credentials import Role
from headrace.store import open_store

RATE = 100
SECONDS = 30
SUBJECTS = 10_000
SECRET = "b" * 40


def main(options: list[str]) -> None:
    """Run it, print the figures, keep the raw ones."""
    seconds = 3 if "--quick" in options else SECONDS
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as name:
        folder = Path(name)
        key = _prepared(folder)
        (port,) = free_ports(1)
        process = _started(folder, port)
        try:
            with httpx.Client(
                base_url=f"http://127.0.0.1:{port}",
                auth=("bench", key),
                timeout=60,
                limits=httpx.Limits(max_connections=16, max_keepalive_connections=16),
            ) as client:
                _until_answered(client)
                steady = _steady(client, seconds)
                listed = _listed(client, folder)
        finally:
            process.terminate()
            process.wait(60)
    figures = {"rate": RATE, "seconds": seconds, **steady, **listed}
    print(json.dumps(figures, indent=1))
    if "--quick" not in options:
        write("registry", figures)


def _prepared(folder: Path) -> str:
    url = f"sqlite:///{folder}/store.db"
    store = open_store(url)
    text, key = new_key(Role.OPERATOR, None, "bench", SECRET.encode(), time.time())
    store.keys.add(key)
    store.close()
    whole = {"module": "use_cases.py", "database_url": url}
    (folder / "headrace.yaml").write_text(json.dumps(whole))
    return text


def _started(folder: Path, port: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "headrace", "registry", "--port", str(port)]
    environment = {**os.environ, "HEADRACE_SECRET": SECRET}
    with (folder / "log").open("wb") as log:
        return subprocess.Popen(
            [*command, "--log-level", "WARNING"],
            cwd=folder,
            env=environment,
            stdout=log,
            stderr=log,
        )


def _until_answered(client: httpx.Client) -> None:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        try:
            # The first schema waits for the judges to start, which happens once.
            if _register(client, "warm", "Warm").status_code == 200:
                return
        except httpx.TransportError:
            time.sleep(0.1)
    raise SystemExit("the registry does not answer")


def _register(client: httpx.Client, subject: str, name: str) -> httpx.Response:
    fields = [{"name": f"f{number}", "type": "string"} for number in range(20)]
    schema = json.dumps({"type": "record", "name": name, "fields": fields})
    return client.post(f"/subjects/{subject}/versions", json={"schema": schema})


def _steady(client: httpx.Client, seconds: int) -> dict[str, object]:
    ids: dict[str, int] = {}
    delays: dict[str, list[float]] = {"register": [], "look up": []}
    begun_s = time.perf_counter() + 0.2

    def ask(number: int) -> None:
        due_s = begun_s + number / RATE
        time.sleep(max(0.0, due_s - time.perf_counter()))
        if number % 2:
            answer, what = client.get("/schemas/ids/1"), "look up"
        else:
            subject = f"topic-{number}-value"
            answer, what = _register(client, subject, f"R{number}"), "register"
            ids[subject] = answer.json()["id"]
        assert answer.status_code == 200, answer.text
        delays[what].append(time.perf_counter() - due_s)

    with ThreadPoolExecutor(16) as threads:
        list(threads.map(ask, range(RATE * seconds)))
    assert len({*ids.values()}) == len(ids), "an id came twice"
    for subject, id_ in ids.items():
        assert client.get(f"/subjects/{subject}/versions/1").json()["id"] == id_
    return {
        f"{what} {name}": round(1000 * _at(found, share), 1)
        for what, found in delays.items()
        for name, share in (("p50 ms", 0.5), ("p95 ms", 0.95), ("p99 ms", 0.99))
    }


def _listed(client: httpx.Client, folder: Path) -> dict[str, object]:
    with sqlite3.connect(folder / "store.db", timeout=30) as database:
        database.executemany(
            "INSERT INTO headrace_schema_versions (subject, version, schema_id, deleted) "
            "VALUES (?, 1, 1, 0)",
            [(f"many-{number}-value",) for number in range(SUBJECTS)],
        )
    database.close()
    found = []
    for _ in range(10):
        begun_s = time.perf_counter()
        names = client.get("/subjects", params={"subjectPrefix": "many-"}).json()
        found.append(time.perf_counter() - begun_s)
        assert len(names) == SUBJECTS
    return {"list of 10,000 subjects, worst of 10, ms": round(1000 * max(found), 1)}


def _at(delays: list[float], share: float) -> float:
    return sorted(delays)[min(len(delays) - 1, int(share * len(delays)))]
