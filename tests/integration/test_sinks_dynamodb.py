"""A table in moto's DynamoDB: what readers find, and what becomes of rows it does not take."""

import datetime as dt
import logging
import os
import subprocess
import sys
import time
from decimal import Decimal

import boto3
import pyarrow as pa
import pytest
from leads import LEADS, SAID, Target, due_after_zombies, effect, of_leads, one, until_taken

from dynamodb_server import LOST, REGION, SECRET, USER, DynamoDb, a_name
from headrace.connectors.dynamodb import servers
from headrace.errors import ConfigError, SinkUnavailable
from headrace.ports import Connections, Server, Site
from headrace.sinks import DynamoTable

pytestmark = pytest.mark.slow


def leads(name, **more):
    return DynamoTable(name, LEADS, **{"at": "there", **SAID, **more})


class Table(Target):
    """Tables of one's own, as a sink and as any reader sees them."""

    def __init__(self, service):
        self.service, self.name = service, a_name()
        self.connections = Connections({}, "", servers={"there": service.server})
        self.site = Site(self.connections, None)
        self.in_company = Site(self.connections, None, in_company=True)

    def there(self, table=None):
        """Cities by tenant and lead, of those that are not gone."""
        return {
            (item["_tenant"], item["_key"]): item.get("city")
            for item in self.service.items(table or self.name)
            if not item["gone"]
        }

    def refuses(self, tenant, *fate):
        """Answer puts of a tenant so, as rights by leading keys do."""

        def fate_of(operation, request):
            is_theirs = request.get("Item", {}).get("_tenant", {}).get("S") == tenant
            return fate if operation == "PutItem" and is_theirs else None

        self.service.fate_of = fate_of


@pytest.fixture
def table(dynamodb):
    yield Table(dynamodb)
    dynamodb.fate_of, dynamodb.per_s, dynamodb.away = lambda *_: None, None, False
    dynamodb.fates.clear()


def codes(errors):
    return [error and error.code for error in errors]


# --- what readers find


def test_each_kind_of_value_is_an_attribute_that_any_reader_knows_and_nulls_are_not_there(table):
    columns = {
        "who": "text",
        "day": "date",
        "number": "bigint",
        "at": "timestamp",
        "price": "decimal(38, 2)",
        "share": "double",
        "paid": "boolean",
        "raw": "bytes",
        "note": "text",
    }
    key = ("who", "day", "number")
    sink = DynamoTable(table.name, columns, key=key, newest_by="at", at="there")
    moment = dt.datetime(2026, 1, 31, 12, 0, 0, 123456, dt.UTC)
    price = Decimal("123456789012345678901234567890123456.78")
    rows = pa.table(
        {
            "who": ["a:b%"],
            "day": [dt.date(2026, 1, 31)],
            "number": [-5],
            "at": pa.array([moment], pa.timestamp("us", "UTC")),
            "price": [price],
            "share": [0.1],
            "paid": [True],
            "raw": [b"\x00\xff"],
            "note": pa.nulls(1, pa.string()),
        }
    )
    assert table.write(table.prepared(sink), rows) == [None]
    [item] = table.service.client.scan(TableName=table.name)["Items"]
    assert item == {
        "_tenant": {"S": "t0"},
        "_key": {"S": "a%3Ab%25:2026-01-31:-5"},
        "_newest": {"N": "1769860800123456"},
        "who": {"S": "a:b%"},
        "day": {"S": "2026-01-31"},
        "number": {"N": "-5"},
        "at": {"S": "2026-01-31T12:00:00.123456Z"},
        "price": {"N": str(price)},
        "share": {"N": "0.1"},
        "paid": {"BOOL": True},
        "raw": {"B": b"\x00\xff"},
    }


