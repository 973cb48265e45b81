"""The three use cases of the demo, as a user of Headrace would write them."""

import json

import pyarrow as pa

from headrace import SliceContext, use_case
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


def _visits(table: pa.Table, context: SliceContext) -> list[dict]:  # type: ignore[type-arg]
    rows = []
    for row, value in enumerate(table["value"].to_pylist()):
        try:
            rows.append(json.loads(value or b""))
        except (TypeError, ValueError) as error:
            raise context.bad_record(row, f"the value is no JSON: {error}") from error
    return rows


@use_case(
    topic="{tenant}.visits",
    sink=Email(sender="headrace@example.com"),
    guarantee="at-least-once",
)
def react(table: pa.Table, context: SliceContext) -> pa.Table:
    """Tell sales when a lead opens a page on the watch list."""
    offsets, partitions = table["offset"].to_pylist(), table["partition"].to_pylist()
    mails = [
        {
            "to": f"sales@{context.tenant}.example.com",
            "subject": f"{visit['lead']} opened {visit['path']}",
            "body": f"Lead {visit['lead']} opened {visit['path']} at {visit.get('at') or 'once'}.",
            "id": f"{partition}-{offset}",
        }
        for visit, partition, offset in zip(
            _visits(table, context), partitions, offsets, strict=True
        )
        if visit["path"].split("?")[0] in WATCH_LIST
    ]
    columns = ("to", "subject", "body", "id")
    return pa.table(
        {name: pa.array([mail[name] for mail in mails], pa.string()) for name in columns}
    )


@use_case(
    topic="{tenant}.visits",
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
    visits = _visits(table, context)
    points = [
        next(
            (points for end, points in POINTS.items() if visit["path"].split("?")[0].endswith(end)),
            10,
        )
        for visit in visits
    ]
    return pa.table(
        {
            "tenant": pa.array([context.tenant] * len(visits), pa.string()),
            "lead": pa.array([visit["lead"] for visit in visits], pa.string()),
            "score": pa.array(points, pa.int64()),
            "visits": pa.array([1] * len(visits), pa.int64()),
        }
    )


@use_case(
    topic="{tenant}.visits",
    sink=ParquetFiles("visits"),
    guarantee="exactly-once",
)
def replicate(table: pa.Table, context: SliceContext) -> pa.Table:
    """Keep every visit in the warehouse."""
    visits = _visits(table, context)
    kept = table.select(["partition", "offset"])
    types = {
        "line": pa.int64(),
        "lead": pa.string(),
        "at": pa.string(),
        "path": pa.string(),
        "status": pa.int32(),
        "bytes": pa.int64(),
    }
    for name, kind in types.items():
        kept = kept.append_column(name, pa.array([visit.get(name) for visit in visits], kind))
    return kept
