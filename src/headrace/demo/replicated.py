"""The use cases of the demo with Delta, and two more: visits to search in, and each lead's last."""

from __future__ import annotations

import pyarrow as pa

from headrace import SliceContext, use_case
from headrace.demo.in_delta import SCHEMA, keep_in_delta, react, replicate, rows_of, score
from headrace.demo.use_cases import VISIT
from headrace.formats import Avro
from headrace.sinks import RedisHashes, SearchIndex

__all__ = [
    "INDEX",
    "LEADS",
    "index_visits",
    "keep_in_delta",
    "keep_last_visits",
    "react",
    "replicate",
    "score",
]

#: those of a visit, but for the tenant, whose index and entries they are
_COLUMNS = {
    field.name: "text" if field.type == pa.string() else "bigint"
    for field in SCHEMA
    if field.name != "tenant"
}
INDEX = SearchIndex(
    "{tenant}-visits",
    columns=_COLUMNS,
    key=("part", "record"),
    newest_by="record",
    at="opensearch",
    copies=0,
)
#: all visits of a lead are in one partition, so a later one is a later record of that
LEADS = RedisHashes(
    "{tenant}:lead",
    columns=_COLUMNS,
    key=("lead",),
    newest_by="record",
    at="valkey",
)


@use_case(topic="{tenant}.visits", decode=Avro(VISIT), sink=INDEX, guarantee="exactly-once")
def index_visits(table: pa.Table, context: SliceContext) -> pa.Table:
    """Have every visit found by the words of its path, within a second."""
    return rows_of(table, context.tenant).drop_columns(["tenant"])


@use_case(topic="{tenant}.visits", decode=Avro(VISIT), sink=LEADS, guarantee="exactly-once")
def keep_last_visits(table: pa.Table, context: SliceContext) -> pa.Table:
    """Keep what a lead looked at last where other programs read it by its key."""
    return rows_of(table, context.tenant).drop_columns(["tenant"])