def test_what_is_gone_stays_without_its_data_and_only_what_is_newer_comes_back(table):
    sink = table.prepared(leads(table.name))
    table.write(sink, one("a", "Rome", 1))
    assert table.write(sink, one("a", None, 5, gone=True)) == [None]
    mark = {"lead": "a", "changed": "5", "gone": True}
    keys = {"_tenant": "t0", "_key": "a", "_newest": "5"}
    assert table.service.items(table.name) == [{**keys, **mark}]
    assert table.write(sink, one("a", "Bonn", 4)) == [None]
    assert table.there() == {}
    table.write(sink, one("a", "Oslo", 6))
    assert table.there() == {("t0", "a"): "Oslo"}


def test_versions_are_compared_as_numbers_however_large_they_are(table):
    sink = table.prepared(leads(table.name))
    for version, city in ((2**63 - 1, "new"), (2**63 - 2, "old"), (9, "older"), (-1, "oldest")):
        assert table.write(sink, one("a", city, version)) == [None]
    assert table.there() == {("t0", "a"): "new"}


def test_an_item_that_somebody_else_made_gives_way_whole(table):
    sink = table.prepared(leads(table.name))
    key = {"_tenant": {"S": "t0"}, "_key": {"S": "a"}}
    table.service.client.put_item(TableName=table.name, Item={**key, "odd": {"S": "x"}})
    assert table.write(sink, one("a", "Rome", 1)) == [None]
    [item] = table.service.items(table.name)
    assert ("odd" in item, item["city"]) == (False, "Rome")


# --- what keeps tenants apart


def test_two_tenants_have_no_item_in_common_whatever_their_keys_are(table):
    sink = table.prepared(leads(table.name))
    told = table.told(
        sink,
        effect(one("b:c", "Rome", 1), "a"),
        effect(one("c", "Oslo", 2), "a-b"),
        effect(one("b:c", "Bonn", 3), "a-b"),
    )
    assert codes(one.error for one in told) == [None] * 3
    due = {("a", "b%3Ac"): "Rome", ("a-b", "c"): "Oslo", ("a-b", "b%3Ac"): "Bonn"}
    assert table.there() == due


def test_each_tenant_has_its_own_table_made_when_it_first_writes(table):
    tables = {rest: leads(f"{{tenant}}.{table.name}{rest}") for rest in ("-b-c", "-c")}
    for rest, tenant in (("-b-c", "a"), ("-c", "a-b"), ("-c", "a")):
        sink = table.prepared(tables[rest])
        [told] = table.told(sink, effect(one("k", f"{tenant}{rest}", 1), tenant))
        assert told.error is None
    for rest, tenant in (("-b-c", "a"), ("-c", "a-b"), ("-c", "a")):
        found = table.there(f"{tenant}.{table.name}{rest}")
        assert found == {(tenant, "k"): f"{tenant}{rest}"}


@pytest.mark.parametrize("fate", ["AccessDeniedException", "ResourceNotFoundException"])
def test_a_tenant_whose_items_are_closed_to_us_costs_the_others_nothing(table, fate):
    sink = table.prepared(leads(table.name))
    table.refuses("t1", fate, "no")
    rows = of_leads(*((f"k{n}", "Rome", 1, 1, False) for n in range(30)))
    assert codes(table.write(sink, rows, rows, rows)) == [None, "TargetMissing", None]
    assert len(table.there()) == 60


def test_a_table_of_a_tenant_that_is_gone_or_another_stops_that_tenant_until_it_is_resumed(table):
    sink = leads(f"{{tenant}}.{table.name}")
    assert table.write(sink, *[one("a", "Rome", 1)] * 3) == [None] * 3
    table.service.client.delete_table(TableName=f"t1.{table.name}")
    table.service.client.delete_table(TableName=f"t2.{table.name}")
    table.service.client.create_table(
        TableName=f"t2.{table.name}",
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
    )
    told = table.write(sink, *[one("a", "Oslo", 2)] * 3)
    assert codes(told) == [None, "TargetMissing", "TargetMissing"]
    # Who resumes them has each looked at again.
    told = table.write(sink, *[one("a", "Oslo", 2)] * 3)
    assert codes(told) == [None, None, "TargetMissing"]
    assert "has to have _tenant (S, HASH) and _key (S, RANGE)" in told[2].message
    assert table.there(f"t1.{table.name}") == {("t1", "a"): "Oslo"}


