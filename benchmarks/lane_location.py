"""What a lane could win by being read again where it was read before, on executors of a cluster.

How long the reader takes for a small slice, inside Spark tasks, on the executor whose client has
read that very lane a moment ago, on another one, whose client has read other lanes, and by a client
that is new. The difference of the first two is the most that a task could win by running where a
client has its lane; that of a new client is paid once in a worker's life.

Two executors of a standalone cluster take turns: each is the one that has a lane, for every other
few lanes. Each reads alone, while the other has nothing to do, and first a lane of all, untimed.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from statistics import median, quantiles
from typing import Any

from benchmarks import harness
from headrace.connectors.kafka import KafkaReaderFactory
from headrace.model.lane_names import named
from headrace.model.places import place_at
from headrace.model.streams import LaneId, Slice
from headrace.ports import Connections, SliceReader

_TOPICS = 1000
_RECORDS = 10
_TIMES, _AT_ONCE = 400, 20
_SAME, _ANOTHER, _NEW = "the executor that has it", "another executor", "a new client"

#: in a worker: what it reads with, as long as it lives
_kept: list[SliceReader] = []


def main(args: list[str]) -> None:
    """Measure; with `--quick` a tenth, which means nothing."""
    quick = "--quick" in args
    # Executors have the environment of this process, and import this module.
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    with harness.session_on_executors(2) as spark, harness.broker() as config:
        names = [f"small-{number:04d}" for number in range(_TOPICS // 10 if quick else _TOPICS)]
        harness.topics(config, names)
        harness.fill(config, names, _RECORDS, 300)
        count = _TIMES // 10 if quick else _TIMES
        pieces = [_slice(name) for name in (*names[:count], names[-1])]
        took = _measured(spark.sparkContext, Connections(config, database_url=""), pieces)
    for what, ms in took.items():
        told = f"median {median(ms):.2f} ms, p99 {quantiles(ms, n=100)[98]:.2f} ms"
        print(f"{what}: {told} of {len(ms)}")
    result = {
        "records_per_slice": _RECORDS,
        "topics": len(names),
        "load_average_1m": round(os.getloadavg()[0], 1),
        "ms": took,
    }
    if not quick:
        harness.write("lane_location", result)


def _measured(
    context: Any, connections: Connections, pieces: Sequence[Slice]
) -> dict[str, list[float]]:
    """Milliseconds of each read, by who reads; the last slice is the one of all."""
    *pieces, of_all = pieces
    workers = sorted(_tasks(context, connections, [of_all]))
    assert len(workers) == 2, f"tasks ran in {len(workers)} workers, and not in two"
    took: dict[str, list[float]] = {_SAME: [], _ANOTHER: [], _NEW: []}
    for first in range(0, len(pieces), _AT_ONCE):
        some = [of_all, *pieces[first : first + _AT_ONCE]]
        one, other = workers if first // _AT_ONCE % 2 else reversed(workers)
        _tasks(context, connections, some, one)
        for what, worker in ((_SAME, one), (_ANOTHER, other), (_NEW, other)):
            found = _tasks(context, connections, some, worker, new=what == _NEW)
            took[what] += found[worker][1:]
    return took


def _tasks(
    context: Any,
    connections: Connections,
    pieces: Sequence[Slice],
    only: int = 0,
    *,
    new: bool = False,
) -> dict[int, list[float]]:
    """A task on each executor, at one time; returns what they took, by the worker's process.

    Args:
        context: Spark's.
        connections: to the broker.
        pieces: what is read.
        only: the one worker that reads; 0: each.
        new: each slice by a client of its own.
    """

    def read(_: Iterable[int]) -> Iterator[tuple[int, list[float]]]:
        pid = os.getpid()
        if only in (0, pid):
            yield pid, _read(connections, pieces, new=new)

    # As a barrier stage no executor gets both.
    return dict(context.parallelize(range(2), 2).barrier().mapPartitions(read).collect())


def _read(connections: Connections, pieces: Sequence[Slice], *, new: bool) -> list[float]:
    factory = KafkaReaderFactory()
    if not _kept:
        _kept.append(factory.open(connections))
    took = []
    for piece in pieces:
        reader = factory.open(connections) if new else _kept[0]
        took.append(_ms(reader, piece))
        if new:
            reader.close()
    return took


def _ms(reader: SliceReader, piece: Slice) -> float:
    start_s = time.perf_counter()
    found = sum(batch.records.num_rows for batch in reader.read([piece], 1000))
    took_s = time.perf_counter() - start_s
    assert found == _RECORDS, found
    return round(1000 * took_s, 3)


def _slice(topic: str) -> Slice:
    lane = LaneId("benchmark", topic, named(topic, 0))
    return Slice(lane, topic, place_at(0), place_at(_RECORDS), epoch=1)
