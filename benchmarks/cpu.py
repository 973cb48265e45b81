"""CPU seconds by who used them, beside whatever else a run measures.

Delay alone does not tell what it cost: a core that spins is quick as well. So what each process
used in a run is added up by what it is: this process, which is the driver; Spark's JVM; its Python
workers; the broker, or what plays Kinesis. A worker that was killed keeps what it had used when it
was seen last.

Processes that a benchmark starts to send and to observe are none of these. What it does in this
process itself is counted with the driver, for every contender alike.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field

import psutil

from benchmarks.samples import sampled

KINDS = ("driver", "jvm", "workers", "broker")


@dataclass(slots=True)
class Cpu:
    """What was used since the beginning, in seconds, and in cores: seconds a second."""

    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(KINDS, 0.0))
    took_s: float = 0.0

    @property
    def cores(self) -> dict[str, float]:
        """Cores that each kind kept busy."""
        return {name: round(used / self.took_s, 4) for name, used in self.seconds.items()}

    def told(self) -> dict[str, dict[str, float]]:
        """What goes into a result file."""
        seconds = {name: round(used, 2) for name, used in self.seconds.items()}
        return {"cpu_s": seconds, "cpu_cores": self.cores}


@contextmanager
def counted(*, closely: bool = True) -> Iterator[Cpu]:
    """Count what is used inside; the figures are there at the end.

    Args:
        closely: look twice a second, for workers that are killed meanwhile; that costs this process
            about 1 % of a core.
    """
    made, last = Cpu(), dict[tuple[str, int], float]()
    before, began_s = used_s(), time.perf_counter()

    def look() -> dict[str, float]:
        last.update(used_s())
        return {}

    with sampled(look) if closely else nullcontext():
        yield made
    look()
    made.took_s = time.perf_counter() - began_s
    for (kind, pid), used in last.items():
        made.seconds[kind] += used - before.get((kind, pid), 0.0)


def used_s() -> dict[tuple[str, int], float]:
    """CPU seconds that each process has used so far, by what it is and its id."""
    this = psutil.Process()
    found = {("driver", this.pid): _used(this)}
    for child in this.children(recursive=True):
        try:
            line = " ".join(child.cmdline())
            used = _used(child)
        except psutil.Error:
            continue
        if "org.apache.spark" in line:
            found["jvm", child.pid] = used
        elif "pyspark.daemon" in line:
            found["workers", child.pid] = used
        elif "kafka.Kafka" in line or "kinesis-local" in line:
            found["broker", child.pid] = used
    return found


def _used(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def line(cores: Mapping[str, float]) -> str:
    """The cores that a run kept busy, in one line for people."""
    return ", ".join(f"{name} {cores[name]:.3f}" for name in KINDS) + " cores"