# --- what it does not take


def test_an_item_that_is_too_large_is_named_and_the_others_are_there(table):
    sink = table.prepared(leads(table.name))
    least, most = 400 * 1024 - 20, 400 * 1024 + 1
    rows = of_leads(
        *((name, "x" * size, 1, 1, False) for name, size in (("a", 9), ("b", least), ("c", most)))
    )
    [told] = table.told(sink, effect(rows))
    assert [(row.row, row.error.code) for row in told.refused] == [
        (1, "SinkRefused"),
        (2, "SinkRefused"),
    ]
    assert "400 KB" in told.refused[1].error.message
    # Its names count as well, which the service says.
    assert len(table.service.puts()[-1]["Item"]) > 3
    assert table.there() == {("acme", "a"): "x" * 9}


def test_rows_that_exceed_the_throughput_wait_and_nothing_is_lost(table):
    sink = table.prepared(leads(table.name))
    table.service.per_s = 10.0
    rows = of_leads(*((f"k{n}", "Rome", n, 1, False) for n in range(30)))
    refused = 0
    began_s = time.monotonic()
    while (told := table.told(sink, effect(rows), site=table.in_company)[0]) and (
        told.error or told.refused
    ):
        assert time.monotonic() - began_s < 60
        codes_of = {row.error.code for row in told.refused} or {told.error.code}
        assert codes_of == {"SinkUnavailable"}
        left = [row.row for row in told.refused] or range(len(rows))
        refused += len(left)
        rows = rows.take(pa.array(left, pa.int64()))
    assert refused, "it took all at once, and shows nothing"
    assert len(table.there()) == 30


def test_a_throttled_tenant_is_given_up_in_half_a_second_where_others_wait(table):
    sink = table.prepared(leads(table.name))
    table.refuses("t0", "ThrottlingException", "too much")
    rows = of_leads(*((f"k{n}", "Rome", 1, 1, False) for n in range(50)))
    began_s = time.monotonic()
    told = table.write(sink, rows, rows, site=table.in_company)
    assert time.monotonic() - began_s < 3
    assert codes(told) == ["SinkUnavailable", None]


def test_who_may_not_come_in_stops_and_no_record_is_to_blame(table):
    sink = table.prepared(leads(table.name))
    table.service.fate_of = lambda *_: ("UnrecognizedClientException", "invalid")
    [error] = table.write(sink, one("a", "Rome", 1))
    assert (error.code, "user and password" in error.message) == ("TargetMissing", True)
    with pytest.raises(ConfigError, match="user and password"):
        sink.prepare(table.site)


# --- credentials


def test_credentials_may_be_those_of_the_environment_and_are_looked_for_again(table, monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("HOME", "/nowhere")
    server = Server(table.service.server.url)
    site = Site(Connections({}, "", servers={"there": server}), None)
    sink = table.prepared(leads(table.name))
    [error] = table.write(sink, one("a", "Rome", 1), site=site)
    assert (error.code, "no credentials" in error.message) == ("SinkUnavailable", True)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", USER)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    assert table.write(sink, one("a", "Rome", 1), site=site) == [None]


def test_no_secret_and_no_data_is_logged_whatever_the_level(table, caplog):
    logging.getLogger("botocore").setLevel(logging.NOTSET)
    servers._services.held.clear()
    caplog.set_level(logging.DEBUG)
    sink = table.prepared(leads(table.name))
    table.service.fates.extend([None, LOST])
    table.write(sink, one("a", "hunter2", 1), one("b", "hunter2", 1))
    assert SECRET not in caplog.text
    assert "hunter2" not in caplog.text


# --- deploys


def test_a_table_that_is_right_is_found_right_again_and_a_wrong_one_is_refused(table):
    table.prepared(leads(table.name))
    table.prepared(leads(table.name))
    described = table.service.client.describe_table(TableName=table.name)["Table"]
    assert described["BillingModeSummary"]["BillingMode"] == "PAY_PER_REQUEST"
    wrong = f"{table.name}-wrong"
    table.service.client.create_table(
        TableName=wrong,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "N"}],
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
    )
    with pytest.raises(ConfigError, match=r"with the key id \(N, HASH\), and has to have _tenant"):
        table.prepared(leads(wrong))


