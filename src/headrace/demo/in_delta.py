"""The use cases of the demo, and one more: every visit into a Delta table as well."""

from __future__ import annotations

import pyarrow as pa

from headrace import SliceContext, use_case
from headrace.demo.use_cases import VISIT, react, replicate, score
from headrace.formats import Avro
from headrace.sinks import DeltaTable

__all__ = ["FOLDER", "SCHEMA", "keep_in_delta", "react", "replicate", "rows_of", "score"]

#: below the warehouse
FOLDER = "visits-in-delta"
#: a visit, and which record of Kafka it came as
_COLUMNS: list[tuple[str, pa.DataType]] = [
    ("tenant", pa.string()),
    ("part", pa.int64()),
    ("record", pa.int64()),
    ("line", pa.int64()),
    ("lead", pa.string()),
    ("at", pa.string()),
    ("path", pa.string()),
    ("status", pa.int64()),
    ("bytes", pa.int64()),
    ("method", pa.string()),
]
SCHEMA = pa.schema(_COLUMNS)


@use_case(
    topic="{tenant}.visits",
    decode=Avro(VISIT),
    sink=DeltaTable(FOLDER, SCHEMA, partition_by=("tenant",)),
    guarantee="exactly-once",
)
def keep_in_delta(table: pa.Table, context: SliceContext) -> pa.Table:
    """Keep every visit in a table that Spark, DuckDB and pandas read."""
    return rows_of(table, context.tenant)


def rows_of(table: pa.Table, tenant: str) -> pa.Table:
    """Visits as rows of a table."""
    found = table.append_column("tenant", pa.array([tenant] * table.num_rows, pa.string()))
    found = found.append_column("part", found["partition"]).append_column("record", found["offset"])
    return found.select(SCHEMA.names).cast(SCHEMA)
