"""Addresses of Redis and Valkey, and what their errors mean."""

import pytest
import redis

from headrace.connectors.redis.library import translated
from headrace.connectors.redis.servers import address_of
from headrace.errors import ConfigError
from headrace.ports import Server
from headrace.sinks import RedisHashes

COLUMNS = {"id": "text", "size": "bigint", "gone": "boolean", "share": "double"}


def test_an_address_says_host_database_tls_and_who_one_is():
    found = address_of(Server("rediss://me:a%40b@[::1]:7000/3?ca_file=/ca.pem"), "cache")
    assert (found.host, found.port, found.database, found.tls) == ("::1", 7000, 3, True)
    assert (found.user, found.password, dict(found.files)) == ("me", "a@b", {"ca_file": "/ca.pem"})
    assert "a@b" not in repr(found)
    plain = address_of(Server("valkey://cache", "other", "secret"), "cache")
    assert (plain.port, plain.database, plain.tls, plain.user) == (6379, 0, False, "other")
    assert address_of(Server("redis://:secret@cache"), "cache").password == "secret"


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("postgresql://db/x", "no Redis or Valkey"),
        ("redis:///0", "no Redis or Valkey"),
        ("redis://user:hunter2@cache:port/0", "no Redis or Valkey"),
        ("redis://cache/one", "no Redis or Valkey"),
        ("rediss://cache?tls=on", "option 'tls' is none of"),
        ("rediss://cache?ca_file=", "option 'ca_file' says nothing"),
        ("redis://cache?ca_file=/ca.pem", "need rediss://"),
    ],
)
def test_an_address_that_is_wrong_is_told_without_what_may_be_a_secret(url, said):
    with pytest.raises(ConfigError, match=said) as told:
        address_of(Server(url), "cache")
    assert "hunter2" not in str(told.value)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (redis.exceptions.BusyLoadingError("Valkey is loading"), "SinkUnavailable"),
        (redis.exceptions.OutOfMemoryError("not allowed"), "SinkUnavailable"),
        (redis.exceptions.ReadOnlyError("no"), "SinkUnavailable"),
        (redis.exceptions.ClusterDownError("no"), "SinkUnavailable"),
        (redis.exceptions.MovedError("1 127.0.0.1:1"), "TargetMissing"),
        (redis.ConnectionError("max number of clients reached"), "SinkUnavailable"),
        (redis.TimeoutError("Timeout"), "SinkUnavailable"),
        (redis.ResponseError("MISCONF Redis is configured to save"), "SinkUnavailable"),
        (redis.ResponseError("NOREPLICAS Not enough good replicas"), "SinkUnavailable"),
        (redis.ResponseError("BUSY a script"), "SinkUnavailable"),
        (redis.ResponseError("unknown command 'EVALSHA'"), "TargetMissing"),
        (redis.ResponseError("Error running script: WRONGTYPE Operation"), "SinkRefused"),
        (redis.AuthenticationError("invalid password"), "TargetMissing"),
        (redis.exceptions.NoPermissionError("no permissions"), "TargetMissing"),
        (ValueError("invalid literal for int()"), "SinkUnavailable"),
        (OSError("no route"), "SinkUnavailable"),
    ],
)
def test_what_a_server_says_is_for_now_or_for_ever_or_for_a_person(error, code):
    assert type(translated(error, "hashes")).__name__ == code


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"key": ()}, "it needs a key"),
        ({"key": ("share",)}, "no column of text, bigint, date"),
        ({"newest_by": "id"}, "newest_by names 'id'"),
        ({"delete_by": "size"}, "delete_by names 'size'"),
        ({"name": "a b"}, "the name has letters"),
        ({"name": "{lead}"}, "the name has letters"),
        ({"columns": {**COLUMNS, "at": "float"}}, "column 'at': kind 'float' is none of"),
        ({"columns": {**COLUMNS, "_newest": "text"}}, "'_newest' is no name"),
        ({"at": ""}, "at names no connection"),
        ({"at": "{tenant}"}, "may stand in braces"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anybody_is_asked(more, said):
    given = {"name": "leads", "columns": COLUMNS, "key": ("id",), "newest_by": "size", "at": "c"}
    with pytest.raises(ConfigError, match=said):
        RedisHashes(**{**given, **more})


def test_more_columns_than_a_script_can_write_are_refused():
    columns = {"id": "bigint", **{f"c{number}": "text" for number in range(1000)}}
    with pytest.raises(ConfigError, match="1000 at most"):
        RedisHashes("x", columns, key=("id",), newest_by="id", at="cache")


def test_what_a_server_quotes_of_a_row_is_not_told():
    said = "unknown command 'EVALSHA', with args beginning with: '7c1' '1' 'acme:lead:hunter2'"
    told = str(translated(redis.ResponseError(said), "connection cache"))
    assert "EVALSHA" in told
    assert "hunter2" not in told
