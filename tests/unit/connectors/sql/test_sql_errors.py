"""A database's error code decides whether to try again."""

from __future__ import annotations

import sqlite3

import pytest
from sqlalchemy.exc import DBAPIError, OperationalError

from headrace.connectors.sql.errors import translated
from headrace.errors import SinkRefused, SinkUnavailable


class Coded(Exception):
    def __init__(self, text, **codes):
        super().__init__(text)
        self.__dict__.update(codes)


def _wrapped(original, kind=DBAPIError):
    return kind("INSERT", (), original)


@pytest.mark.parametrize(
    "codes",
    [
        {"sqlite_errorcode": sqlite3.SQLITE_BUSY},
        {"sqlite_errorcode": sqlite3.SQLITE_BUSY_SNAPSHOT},
        {"sqlite_errorcode": sqlite3.SQLITE_FULL},
        {"sqlstate": "40P01"},
        {"sqlstate": "57P01"},
        {"sqlstate": "53100"},
    ],
)
def test_a_busy_full_or_stopped_database_is_temporary(codes):
    assert isinstance(translated(_wrapped(Coded("x", **codes)), "table a"), SinkUnavailable)


@pytest.mark.parametrize(
    "codes",
    [
        {"sqlite_errorcode": sqlite3.SQLITE_CONSTRAINT_NOTNULL},
        {"sqlite_errorcode": sqlite3.SQLITE_ERROR},
        {"sqlstate": "23505"},
        {"sqlstate": "42P01"},
    ],
)
def test_a_refused_row_or_a_missing_table_is_permanent(codes):
    assert isinstance(translated(_wrapped(Coded("x", **codes)), "table a"), SinkRefused)


def test_an_operational_error_without_a_code_is_a_lost_connection():
    assert isinstance(translated(_wrapped(Coded("gone"), OperationalError), "t"), SinkUnavailable)


def test_a_client_that_cannot_send_a_value_has_refused_it():
    assert isinstance(translated(_wrapped(Coded("NUL")), "t"), SinkRefused)


def test_the_values_that_postgresql_quotes_are_left_out():
    error = Coded("duplicate key\nDETAIL: Key (lead)=(jane@acme.org)", sqlstate="23505")
    assert str(translated(_wrapped(error), "table a")) == "table a: duplicate key"
