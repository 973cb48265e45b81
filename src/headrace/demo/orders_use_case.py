"""The use case of the second act: orders go to each tenant's own CRM, and CRMs have their ways."""

import json
import time

import pyarrow as pa

from headrace import SliceContext, use_case
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
    numbers = []
    for row, value in enumerate(table["value"].to_pylist()):
        try:
            numbers.append(json.loads(value or b"")["number"])
        except (TypeError, ValueError, KeyError) as error:
            raise context.bad_record(row, f"no order: {error}") from error
        if context.tenant in ("slow", "failing", "hanging"):
            call_crm(context.tenant)
    rows = len(numbers)
    return pa.table(
        {
            "tenant": pa.array([context.tenant] * rows, pa.string()),
            "number": pa.array(numbers, pa.int64()),
            "times": pa.array([1] * rows, pa.int64()),
        }
    )
