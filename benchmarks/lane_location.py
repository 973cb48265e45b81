"""What a lane could win by being read again where it was read before.

How long the reader takes for a small slice if its client has read that very lane a moment ago, if
it has read others, and if it is new. The difference of the first two is the most that a task could
win by running where a client has its lane; that of a new client is paid once in a worker's life.
"""

from __future__ import annotations

import json
import os
import statistics
import time
from collections.abc import Sequence

from benchmarks import harness
from headrace.connectors.kafka import KafkaReaderFactory
from headrace.model.lane_names import named
from headrace.model.places import place_at
from headrace.model.streams import LaneId, Slice
from headrace.ports import Connections, SliceReader

_TOPICS = 1000
_RECORDS = 10
_TIMES = 200


def main(args: list[str]) -> None:
    """Measure; with `--quick` a tenth, which means nothing."""
    times = _TIMES // 10 if "--quick" in args else _TIMES
    with harness.broker() as config:
        names = [f"small-{number:04d}" for number in range(_TOPICS)]
        harness.topics(config, names)
        harness.fill(config, names, _RECORDS, 300)
        seconds = _read(
            Connections(config, database_url=""), [_slice(name) for name in names[:times]]
        )
    medians = {what: round(1000 * statistics.median(took), 2) for what, took in seconds.items()}
    result = {
        "cpus": os.cpu_count(),
        "load_average_1m": round(os.getloadavg()[0], 1),
        "ms for ten records of 300 B, median": medians,
    }
    print(json.dumps(result, indent=2))
    if "--quick" not in args:
        harness.RESULTS.mkdir(exist_ok=True)
        (harness.RESULTS / "lane_location.json").write_text(json.dumps(result, indent=2) + "\n")


def _read(connections: Connections, pieces: Sequence[Slice]) -> dict[str, list[float]]:
    factory = KafkaReaderFactory()
    kept = factory.open(connections)
    _timed(kept, pieces[-1])
    seconds: dict[str, list[float]] = {"the same lane": [], "another lane": [], "a new client": []}
    for piece in pieces:
        seconds["another lane"].append(_timed(kept, piece))
        seconds["the same lane"].append(_timed(kept, piece))
        new = factory.open(connections)
        seconds["a new client"].append(_timed(new, piece))
        new.close()
    kept.close()
    return seconds


def _timed(reader: SliceReader, piece: Slice) -> float:
    start_s = time.perf_counter()
    found = sum(batch.records.num_rows for batch in reader.read([piece], 1000))
    took_s = time.perf_counter() - start_s
    assert found == _RECORDS, found
    return took_s


def _slice(topic: str) -> Slice:
    lane = LaneId("benchmark", topic, named(topic, 0))
    return Slice(lane, topic, place_at(0), place_at(_RECORDS), epoch=1)
