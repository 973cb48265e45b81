"""A service that answers byte by byte, to a put and to a look at a table, alone and in company."""

import time

import pyarrow as pa
import pytest

from dripping import dripping
from headrace.connectors import own_servers, tenants
from headrace.connectors.dynamodb import servers
from headrace.connectors.dynamodb.library import library
from headrace.errors import SinkUnavailable
from headrace.model.streams import LaneId, Slice
from headrace.ports import Connections, Effect, Server, Site
from headrace.sinks import DynamoTable

MOMENT_S = 0.4
STATUS = b"HTTP/1.1 200 OK\r\nContent-Type: application/x-amz-json-1.0\r\n"
HEADER, BODY = STATUS + b"X: " + b"a" * 200, STATUS + b"Content-Length: 200\r\n\r\n" + b" " * 200
WHOLE = STATUS + b"Content-Length: 2\r\n\r\n{}"
KEY = (
    b'{"Table": {"TableStatus": "ACTIVE", "AttributeDefinitions": ['
    b'{"AttributeName": "_tenant", "AttributeType": "S"}, '
    b'{"AttributeName": "_key", "AttributeType": "S"}], "KeySchema": ['
    b'{"AttributeName": "_tenant", "KeyType": "HASH"}, '
    b'{"AttributeName": "_key", "KeyType": "RANGE"}]}}'
)
FITS = STATUS + b"Content-Length: %d\r\n\r\n" % len(KEY) + KEY


def effect_of(tenant, rows=1):
    slices = (Slice(LaneId("keep", tenant, 0), "visits", 0, 9, epoch=1),)
    return Effect(slices, (9,), pa.table({"id": pa.array(range(rows), pa.int64())}))


def server_at(port):
    return Server(f"dynamodb://eu-west-1?endpoint=http://127.0.0.1:{port}", "me", "not-a-secret")


def sink_of(name="leads", at="there"):
    return DynamoTable(name, {"id": "bigint"}, key=("id",), newest_by="id", at=at)


@pytest.fixture(autouse=True)
def _of_its_own(monkeypatch):
    library()  # to import it takes its time
    monkeypatch.setattr(servers._services, "held", {})
    monkeypatch.setattr(own_servers, "ALONE", (MOMENT_S, MOMENT_S))


def client_made(site):
    """To read what a client needs to know of DynamoDB takes its time, too, once."""
    for name in site.connections.servers:
        servers.service_of(site.connections, name, in_company=site.in_company)._client()


@pytest.mark.parametrize("drips", [HEADER, BODY], ids=["header", "body"])
@pytest.mark.parametrize("answers", [(), (WHOLE,)], ids=["first", "next"])
def test_an_answer_to_a_put_that_comes_byte_by_byte_is_none_when_the_time_is_over(answers, drips):
    with dripping(drips, answers=answers) as port:
        site = Site(Connections({}, "", servers={"there": server_at(port)}), None)
        client_made(site)
        began_s = time.monotonic()
        [told] = sink_of().open(site).write([effect_of("acme", 2)])
        assert time.monotonic() - began_s < 6 * MOMENT_S
    error = told.error or told.refused[0].error
    assert error.code == "SinkUnavailable"
    assert "it may be written or not" in error.message


@pytest.mark.parametrize("drips", [HEADER, BODY], ids=["header", "body"])
def test_a_look_at_a_table_that_comes_byte_by_byte_ends_a_deploy(drips):
    with dripping(drips) as port:
        site = Site(Connections({}, "", servers={"there": server_at(port)}), None)
        client_made(site)
        began_s = time.monotonic()
        with pytest.raises(SinkUnavailable, match="no answer in time"):
            sink_of().prepare(site)
        assert time.monotonic() - began_s < 6 * MOMENT_S


@pytest.mark.parametrize("answers", [(), (FITS,)], ids=["look", "put"])
def test_one_of_a_tenant_that_answers_byte_by_byte_has_its_moment_and_no_more(monkeypatch, answers):
    monkeypatch.setattr(tenants, "MOMENT_S", MOMENT_S)
    with dripping(BODY, answers=answers) as port:
        named = {"c-slow": server_at(port), "c-next": server_at(1)}
        site = Site(Connections({}, "", servers=named), None, in_company=True)
        sink = sink_of(at="c-{tenant}", name="{tenant}.leads")
        for tenant in ("slow", "next"):
            sink._service(site, tenant)._client()
        # To make the first table of a process imports much, which is not what is timed.
        effects = [effect_of("slow", 20), effect_of("next")]
        began_s = time.monotonic()
        slow, neighbour = sink.open(site).write(effects)
        took_s = time.monotonic() - began_s
    assert took_s < 10 * MOMENT_S
    assert slow.error.code == "TenantsSinkSlow"
    assert not neighbour.untried
    assert neighbour.error.code in ("SinkUnavailable", "TenantsSinkSlow")


def test_a_table_that_is_being_made_is_waited_for_no_longer_than_others_wait(monkeypatch):
    made = b'{"Table": {"TableStatus": "CREATING"}}'
    answer = STATUS + b"Content-Length: %d\r\n\r\n" % len(made) + made
    monkeypatch.setattr(tenants, "MOMENT_S", MOMENT_S)
    with dripping(b"", answers=(answer,) * 50) as port:
        site = Site(Connections({}, "", servers={"there": server_at(port)}), None, in_company=True)
        client_made(site)
        began_s = time.monotonic()
        [told] = sink_of("{tenant}.leads").open(site).write([effect_of("acme")])
        assert time.monotonic() - began_s < 2 * MOMENT_S
    assert "is CREATING" in told.error.message
