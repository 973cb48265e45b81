"""One tenant's own database is slow: how long the others wait, and who pays for it."""

import re
import socket
import threading
import time
from contextlib import ExitStack, closing
from dataclasses import replace

import psycopg
import pytest
from tenants_world import World, effect

from headrace.connectors import tenants
from headrace.connectors.sql import servers
from headrace.databases.deadline import Deadline
from headrace.databases.engines import Waits
from headrace.databases.patience import PatientConnection

SLOW = "TenantsSinkSlow"


@pytest.fixture
def world(tmp_path):
    servers._targets.held.clear()
    return World(tmp_path)


@pytest.fixture
def hasty(monkeypatch):
    """A fifth of the seconds that there are else."""
    for name in ("MOMENT_S", "LEAST_S", "ONCE_S", "ALL_S", "LONG_S"):
        monkeypatch.setattr(tenants, name, getattr(tenants, name) / 5)


def waits_s(monkeypatch, lock_s):
    monkeypatch.setattr(servers, "Waits", lambda: Waits(lock_s=lock_s))
    servers._targets.held.clear()


def codes(told):
    return ["untried" if one.untried else one.error and one.error.code for one in told]


def test_a_database_that_is_away_is_waited_for_alone(world, monkeypatch):
    world.write(effect("acme"), effect("bolt"))
    monkeypatch.setattr(tenants, "LONG_S", 10.0)
    waits_s(monkeypatch, 0.1)
    with world.locked("acme"):
        told = world.write(effect("acme", first=9), effect("bolt", first=9))
    assert [one.error and one.error.temporary for one in told] == [True, None]
    assert told[0].error.code == "SinkUnavailable", "it held up nobody"


def test_one_that_held_others_up_is_told_as_such_and_pays_for_it_alone(world, monkeypatch):
    world.write(effect("acme"), effect("bolt"))
    monkeypatch.setattr(tenants, "LONG_S", 0.2)
    waits_s(monkeypatch, 0.4)
    with world.locked("acme"):
        told = world.write(effect("acme", first=9), effect("bolt", first=9), effect("acme"))
    assert codes(told) == [SLOW, None, SLOW]
    assert told[0].error.temporary
    assert told[0].seconds == told[2].seconds > 0.2
    assert 0.0 < told[1].seconds < told[0].seconds


def test_in_company_it_has_a_moment_and_alone_as_long_as_any(world, monkeypatch, hasty):
    world.write(effect("acme"))
    waits_s(monkeypatch, 2.0)
    took_s = []
    with world.locked("acme"):
        for in_company in (True, False):
            began_s = time.monotonic()
            (told,) = world.write(effect("acme", first=9), in_company=in_company)
            took_s.append(time.monotonic() - began_s)
            assert told.error.temporary
    assert 0.3 <= took_s[0] < 2.0 <= took_s[1]
    assert len(servers._targets.held) == 1, "the same connections serve both"


def test_however_many_are_slow_the_others_wait_a_few_seconds(world, hasty):
    names = [f"t{number:02}" for number in range(14)]
    world.write(*map(effect, names))
    with ExitStack() as locks:
        for name in names[:9]:
            locks.enter_context(world.locked(name))
        waiting, rounds = names, []
        while waiting:
            told = world.write(*(effect(name, "b", 9) for name in waiting), in_company=True)
            found = dict(zip(waiting, codes(told), strict=True))
            rounds.append(found)
            waiting = [name for name, code in found.items() if code == "untried"]
    assert "untried" in rounds[0].values(), "else all nine have had their time"
    assert {name for found in rounds for name, code in found.items() if code == SLOW} == set(
        names[:9]
    ), "who is slow is named, and nobody else"
    assert rounds[-1][names[-1]] is None
    assert all(len(world.rows(name)) == 2 for name in names[9:])
    assert all(len(world.rows(name)) == 1 for name in names[:9])


def once(name):
    return replace(effect(name, "b", 9), may_repeat=False)


def test_what_has_one_chance_has_its_moment_however_many_are_slow(world, hasty):
    names = ["acme", "bolt", "cove", "dune"]
    world.write(*map(effect, names))
    with world.locked("acme"), world.locked("bolt"), world.locked("cove"):
        began_s = time.monotonic()
        told = world.write(*map(once, names), in_company=True)
        took_s = time.monotonic() - began_s
    assert codes(told) == [SLOW, SLOW, SLOW, None]
    assert tenants.MOMENT_S * 0.75 < took_s < tenants.MOMENT_S * 2, "their moments add up"


def test_those_with_one_chance_have_one_time_in_all_and_hear_it_where_that_is_over(world, hasty):
    names = [f"t{number:02}" for number in range(4 * tenants.AT_A_TIME)]
    world.write(*map(effect, names))
    with ExitStack() as locks:
        for name in names[:-1]:
            locks.enter_context(world.locked(name))
        began_s = time.monotonic()
        told = world.write(*map(once, names), in_company=True)
        took_s = time.monotonic() - began_s
    assert took_s < tenants.ONCE_S + tenants.MOMENT_S
    assert codes(told[: tenants.AT_A_TIME]) == [SLOW] * tenants.AT_A_TIME
    assert "others of its bin took the time" in told[-1].error.message
    assert told[-1].error.code == "SinkUnavailable", "it is not to blame"


@pytest.mark.parametrize("kind", ["postgresql", "mariadb"])
def test_in_company_a_server_that_never_lets_in_is_given_up_soon(kind, hasty):
    with closing(socket.create_server(("127.0.0.1", 0), backlog=50)) as silent:
        url = f"{kind}://me:pw@127.0.0.1:{silent.getsockname()[1]}/{{tenant}}"
        world = World(None, history=url)
        began_s = time.monotonic()
        told = world.write(effect("acme"), in_company=True)
        assert time.monotonic() - began_s < 5.0, "alone it has ten"
    assert codes(told) == [SLOW]
    # The client gives up after as long, and where it was the first it says so itself.
    assert re.search("did not let in|timed out", told[0].error.message)


def test_a_name_server_that_says_nothing_has_no_more_time(monkeypatch, hasty):
    """The client asks it with no limit that anybody could set."""
    answers, closed = threading.Event(), threading.Event()

    class Late:
        def close(self):
            closed.set()

    def connect(*_, **__):
        answers.wait(10.0)
        return Late()

    monkeypatch.setattr(PatientConnection, "connect", connect)
    world = World(None, history="postgresql://me@{tenant}.example/history")
    began_s = time.monotonic()
    told = world.write(effect("acme"), in_company=True)
    assert time.monotonic() - began_s < 5.0, "alone it has ten"
    assert codes(told) == [SLOW]
    answers.set()
    assert closed.wait(5.0), "who comes late closes what nobody waits for"


def test_what_keeps_a_client_from_connecting_is_told_as_it_is():
    def refuse():
        raise psycopg.OperationalError("no such host")

    deadline = Deadline()
    with deadline.until(time.monotonic() + 5.0), pytest.raises(psycopg.Error, match="no such host"):
        deadline.connected(refuse)
    with deadline.until(time.monotonic() + 5.0):
        assert deadline.connected(lambda: 7) == 7
