"""Addresses of DynamoDB, what its answers mean, and what is refused before it is asked."""

import botocore.exceptions
import pyarrow as pa
import pytest

from headrace.connectors.dynamodb.library import is_done, is_throttled, translated
from headrace.connectors.dynamodb.servers import address_of, service_of
from headrace.errors import ConfigError, SinkRefused, SinkUnavailable, TargetMissing
from headrace.ports import Connections, Server, Site
from headrace.sinks import DynamoTable

COLUMNS = {"id": "text", "size": "bigint", "gone": "boolean", "share": "double", "note": "text"}
GIVEN = {"columns": COLUMNS, "key": ("id",), "newest_by": "size", "at": "there"}


def said(code, message="why", status=400):
    told = {"Error": {"Code": code, "Message": message}}
    return botocore.exceptions.ClientError(
        {**told, "ResponseMetadata": {"HTTPStatusCode": status}}, "PutItem"
    )


def test_an_address_says_region_endpoint_and_authority_and_the_user_stands_apart():
    url = "dynamodb://eu-central-1?endpoint=https://127.0.0.1:8000&ca_file=/ca.pem"
    found = address_of(Server(url, "AKIA", "hunter2"), "there")
    assert (found.region, found.endpoint) == ("eu-central-1", "https://127.0.0.1:8000")
    assert (found.ca_file, found.user, found.password) == ("/ca.pem", "AKIA", "hunter2")
    assert "hunter2" not in repr(found)
    assert "AKIA" not in repr(found)
    amazons = address_of(Server("dynamodb://eu-west-1"), "there")
    assert (amazons.region, amazons.endpoint, amazons.user) == ("eu-west-1", None, None)


@pytest.mark.parametrize(
    ("url", "user", "password"),
    [
        ("redis://eu-central-1", None, None),
        ("dynamodb://", None, None),
        ("dynamodb://me:hunter2@eu-central-1", None, None),
        ("dynamodb://eu-central-1/leads", None, None),
        ("dynamodb://eu-central-1?endpoint=127.0.0.1:8000", None, None),
        ("dynamodb://eu-central-1?endpoint=http://me:hunter2@a", None, None),
        ("dynamodb://eu-central-1", "AKIA", None),
        ("dynamodb://eu-central-1", None, "hunter2"),
    ],
)
def test_an_address_that_is_wrong_is_told_without_what_may_be_a_secret(url, user, password):
    with pytest.raises(ConfigError, match="is no DynamoDB: write it as dynamodb://") as told:
        address_of(Server(url, user, password), "there")
    assert "hunter2" not in str(told.value)


def test_an_option_that_is_none_is_told():
    with pytest.raises(ConfigError, match="option 'profile' is none of endpoint, ca_file"):
        address_of(Server("dynamodb://eu-central-1?profile=me"), "there")


@pytest.mark.parametrize(
    ("code", "message", "told"),
    [
        ("ValidationException", "Item size has exceeded the maximum allowed size", SinkRefused),
        (
            "ValidationException",
            "The provided key element does not match the schema",
            TargetMissing,
        ),
        ("ValidationException", "One or more: Missing the key _tenant in the item", TargetMissing),
        ("ResourceNotFoundException", "not found", TargetMissing),
        ("AccessDeniedException", "not authorized", TargetMissing),
        ("UnrecognizedClientException", "invalid token", TargetMissing),
        ("InvalidSignatureException", "does not match; was 'hunter2'", TargetMissing),
        ("InvalidSignatureException", "Signature expired: now is hunter2", SinkUnavailable),
        ("ExpiredTokenException", "expired", SinkUnavailable),
        ("ProvisionedThroughputExceededException", "too much", SinkUnavailable),
        ("ThrottlingException", "too much", SinkUnavailable),
        ("RequestLimitExceeded", "too much", SinkUnavailable),
        ("InternalServerError", "oh", SinkUnavailable),
        ("WhateverComes", "oh", SinkUnavailable),
    ],
)
def test_an_answer_is_a_records_a_persons_or_times(code, message, told):
    found = translated(said(code, message), "table")
    assert type(found) is told
    assert "hunter2" not in str(found)


def test_what_is_newer_there_is_success_and_what_is_too_much_is_known_to_be_undone():
    assert is_done(said("ConditionalCheckFailedException"))
    throttles = ("ProvisionedThroughputExceededException", "ThrottlingException")
    for code in (*throttles, "RequestLimitExceeded", "TransactionConflictException"):
        assert is_throttled(said(code)), code
    for code in ("InternalServerError", "ValidationException"):
        assert not is_throttled(said(code)), code


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (botocore.exceptions.ReadTimeoutError(endpoint_url="x"), "may be written or not"),
        (botocore.exceptions.ConnectionClosedError(endpoint_url="x"), "may be written or not"),
        (botocore.exceptions.EndpointConnectionError(endpoint_url="x"), "not now"),
        (botocore.exceptions.NoCredentialsError(), "there are no credentials here"),
        (TimeoutError("not in time"), "may be written or not"),
        (OSError("no route"), "not now"),
        (RuntimeError("can't start new thread"), "not now"),
    ],
)
def test_no_record_is_to_blame_where_nobody_answers(error, words):
    found = translated(error, "table")
    assert type(found) is SinkUnavailable
    assert words in str(found)


