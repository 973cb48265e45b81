"""Hashes in a real Valkey: what readers find, and what becomes of rows that it does not take."""

import contextlib
import datetime as dt
import os
import random
import signal
import threading
from decimal import Decimal

import pyarrow as pa
import pytest
import redis
from leads import LEADS, SAID, Target, due_after_zombies, effect, of_leads, one, taken_before_a_kill

from headrace.connectors import own_servers
from headrace.connectors.redis import servers
from headrace.embedded import EmbeddedValkey
from headrace.embedded.addresses import free_ports
from headrace.errors import ConfigError, SinkUnavailable
from headrace.model.record_versions import version_of
from headrace.ports import Connections, Server, Site
from headrace.sinks import RedisHashes


def leads(name, **more):
    return RedisHashes(name, LEADS, **{"at": "cache", **SAID, **more})


class Cache(Target):
    """Entries of one's own in a server, as a sink and as any reader sees them."""

    def __init__(self, url):
        super().__init__("cache", url)
        self.client = redis.Redis.from_url(url, decode_responses=True)

    def entry(self, *key):
        found = self.client.hgetall(":".join((self.name, *key)))
        found.pop("_newest", None)
        return found

    def with_user(self, user, password):
        server = Server(self.connections.servers["cache"].url, user, password)
        return Site(Connections({}, "", servers={"cache": server}), None)


@pytest.fixture
def cache(valkey):
    found = Cache(valkey.url)
    yield found
    found.client.close()


@pytest.fixture
def own(tmp_path):
    """A server of the test's own, whose settings it may change, and which it may kill."""
    with EmbeddedValkey(tmp_path / "valkey", *free_ports(1)) as server:
        made = Cache(server.url)
        made.server = server
        yield made
        made.client.close()


def codes(errors):
    return [error and error.code for error in errors]


# --- what readers find


def test_each_kind_of_value_is_a_text_that_any_reader_knows_and_nulls_are_not_there(cache):
    columns = {
        "tenant": "text",
        "day": "date",
        "number": "bigint",
        "at": "timestamp",
        "price": "decimal(10, 2)",
        "share": "double",
        "paid": "boolean",
        "raw": "bytes",
        "note": "text",
    }
    key = ("tenant", "day", "number")
    sink = RedisHashes(cache.name, columns, key=key, newest_by="at", at="cache")
    moment = dt.datetime(2026, 1, 31, 12, 0, 0, 123456, dt.UTC)
    table = pa.table(
        {
            "tenant": ["a:b%"],
            "day": [dt.date(2026, 1, 31)],
            "number": [-5],
            "at": pa.array([moment], pa.timestamp("us", "UTC")),
            "price": [Decimal("0.10")],
            "share": [0.1],
            "paid": [True],
            "raw": [b"\x00\xff"],
            "note": pa.nulls(1, pa.string()),
        }
    )
    sink.prepare(cache.site)
    assert cache.write(sink, table) == [None]
    with redis.Redis.from_url(cache.connections.servers["cache"].url) as plain:
        found = plain.hgetall(f"{cache.name}:a%3Ab%25:2026-01-31:-5")
    assert found == {
        b"_newest": b"%020d" % (2**63 + 1_769_860_800_123_456),
        b"tenant": b"a:b%",
        b"day": b"2026-01-31",
        b"number": b"-5",
        b"at": b"2026-01-31T12:00:00.123456Z",
        b"price": b"0.10",
        b"share": b"0.1",
        b"paid": b"true",
        b"raw": b"\x00\xff",
    }


def test_the_name_of_the_tenant_stands_in_the_key_where_it_is_asked_for(cache):
    sink = leads(f"{cache.name}:{{tenant}}")
    assert cache.write(sink, one("a", "Rome", 1), one("a", "Oslo", 1)) == [None, None]
    assert [cache.entry(tenant, "a")["city"] for tenant in ("t0", "t1")] == ["Rome", "Oslo"]


