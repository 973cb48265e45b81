"""The drivers' errors, translated."""

import sqlite3

import psycopg
import pytest
from sqlalchemy.exc import DBAPIError

from headrace.databases.addresses import parse
from headrace.errors import HeadraceError, StoreUnavailable, StoreUnusable
from headrace.store.faults import translated

ADDRESS = parse("postgresql://me:s3cret@db/headrace")


def told(error):
    with pytest.raises(HeadraceError) as met, translated(ADDRESS):
        raise error
    return met.value


def postgres(sqlstate):
    return psycopg.errors.lookup(sqlstate)("the server's words")


def sqlite(code):
    error = sqlite3.OperationalError("the driver's words")
    error.sqlite_errorcode = code
    return error


@pytest.mark.parametrize("sqlstate", ["08006", "25006", "40P01", "53100", "55P03", "57P01"])
def test_what_passes_by_itself_on_postgresql_is_temporary(sqlstate):
    error = told(postgres(sqlstate))
    assert isinstance(error, StoreUnavailable)
    assert "postgresql://db/headrace" in str(error)


@pytest.mark.parametrize("sqlstate", ["42P01", "42501", "22021"])
def test_what_stays_on_postgresql_is_for_a_person(sqlstate):
    assert isinstance(told(postgres(sqlstate)), StoreUnusable)


def test_a_server_that_says_nothing_is_temporary():
    assert isinstance(told(psycopg.OperationalError("connection refused")), StoreUnavailable)


@pytest.mark.parametrize(
    ("code", "kind", "words"),
    [
        (sqlite3.SQLITE_BUSY, StoreUnavailable, "lock"),
        (sqlite3.SQLITE_FULL, StoreUnavailable, "disk is full"),
        (sqlite3.SQLITE_IOERR_FSYNC, StoreUnavailable, "disk failed"),
        (sqlite3.SQLITE_READONLY_DBMOVED, StoreUnusable, "read-only"),
        (sqlite3.SQLITE_CORRUPT, StoreUnusable, "backup"),
        (sqlite3.SQLITE_ERROR, StoreUnusable, "refused"),
    ],
)
def test_sqlites_codes_decide_and_not_its_classes(code, kind, words):
    error = told(sqlite(code))
    assert isinstance(error, kind)
    assert words in str(error)


def test_the_drivers_error_is_found_inside_sqlalchemys():
    error = told(DBAPIError("SELECT 1", {}, postgres("55P03")))
    assert isinstance(error, StoreUnavailable)
    assert "SELECT" not in str(error)


def test_a_password_that_a_driver_quotes_is_blotted_out():
    assert "s3cret" not in str(told(psycopg.OperationalError("no user me with s3cret")))


def test_other_errors_pass():
    with pytest.raises(ZeroDivisionError), translated(ADDRESS):
        raise ZeroDivisionError
