"""History as a DataFrame: a real Cassandra, read by tasks of a real Spark."""

import datetime as dt
import uuid

import pyarrow as pa
import pytest

from headrace.errors import ConfigError
from headrace.model.streams import LaneId, Slice
from headrace.ports import Connections, Effect, Server, Site
from headrace.sinks import CassandraTable

pytestmark = pytest.mark.slow
MONDAY = dt.datetime(2026, 2, 2, tzinfo=dt.UTC)
KINDS = {
    "tenant": "text",
    "at": "timestamp",
    "number": "bigint",
    "amount": "decimal(12, 2)",
    "day": "date",
    "share": "double",
    "raw": "bytes",
    "right": "boolean",
}


def visits(bucket="day", **more):
    key = ("tenant", "at", "number")
    said = {"newest_by": "at", "by_time": "at", "bucket": bucket, "at": "history", **more}
    return CassandraTable(f"f{uuid.uuid4().hex[:20]}", KINDS, key=key, **said)


def _table(tenant, moments):
    count = len(moments)
    return pa.table(
        {
            "tenant": [tenant] * count,
            "at": pa.array(moments, pa.timestamp("us", "UTC")),
            "number": list(range(count)),
            "amount": [f"{n}.50" for n in range(count)],
            "day": pa.array([moment.date() for moment in moments], pa.date32()),
            "share": [n / 2 for n in range(count)],
            "raw": pa.array([b"\x00"] * count, pa.binary()),
            "right": [n % 2 == 0 for n in range(count)],
        }
    )


@pytest.mark.parametrize("bucket", ["day", "week"])
def test_a_frame_has_what_is_read_one_by_one(spark, cassandra, bucket):
    connections = Connections({}, "", servers={"history": Server(cassandra.url, "me", "hunter2")})
    sink, site = visits(bucket), Site(connections, None)
    sink.prepare(site)
    moments = [MONDAY + dt.timedelta(hours=7 * n) for n in range(-40, 40)]
    for tenant in ("acme", "bolt", "crow"):
        piece = Slice(LaneId("keep", tenant, 0), f"{tenant}.visits", 0, 9, epoch=1)
        [told] = sink.open(site).write([Effect((piece,), (9,), _table(tenant, moments))])
        assert told == type(told)()
    since, until = moments[3] + dt.timedelta(microseconds=1), moments[71]
    frame = sink.frame(spark, connections, [("acme",), ("bolt",)], since=since, until=until)
    found = frame.orderBy("tenant", "at").toArrow()
    due = pa.concat_tables(
        page
        for tenant in ("acme", "bolt")
        for page in sink.read(connections, tenant, since=since, until=until)
    )
    assert found.select(due.column_names).to_pylist() == due.to_pylist()
    assert due.num_rows == 2 * 67
    assert "hunter2" not in frame._jdf.queryExecution().toString()
    assert frame.groupBy("tenant").sum("amount").count() == 2


def test_of_nothing_there_is_an_empty_frame(spark, cassandra):
    connections = Connections({}, "", servers={"history": Server(cassandra.url)})
    frame = visits().frame(spark, connections, [], since=MONDAY, until=MONDAY)
    assert frame.count() == 0
    assert frame.columns == list(KINDS)


def test_what_is_no_question_is_refused_before_anything_is_read():
    known = Connections({}, "", servers={"history": Server("cassandra://h/k?datacenter=dc1")})
    with pytest.raises(ConfigError, match="say tenant"):
        visits().frame(None, known, [()], since=MONDAY, until=MONDAY)
    with pytest.raises(ConfigError, match="no by_time"):
        visits(by_time=None).frame(None, known, [("acme",)], since=MONDAY, until=MONDAY)
