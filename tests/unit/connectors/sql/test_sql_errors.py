"""A database's error code decides whether to try again."""

from __future__ import annotations

import sqlite3

import pytest
from sqlalchemy.exc import DBAPIError, OperationalError

from headrace.connectors.sql.errors import translated
from headrace.errors import SinkRefused, SinkUnavailable, TargetMissing


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
    ],
)
def test_a_refused_row_is_permanent(codes):
    assert isinstance(translated(_wrapped(Coded("x", **codes)), "table a"), SinkRefused)


@pytest.mark.parametrize(
    ("said", "codes"),
    [
        ("no such table: a", {"sqlite_errorcode": sqlite3.SQLITE_ERROR}),
        ("table a has no column named b", {"sqlite_errorcode": sqlite3.SQLITE_ERROR}),
        ("x", {"sqlite_errorcode": sqlite3.SQLITE_READONLY_DBMOVED}),
        ("x", {"sqlstate": "42P01"}),
        ("x", {"sqlstate": "42501"}),
        ("x", {"sqlstate": "42804"}),
        ("x", {"sqlstate": "28P01"}),
    ],
)
def test_for_a_table_that_is_gone_or_may_not_be_written_to_no_record_is_to_blame(said, codes):
    assert isinstance(translated(_wrapped(Coded(said, **codes)), "table a"), TargetMissing)


def test_an_operational_error_without_a_code_is_a_lost_connection():
    assert isinstance(translated(_wrapped(Coded("gone"), OperationalError), "t"), SinkUnavailable)


def test_a_client_that_cannot_send_a_value_has_refused_it():
    assert isinstance(translated(_wrapped(Coded("NUL")), "t"), SinkRefused)


def test_the_values_that_postgresql_quotes_are_left_out():
    error = Coded("duplicate key\nDETAIL: Key (lead)=(jane@acme.org)", sqlstate="23505")
    assert str(translated(_wrapped(error), "table a")) == "table a: duplicate key"
