"""A backlog in order `lane` with a handler that does nothing, by this code and by code from before.

Who divides nothing pays nothing: that is said of lanes, plans and readers, which all look for
buckets. So the commit before partitions could be divided is taken out of git, and both drain the
same topics of one broker. They can not be in one process; so each is one by itself, and they take
turns, the other one first each time. In a process the first rounds warm up.

What else came since then is measured along with it. Where git has no such commit, as in a copy
without history, nothing is measured.

As a program this is one of these processes, and is told brokers, records and rounds.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import tempfile
import time
from io import BytesIO
from pathlib import Path
from typing import Any

import headrace
from benchmarks.contenders import passing
from benchmarks.harness import driver_of, fill, ratio, session, topics

#: before partitions could be divided
BEFORE = "428b8cd90682167d103fd4424307e8833c825bf4"
LANES, SIZE_BYTES = 100, 300
WARM_UP_ROUNDS = 2
_TENANTS = [f"p{number}" for number in range(LANES)]
_ROOT = Path(__file__).parents[1]


def against_before(config: dict[str, str], quick: bool) -> dict[str, Any] | None:
    """Seconds of each round of both, and how much faster this code is; None: there is no other."""
    pairs, rounds, records = (1, 1, 20_000) if quick else (4, 4, 1_000_000)
    with tempfile.TemporaryDirectory(prefix="headrace-before-") as folder:
        if not _taken_out(Path(folder)):
            print(f"git has no commit {BEFORE}: order lane is not held against it", flush=True)
            return None
        names = [f"{tenant}.visits" for tenant in _TENANTS]
        topics(config, names)
        fill(config, names, records // LANES, SIZE_BYTES)
        sources = {"now": _ROOT / "src", "before": Path(folder) / "src"}
        seconds: dict[str, list[float]] = {name: [] for name in sources}
        for pair in range(pairs):
            for name in list(sources)[:: -1 if pair % 2 else 1]:
                seconds[name] += _process(sources[name], config, records, rounds)
                print(f"  {name}: {seconds[name][-rounds:]} s", flush=True)
    faster = ratio(seconds["before"], seconds["now"])
    return {"before": BEFORE, "records": records, "seconds": seconds, "speed_over_before": faster}


def _taken_out(folder: Path) -> bool:
    words = ["git", "-C", str(_ROOT), "archive", "--format=tar", BEFORE, "src"]
    found = subprocess.run(words, capture_output=True, check=False)
    if found.returncode != 0:
        return False
    with tarfile.open(fileobj=BytesIO(found.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return True


def _process(source: Path, config: dict[str, str], records: int, rounds: int) -> list[float]:
    told = [config["bootstrap.servers"], str(records), str(rounds)]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.plain_lane", *told],
        cwd=_ROOT,
        env={**os.environ, "PYTHONPATH": f"{source}{os.pathsep}{_ROOT}"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout.splitlines()[-1])
    assert Path(found["source"]).is_relative_to(source), f"{found['source']} was measured"
    seconds: list[float] = found["seconds"]
    return seconds


def _rounds(brokers: str, records: int, rounds: int) -> list[float]:
    found = []
    config = {"bootstrap.servers": brokers}
    with session() as spark, driver_of(spark, config, passing(), _TENANTS) as bench:
        for _ in range(WARM_UP_ROUNDS + rounds):
            bench.rewind()
            began = time.perf_counter()
            bench.until_done(records)
            found.append(round(time.perf_counter() - began, 3))
    return found[WARM_UP_ROUNDS:]


if __name__ == "__main__":
    took = _rounds(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
    print(json.dumps({"source": headrace.__file__, "seconds": took}))
