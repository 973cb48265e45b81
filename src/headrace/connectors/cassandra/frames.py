"""History as a DataFrame of Spark: each task reads some days or weeks, through the same reader.

Nothing of Spark is imported: whoever has a session has it. Questions are numbered, and go to tasks
as numbers; what is asked and the connections travel inside the function, which no plan shows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

import pyarrow as pa

from headrace.connectors.cassandra.history import Asked

#: tasks of a frame; one has several questions where there are more
_MOST_TASKS: Final = 200
_IN_SPARK: Final[Mapping[str, str]] = {"text": "string", "version": "bigint", "bytes": "binary"}
_MOMENT: Final = pa.timestamp("us", "UTC")


def frame(
    spark: Any,
    read: Callable[..., Iterator[pa.Table]],
    asked: Iterable[Asked],
    columns: Mapping[str, str],
) -> Any:
    """A DataFrame of what is read for all that is asked.

    Args:
        spark: the session.
        read: reads one partition between two moments.
        asked: what is asked for.
        columns: name and kind of each column.
    """
    questions = [part for wanted in asked for part in wanted.apart]
    tasks = min(_MOST_TASKS, max(1, len(questions)))
    schema = ", ".join(f"`{name}` {_IN_SPARK.get(kind, kind)}" for name, kind in columns.items())
    numbers = spark.range(0, len(questions), 1, tasks)
    return numbers.mapInArrow(partial(_answers, read, questions), schema)


def _answers(
    read: Callable[..., Iterator[pa.Table]],
    questions: Sequence[Asked],
    batches: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        numbers: list[Any] = batch.column(0).to_pylist()
        for one in map(questions.__getitem__, numbers):
            for table in read(*one.partition, since=one.since, until=one.until):
                yield from _as_spark_has_it(table).to_batches()


def _as_spark_has_it(table: pa.Table) -> pa.Table:
    """The same, with moments in the only unit that Spark takes."""
    fields = [
        field.with_type(_MOMENT) if pa.types.is_timestamp(field.type) else field
        for field in table.schema
    ]
    return table.cast(pa.schema(fields))
