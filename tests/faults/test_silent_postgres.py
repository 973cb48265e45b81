"""A PostgreSQL that takes what is sent and says nothing, as one that was stopped does."""

import time
from contextlib import closing
from functools import partial

import pytest
from sqlalchemy import text

from headrace.databases.engines import Waits, wait_for_ever
from headrace.errors import OutcomeUnknown, StoreUnavailable
from headrace.store import database as stores
from headrace.store.database import open_database

ASKED = text("SELECT 1")


@pytest.fixture
def database(proxied_url, monkeypatch):
    """One that is given up soon; psycopg waits two seconds at least for a connection."""
    short = partial(Waits, connect_s=2, silence_s=0.5, silence_in_pool_s=1.0)
    monkeypatch.setattr(stores, "Waits", short)
    with closing(open_database(proxied_url, statement_wait_s=1.0)) as database:
        with database.write() as connection:
            connection.execute(text("CREATE TABLE kept (number int)"))
        yield database


@pytest.fixture(autouse=True)
def timed(database, proxy):
    """Nobody waits for long, and all goes on once the server speaks again."""
    since_s = time.monotonic()
    yield
    assert time.monotonic() - since_s < 15
    proxy.passes.set()
    assert read(database) == 1


def read(database, asked=ASKED, *, before=lambda: None):
    with database.read() as connection:
        before()
        return connection.scalar(asked)


def insert(database, then):
    with database.write() as connection:
        connection.execute(text("INSERT INTO kept VALUES (1)"))
        then()


def test_a_statement_without_an_answer_is_given_up(database, proxy):
    with pytest.raises(StoreUnavailable, match="the server has not answered"):
        read(database, before=proxy.passes.clear)


def test_of_a_commit_without_an_answer_it_is_not_known_whether_it_happened(database, proxy):
    with pytest.raises(OutcomeUnknown):
        insert(database, proxy.passes.clear)


def test_a_connection_in_the_pool_that_says_nothing_is_given_up_sooner(database, proxy):
    proxy.passes.clear()
    with pytest.raises(StoreUnavailable):
        read(database)


def test_a_statement_that_takes_long_is_ended_by_the_server(database):
    with pytest.raises(StoreUnavailable, match="took too long"):
        read(database, text("SELECT pg_sleep(30)"))


def test_a_migration_takes_as_long_as_it_takes(database):
    with database.write() as connection:
        wait_for_ever(connection)
        connection.execute(text("SELECT pg_sleep(3)"))
    with pytest.raises(StoreUnavailable, match="took too long"):
        read(database, text("SELECT pg_sleep(3)"))
