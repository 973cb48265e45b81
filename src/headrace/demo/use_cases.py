"""The three use cases of the demo, as a user of Headrace would write them."""

from __future__ import annotations

from importlib import resources

import pyarrow as pa

from headrace import SliceContext, use_case
from headrace.formats import Avro
from headrace.sinks import Email, ParquetFiles, SqlTable

#: pages whose visitors the sales team wants to hear of at once
WATCH_LIST = {
    "/articles/dynamic-dns-with-dhcp/",
    "/articles/ssh-security/",
    "/blog/geekery/ssl-latency.html",
    "/files/logstash/logstash-1.3.2-monolithic.jar",
    "/presentations/puppet-at-loggly/puppet-at-loggly.pdf.html",
    "/projects/keynav/",
}

#: points of a page, by the end of its name; any other page is worth 10
POINTS = {".png": 1, ".gif": 1, ".jpg": 1, ".css": 0, ".js": 0, ".ico": 0, ".pdf": 25, ".jar": 40}


#: as visits are wanted, whichever version of their schema they were written by
VISIT = (resources.files("headrace.demo") / "data" / "visit-2.avsc").read_text("utf-8")


@use_case(
    topic="{tenant}.visits",
    decode=Avro(VISIT, fields=["lead", "path", "at"]),
    sink=Email(sender="headrace@example.com"),
    guarantee="at-least-once",
)
def react(table: pa.Table, context: SliceContext) -> pa.Table:
    """Tell sales when a lead opens a page on the watch list."""
    mails = [
        {
            "to": f"sales@{context.tenant}.example.com",
            "subject": f"{visit['lead']} opened {visit['path']}",
            "body": f"Lead {visit['lead']} opened {visit['path']} at {visit['at'] or 'once'}.",
            "id": f"{visit['partition']}-{visit['offset']}",
        }
        for visit in table.select(["partition", "offset", "lead", "path", "at"]).to_pylist()
        if visit["path"].split("?")[0] in WATCH_LIST
    ]
    columns = ("to", "subject", "body", "id")
    return pa.table(
        {name: pa.array([mail[name] for mail in mails], pa.string()) for name in columns}
    )


@use_case(
    topic="{tenant}.visits",
    decode=Avro(VISIT, fields=["lead", "path"]),
    sink=SqlTable(
        "scores",
        columns={"tenant": "text", "lead": "text", "score": "bigint", "visits": "bigint"},
        key=("tenant", "lead"),
        # Old interest fades: each visit first takes a tenth of the score away. So the order of
        # a lead's visits matters, and a visit counted twice or never shows in the score.
        update={
            "score": "scores.score - scores.score / 10 + excluded.score",
            "visits": "scores.visits + 1",
        },
    ),
    guarantee="exactly-once",
    order="lane",
)
def score(table: pa.Table, context: SliceContext) -> pa.Table:
    """Change a lead's score with each page."""
    points = [
        next(
            (points for end, points in POINTS.items() if path.split("?")[0].endswith(end)),
            10,
        )
        for path in map(str, table["path"].to_pylist())
    ]
    rows = table.num_rows
    return pa.table(
        {
            "tenant": pa.array([context.tenant] * rows, pa.string()),
            "lead": table["lead"],  # type: ignore[dict-item]
            "score": pa.array(points, pa.int64()),
            "visits": pa.array([1] * rows, pa.int64()),
        }
    )


@use_case(
    topic="{tenant}.visits",
    decode=Avro(VISIT),
    sink=ParquetFiles("visits"),
    guarantee="exactly-once",
)
def replicate(table: pa.Table, context: SliceContext) -> pa.Table:
    """Keep every visit in the warehouse."""
    del context
    return table.drop_columns(["topic", "timestamp", "key", "headers"])