def test_a_null_hides_what_an_older_row_had_and_so_does_a_column_that_is_no_more(cache):
    cache.client.hset(f"{cache.name}:a", mapping={"old": "1"})
    assert cache.write(leads(cache.name), one("a", "Rome", 1)) == [None]
    assert cache.entry("a") == {"lead": "a", "city": "Rome", "size": "1", "changed": "1"}
    assert cache.write(leads(cache.name), one("a", None, 2)) == [None]
    assert cache.entry("a") == {"lead": "a", "size": "1", "changed": "2"}


def test_what_is_gone_is_a_mark_for_a_while_and_only_what_is_newer_comes_back(cache):
    sink = leads(cache.name, marks_stay=dt.timedelta(minutes=5))
    cache.write(sink, one("a", "Rome", 1))
    cache.write(sink, one("a", None, 5, gone=True))
    assert cache.entry("a") == {"_gone": "1"}
    assert 290 < cache.client.ttl(f"{cache.name}:a") <= 300
    cache.write(sink, one("a", "Bonn", 4))
    assert cache.entry("a") == {"_gone": "1"}
    cache.write(sink, one("a", "Oslo", 6))
    assert cache.entry("a")["city"] == "Oslo"
    assert cache.client.ttl(f"{cache.name}:a") == -1


def test_an_entry_stays_as_long_as_it_is_said_from_when_it_was_written(cache):
    sink = leads(cache.name, ttl=dt.timedelta(hours=1))
    cache.write(sink, one("a", "Rome", 1))
    assert 3590 < cache.client.ttl(f"{cache.name}:a") <= 3600


def test_versions_that_no_number_of_a_script_tells_apart_are_told_apart(cache):
    high = version_of(60_000, 2**46)
    for version, city in ((high + 1, "new"), (high, "old")):
        cache.write(leads(cache.name), one("a", city, version))
    assert cache.entry("a")["city"] == "new"
    columns = {"lead": "text", "size": "bigint"}
    sink = RedisHashes(cache.name, columns, key=("lead",), newest_by="size", at="cache")
    for size in (-(2**63), -1, 0, 2**63 - 1, -2):
        cache.write(sink, pa.table({"lead": ["b"], "size": [size]}))
    assert cache.entry("b")["size"] == str(2**63 - 1)