def test_a_service_that_is_away_is_no_mistake_of_a_deploy(table):
    table.service.away = True
    with pytest.raises(SinkUnavailable):
        leads(table.name).prepare(table.site)


# --- kills


def test_attempts_of_all_kinds_at_once_and_late_leave_what_one_of_each_would(table):
    sink = table.prepared(leads(table.name))
    due, seed = due_after_zombies(sink, table.site, lanes=3, waves=6)
    found = {key.replace("%3A", ":"): city for (_, key), city in table.there().items()}
    assert found == {key: value for key, value in due.items() if value}, seed


def test_a_service_that_says_nothing_or_goes_away_delays_and_loses_nothing(monkeypatch):
    monkeypatch.setattr(servers._services, "held", {})
    with DynamoDb() as service:
        table = Table(service)
        sink = table.prepared(leads(table.name))
        monkeypatch.setattr(servers.service_of(table.connections, "there"), "_waits", (5.0, 1.0))
        many = of_leads(*((f"k{n}", "Rome", n, 1, False) for n in range(100)))
        silent = []

        def fate_of(operation, request):
            del request
            if operation == "PutItem" and len(silent) < 4 and len(service.asked) > 40:
                silent.append(time.sleep(3.0))

        service.fate_of = fate_of
        [error] = table.write(sink, many)
        assert error.code == "SinkUnavailable"
        until_taken(table, sink, many, within_s=60)
        service.away = True
        [error] = table.write(sink, one("k0", "Oslo", 2))
        assert error.code == "SinkUnavailable"
        service.away = False
        until_taken(table, sink, one("k0", "Oslo", 2), within_s=60)
        assert len(table.there()) == 100
        assert table.there()["t0", "k0"] == "Oslo"


LIMITED = """
import resource, sys, threading
sys.path[:0] = {paths!r}
from leads import LEADS, SAID, effect, of_leads
from headrace.ports import Connections, Server, Site
from headrace.sinks import DynamoTable

sink = DynamoTable({name!r}, LEADS, at="there", **SAID)
site = Site(Connections({{}}, "", servers={{"there": Server({url!r}, {user!r}, {secret!r})}}), None)
sink.open(site).write([effect(of_leads(("first", "Rome", 1, 1, False)), "t0")])
has = 4096 * int(open("/proc/self/statm").read().split()[0])
# As `spark.executor.pyspark.memory` sets it for a worker: some room, and none for many threads.
resource.setrlimit(resource.RLIMIT_AS, (has + {room}, has + {room}))
rows = of_leads(*((f"k{{n}}", "Rome", n, 1, False) for n in range(60)))
[told] = sink.open(site).write([effect(rows, "t0")])
assert told.error is None and not told.refused, told
assert threading.active_count() == 1, threading.enumerate()
"""


@pytest.mark.parametrize("room", [8 << 20, 64 << 20], ids=["8 MB", "64 MB"])
def test_a_worker_with_little_room_for_memory_writes_all(table, room):
    table.prepared(leads(table.name))
    code = LIMITED.format(
        paths=[path for path in sys.path if path],
        name=table.name,
        url=table.service.server.url,
        user=USER,
        secret=SECRET,
        room=room,
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert len(table.there()) == 61


def test_readers_of_amazons_client_see_what_is_there(table):
    table.write(table.prepared(leads(table.name)), one("a", "Rome", 1))
    resource = boto3.resource(
        "dynamodb",
        region_name=REGION,
        endpoint_url=table.service.endpoint,
        aws_access_key_id=USER,
        aws_secret_access_key=SECRET,
    )
    found = resource.Table(table.name).get_item(Key={"_tenant": "t0", "_key": "a"})["Item"]
    assert (found["city"], found["size"]) == ("Rome", Decimal(1))
