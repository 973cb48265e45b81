"""Structured Streaming as the contender: one query over many topics, one row a record in SQLite.

It is set up as somebody who knows it would: a short fetch wait (with the default it needs many
times as long on small topics), Arrow on the way to the function and to the driver, one transaction
a batch.
"""

from __future__ import annotations

import functools
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.delays import COLUMNS, TABLE

Batches = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def batch_of(records: pa.RecordBatch, scores: Sequence[int]) -> pa.RecordBatch:
    """A row of the table for each record, as `Query.running` wants them."""
    stamps = pc.cast(pc.cast(records["timestamp"], pa.timestamp("ms", "UTC"), safe=False), "int64")
    columns = [records["topic"], records["offset"], stamps, pa.array(scores, pa.int64())]
    return pa.RecordBatch.from_arrays(columns, list(COLUMNS))


@dataclass(frozen=True, slots=True)
class Query:
    """What is read, and where the rows go."""

    config: Mapping[str, str]
    #: of the topics; a list of hundreds would be in every line that Spark logs or redacts
    pattern: str
    #: the database; the checkpoint goes beside it
    path: Path
    #: most records of a batch; None is no limit
    most_offsets: int | None = None

    @contextmanager
    def running(self, spark: Any, batches: Batches) -> Iterator[Any]:
        """The query, started; ``batches`` makes rows of the table from Arrow batches."""
        source = (
            spark.readStream.format("kafka")
            .option("kafka.bootstrap.servers", self.config["bootstrap.servers"])
            .option("subscribePattern", self.pattern)
            .option("startingOffsets", "earliest")
            .option("kafka.fetch.max.wait.ms", "5")
        )
        if self.most_offsets is not None:
            source = source.option("maxOffsetsPerTrigger", str(self.most_offsets))
        records = source.load().select("topic", "offset", "timestamp", "value")
        schema = ", ".join(
            f"{name} {'string' if kind == 'text' else kind}" for name, kind in COLUMNS.items()
        )
        query = (
            records.mapInArrow(batches, schema)
            .writeStream.option("checkpointLocation", str(self.path.parent / "checkpoint"))
            .foreachBatch(functools.partial(_keep, self.path))
            .start()
        )
        try:
            yield query
        finally:
            query.stop()


def _keep(path: Path, frame: Any, _batch: int) -> None:
    rows = frame.toArrow()
    connection = sqlite3.connect(path, timeout=30)
    connection.execute("PRAGMA synchronous=FULL")
    values = zip(*(column.to_pylist() for column in rows.columns), strict=True)
    connection.executemany(f"INSERT INTO {TABLE} VALUES (?, ?, ?, ?)", values)
    connection.commit()
    connection.close()