def test_whatever_writers_do_at_once_the_newest_of_each_key_stays(cache):
    def writes(seed):
        chance, sink = random.Random(seed), leads(cache.name)
        for _ in range(30):
            rows = [
                (f"k{chance.randrange(9)}", "x", seed, chance.randrange(500), chance.random() < 0.2)
                for _ in range(20)
            ]
            newest.append(rows)
            assert cache.write(sink, of_leads(*rows)) == [None]

    newest = []
    threads = [threading.Thread(target=writes, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    written = [row for rows in newest for row in rows]
    for key in {row[0] for row in written}:
        most = max(row[3] for row in written if row[0] == key)
        number = int(cache.client.hget(f"{cache.name}:{key}", "_newest")) - 2**63
        assert number == most


# --- what it does not take


def test_a_key_that_is_something_else_is_refused_with_its_row_and_the_others_are_there(cache):
    cache.client.set(f"{cache.name}:b", "text")
    told = cache.told(
        leads(cache.name), effect(of_leads(*((key, "Rome", 1, 1, False) for key in "abc")))
    )
    assert [(row.row, row.error.code) for row in told[0].refused] == [(1, "SinkRefused")]
    assert "Rome" not in told[0].refused[0].error.message
    assert cache.entry("c")["city"] == "Rome"
    assert cache.client.get(f"{cache.name}:b") == "text"


def test_when_memory_is_full_rows_wait_nothing_is_lost_and_deletes_go_on(own):
    sink = leads(own.name)
    own.write(sink, one("a", "Rome", 1), one("b", "Rome", 1))
    own.client.config_set("maxmemory", "1")
    errors = own.write(sink, one("a", "Oslo", 2), one("c", "Oslo", 2))
    assert codes(errors) == ["SinkUnavailable"] * 2
    assert "OOM" in errors[0].message
    assert own.entry("a")["city"] == "Rome"
    assert own.write(sink, one("b", None, 3, gone=True)) == [None]
    own.client.config_set("maxmemory", "0")
    assert own.write(sink, one("a", "Oslo", 2), one("c", "Oslo", 2)) == [None, None]
    assert own.entry("a")["city"] == "Oslo"


def test_a_replica_takes_nothing_and_who_is_asked_again_is_the_server_of_then(own):
    sink = leads(own.name)
    own.client.execute_command("REPLICAOF", "127.0.0.1", "1")
    [error] = own.write(sink, one("a", "Rome", 1))
    assert error.code == "SinkUnavailable"
    assert "READONLY" in error.message
    own.client.execute_command("REPLICAOF", "NO", "ONE")
    assert own.write(sink, one("a", "Rome", 1)) == [None]


def test_a_server_that_runs_somebodys_script_is_busy_for_now(own):
    own.client.config_set("busy-reply-threshold", "50")
    other = redis.Redis.from_url(own.server.url)

    def hangs():
        with contextlib.suppress(redis.RedisError):
            other.eval("while true do end", 0)

    thread = threading.Thread(target=hangs)
    thread.start()
    try:
        deadline = 200
        while (error := own.write(leads(own.name), one("a", "Rome", 1))[0]) is None and deadline:
            deadline -= 1
        assert error.code == "SinkUnavailable"
        assert "BUSY" in error.message
    finally:
        own.client.execute_command("SCRIPT KILL")
        thread.join()
        other.close()
    assert own.write(leads(own.name), one("a", "Rome", 1)) == [None]


def test_a_server_that_says_nothing_is_given_up_and_all_is_offered_again(own, monkeypatch):
    monkeypatch.setattr(own_servers, "ALONE", (0.3, 0.3))
    monkeypatch.setattr(servers._caches, "held", {})
    sink, rows = leads(own.name), of_leads(*((f"k{n}", "x", 1, 1, False) for n in range(3000)))
    os.kill(own.server.pid, signal.SIGSTOP)
    try:
        [told] = own.told(sink, effect(rows))
    finally:
        os.kill(own.server.pid, signal.SIGCONT)
    assert told.error.code == "SinkUnavailable"
    assert own.write(sink, rows) == [None]
    assert len(own.client.keys(f"{own.name}:*")) == 3000


def test_scripts_that_are_forgotten_and_a_server_that_was_away_change_nothing(own):
    sink = leads(own.name)
    own.write(sink, one("a", "Rome", 1))
    own.client.script_flush()
    assert own.write(sink, one("a", "Oslo", 2)) == [None]
    own.server.kill()
    [error] = own.write(sink, one("a", "Bonn", 3))
    assert error.code == "SinkUnavailable"
    own.server.start()
    assert own.entry("a")["city"] == "Oslo"
    assert own.write(sink, one("a", "Bonn", 3)) == [None]


def test_who_may_not_come_in_or_write_stops_and_no_record_is_to_blame(own):
    sink = leads(own.name)
    own.client.execute_command("ACL SETUSER reader on >hunter2 ~* +@read +info +script|load")
    rights = "+script|load +evalsha +hget +hset +del +pexpire"
    own.client.execute_command(f"ACL SETUSER writer on >hunter2 ~{own.name}:* {rights}")
    [wrong] = own.write(sink, one("a", "Rome", 1), site=own.with_user("reader", "hunter3"))
    assert wrong.code == "TargetMissing"
    assert "user and password" in wrong.message
    assert "hunter" not in wrong.message
    with pytest.raises(ConfigError, match="user and password"):
        sink.prepare(own.with_user("reader", "hunter3"))
    [lacking] = own.write(sink, one("a", "Rome", 1), site=own.with_user("reader", "hunter2"))
    assert lacking.code == "TargetMissing"
    assert "lacks a right" in lacking.message
    theirs = own.with_user("writer", "hunter2")
    sink.prepare(theirs)
    assert own.write(sink, one("a", "Rome", 1), site=theirs) == [None]
    [elsewhere] = own.write(leads("other"), one("a", "Rome", 1), site=theirs)
    assert elsewhere.code == "TargetMissing"


def test_a_user_that_goes_away_in_the_middle_blames_no_record_and_leaves_what_was_written(own):
    said = f"ACL SETUSER passing on >hunter2 ~{own.name}:* +@all"
    own.client.execute_command(said)
    sink, theirs = leads(own.name), own.with_user("passing", "hunter2")
    assert own.write(sink, one("a", "Rome", 1), site=theirs) == [None]
    own.client.execute_command("ACL DELUSER passing")
    # That its connection is hung up may be met first.
    told = (own.write(sink, one("a", "Oslo", 2), site=theirs)[0] for _ in range(5))
    error = next(error for error in told if error.code != "SinkUnavailable")
    assert error.code == "TargetMissing"
    assert "user and password" in error.message
    assert own.entry("a")["city"] == "Rome"
    own.client.execute_command(said)
    assert own.write(sink, one("a", "Oslo", 2), site=theirs) == [None]
    assert own.entry("a")["city"] == "Oslo"


def test_a_key_that_is_closed_to_us_costs_its_own_effect_alone(own):
    rights = "+script|load +evalsha +hget +hset +del +pexpire"
    own.client.execute_command(f"ACL SETUSER writer on >hunter2 ~{own.name}:t1:* {rights}")
    sink, theirs = leads(f"{own.name}:{{tenant}}"), own.with_user("writer", "hunter2")
    errors = own.write(sink, one("a", "Rome", 1), one("a", "Oslo", 1), site=theirs)
    assert codes(errors) == ["TargetMissing", None]
    assert own.entry("t1", "a")["city"] == "Oslo"


def test_what_may_not_repeat_is_an_error_as_a_whole(cache):
    cache.client.set(f"{cache.name}:b", "text")
    rows = of_leads(*((key, "Rome", 1, 1, False) for key in "abc"))
    [told] = cache.told(leads(cache.name), effect(rows, may_repeat=False))
    assert (told.refused, told.error.code) == ((), "SinkRefused")


# --- kills


def test_attempts_of_all_kinds_at_once_and_late_leave_what_one_of_each_would(cache):
    sink = leads(cache.name)
    due, seed = due_after_zombies(sink, cache.site, lanes=6, waves=20)
    found = {key: cache.entry(key).get("city") for key in due}
    assert found == due, seed


def test_what_was_answered_is_there_after_a_kill_in_a_write(own):
    taken = taken_before_a_kill(own, leads(own.name), own.server, least=1000, within_s=60)
    found = {key.removeprefix(f"{own.name}:") for key in own.client.scan_iter(count=10_000)}
    assert set(taken) <= found


# --- deploys


def test_a_node_of_a_cluster_is_refused_at_deploy(tmp_path):
    [bus] = free_ports(1)
    # Else it is the port above by 10,000, which there may not be.
    settings = {"cluster-enabled": "yes", "cluster-port": str(bus)}
    node = EmbeddedValkey(tmp_path / "node", settings=settings)
    with node, pytest.raises(ConfigError, match="node of a cluster"):
        leads("leads").prepare(Cache(node.url).site)


def test_a_server_that_is_away_is_no_mistake_of_a_deploy(own):
    own.server.stop()
    with pytest.raises(SinkUnavailable):
        leads(own.name).prepare(own.site)


def test_a_server_that_drops_entries_when_it_is_full_is_told_in_the_log(own, capsys):
    own.client.config_set("maxmemory-policy", "allkeys-lru")
    leads(own.name).prepare(own.site)
    assert "allkeys-lru" in capsys.readouterr().out


# --- a server for each tenant


def test_each_tenant_has_its_own_server_and_one_that_is_away_costs_the_others_nothing(valkey, own):
    url = {"cache-t0": Server(valkey.url), "cache-t2": Server(own.server.url)}
    site = Site(Connections({}, "", servers=url), None, in_company=True)
    sink = leads(own.name, at="cache-{tenant}")
    sink.prepare(site)
    own.server.stop()
    told = own.write(sink, one("a", "x", 1), one("b", "x", 1), one("c", "x", 1), site=site)
    assert codes(told) == [None, "TargetMissing", "SinkUnavailable"]
    assert "there is no connection 'cache-t1'" in told[1].message
