"""The use cases of the demo with Delta, and one more: every visit into Cassandra, by its day."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from headrace import SliceContext, use_case
from headrace.demo.in_delta import SCHEMA, keep_in_delta, react, replicate, rows_of, score
from headrace.demo.use_cases import VISIT
from headrace.formats import Avro
from headrace.sinks import CassandraTable

__all__ = ["TABLE", "keep_in_cassandra", "keep_in_delta", "react", "replicate", "score"]

_KINDS = {field.name: "text" if field.type == pa.string() else "bigint" for field in SCHEMA}
TABLE = CassandraTable(
    "visits",
    columns={**_KINDS, "at": "timestamp"},
    key=("tenant", "at", "part", "record"),
    newest_by="at",
    by_time="at",
    at="cassandra",
)


@use_case(topic="{tenant}.visits", decode=Avro(VISIT), sink=TABLE, guarantee="exactly-once")
def keep_in_cassandra(table: pa.Table, context: SliceContext) -> pa.Table:
    """Keep every visit where a tenant's day is read at once."""
    rows = rows_of(table, context.tenant)
    said = zip(rows["at"].to_pylist(), table["timestamp"].to_pylist(), strict=True)
    moments = pa.array([_moment(*pair) for pair in said], pa.timestamp("ms", "UTC"))
    return rows.set_column(rows.column_names.index("at"), "at", moments)


def _moment(said: str | None, came: Any) -> datetime:
    """When a visit was; of one that a guest posts that is not always known, and it came now."""
    try:
        moment = datetime.fromisoformat(said or "")
        moment = moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        moment = came
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)
