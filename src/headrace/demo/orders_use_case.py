"""The use case of the second act: orders go to each tenant's own CRM, and CRMs have their ways."""

import time

import pyarrow as pa

from headrace import SliceContext, use_case
from headrace.formats import Json
from headrace.sinks import SqlTable


def call_crm(tenant: str) -> None:
    """Stands for the call of a tenant's own server."""
    if tenant == "slow":
        time.sleep(0.02)
    elif tenant == "failing":
        raise ConnectionRefusedError("crm.failing.example.com refused the connection")
    elif tenant == "hanging":
        time.sleep(3_600)


@use_case(
    topic="{tenant}.orders",
    decode=Json(pa.schema([pa.field("number", pa.int64(), nullable=False)])),
    sink=SqlTable(
        "orders",
        columns={"tenant": "text", "number": "bigint", "times": "bigint"},
        key=("tenant", "number"),
        # An order that arrives twice shows.
        update={"times": "orders.times + 1"},
    ),
    guarantee="exactly-once",
    bad_record="dead-letter",
)
def to_crm(table: pa.Table, context: SliceContext) -> pa.Table:
    """Hand each order on."""
    rows = table.num_rows
    if context.tenant in ("slow", "failing", "hanging"):
        for _ in range(rows):
            call_crm(context.tenant)
    return pa.table(
        {
            "tenant": pa.array([context.tenant] * rows, pa.string()),
            "number": table["number"],  # type: ignore[dict-item]
            "times": pa.array([1] * rows, pa.int64()),
        }
    )