def test_a_value_that_the_client_cannot_send_is_a_records():
    error = UnicodeEncodeError("utf-8", "hunter2", 0, 1, "no")
    found = translated(error, "table")
    assert type(found) is SinkRefused
    assert "hunter2" not in str(found)


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"key": ()}, "it needs a key"),
        ({"key": ("share",)}, "no column of text, bigint, date"),
        ({"newest_by": "id"}, "newest_by names 'id'"),
        ({"name": "Leads!"}, "the name has 3 to 255 letters"),
        ({"name": "ab"}, "the name has 3 to 255 letters"),
        ({"columns": {**COLUMNS, "_key": "text"}}, "'_key' is no name"),
        ({"at": ""}, "at names no connection"),
        ({"at": "{Tenant}"}, "only {tenant} may stand in braces"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anybody_is_asked(more, told):
    with pytest.raises(ConfigError, match=told):
        DynamoTable(**{"name": "leads", **GIVEN, **more})


@pytest.mark.parametrize(
    "name",
    [
        "{tenant}-leads",  # tenant a with b-leads, and tenant a-b with leads
        "{tenant}leads",
        "leads-{tenant}",
        "leads.{tenant}",  # tenant b of a.{tenant}, and tenant a of {tenant}.b
        "{tenant}.{tenant}",
        "{tenant}_leads",
    ],
)
def test_a_name_of_which_nobody_can_tell_whose_table_it_is_is_refused(name):
    with pytest.raises(ConfigError, match="nobody can tell whose table it is"):
        DynamoTable(name, **GIVEN)


def test_of_two_tenants_no_two_tables_have_one_name():
    names = [(tenant, rest) for tenant in ("a", "a-b") for rest in ("b-c", "c", "b.c")]
    sinks = [(tenant, DynamoTable(f"{{tenant}}.{rest}", **GIVEN)) for tenant, rest in names]
    tables = {sink.name.replace("{tenant}", tenant): tenant for tenant, sink in sinks}
    assert len(tables) == len(names)
    assert all(table.partition(".")[0] == tenant for table, tenant in tables.items())


@pytest.mark.parametrize(
    ("column", "value", "told"),
    [
        ("share", float("nan"), "'share', row 0: DynamoDB has only numbers that are finite"),
        ("id", "x" * 1025, "takes from 1 to 1024"),
        ("id", "", "its key has 0 bytes"),
        ("id", None, "the key has no null"),
        ("note", "ä" * 205_000, "row 0 is larger than the 400 KB"),
    ],
)
def test_what_the_service_never_takes_is_refused_before_it_is_asked(column, value, told):
    sink = DynamoTable("leads", **GIVEN)
    row = {"id": "a", "size": 1, "gone": False, "share": 0.5, "note": "", column: value}
    types = {"size": pa.int64(), "gone": pa.bool_(), "share": pa.float64()}
    table = pa.table({name: pa.array([row[name]], types.get(name, pa.string())) for name in row})
    with pytest.raises(SinkRefused, match=told):
        sink.check(table)


def test_tenants_of_one_account_share_a_client_and_those_of_their_own_do_not():
    servers = {"one": Server("dynamodb://eu-central-1"), "own": Server("dynamodb://{tenant}")}
    connections = Connections({}, "", servers=servers)
    assert service_of(connections, "one", "acme") is service_of(connections, "one", "bolt")
    assert service_of(connections, "own", "acme") is not service_of(connections, "own", "bolt")


def test_an_endpoint_that_the_client_does_not_take_is_no_records_fault():
    url = "dynamodb://eu-central-1?endpoint=https://a_b!c"
    server = Server(url, "AKIA", "hunter2")
    site = Site(Connections({}, "", servers={"there": server}), None)
    with pytest.raises(ConfigError, match="cannot begin with its region and its endpoint"):
        DynamoTable("leads", **GIVEN).prepare(site)


def test_a_deploy_of_tables_of_tenants_looks_at_the_address_alone():
    sink = DynamoTable("leads", **{**GIVEN, "at": "own"})
    site = Site(Connections({}, "", servers={"own": Server("redis://{tenant}")}), None)
    with pytest.raises(ConfigError, match="is no DynamoDB"):
        sink.prepare(site)
