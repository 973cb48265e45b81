"""Kinds of columns as types of each database: in tables that are made, and in those that are there.

A type that is there may be narrower than its kind: what it refuses is no matter, since that is
told. What it changes in silence is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import (
    CHAR,
    REAL,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Date,
    DateTime,
    Double,
    Float,
    Integer,
    LargeBinary,
    MetaData,
    Numeric,
    String,
    Table,
    Text,
    Time,
)
from sqlalchemy.dialects import mysql
from sqlalchemy.schema import SchemaItem
from sqlalchemy.types import NullType, TypeEngine

from headrace.connectors.newest import VERSION
from headrace.connectors.sql import mysql_kinds
from headrace.payload.exact import digits_of

#: what the texts of a key may be long in MariaDB and MySQL, all together, and each
_KEY_CHARACTERS = 750
_KEY_TEXT = 255
#: kind of a column -> type in the database
TYPES: Mapping[str, TypeEngine[Any]] = {
    "text": Text().with_variant(mysql.LONGTEXT(), "mysql"),
    "bigint": BigInteger(),
    "double": Double(),
    "boolean": Boolean(),
    "bytes": LargeBinary().with_variant(mysql.LONGBLOB(), "mysql"),
    "timestamp": DateTime(timezone=True).with_variant(
        mysql.DATETIME(fsp=mysql_kinds.MICROSECONDS), "mysql"
    ),
    "date": Date(),
    VERSION: BigInteger(),
}


def type_of(kind: str) -> TypeEngine[Any]:
    """The type in the database of a kind of column.

    SQLite has no decimals: its numbers with a point are floats. There an amount is text, which
    keeps every digit.
    """
    digits = digits_of(kind)
    if digits is not None:
        return Numeric(digits.precision, digits.scale).with_variant(Text(), "sqlite")
    return TYPES[kind]


def narrower_than(kind: str, there: TypeEngine[Any], dialect: str) -> str | None:
    """A type of the database that changes values of a kind in silence, as people call it.

    None if it keeps them all, or refuses those that it does not keep. SQLite makes a float of
    whatever looks like a number, but in a column of text.
    """
    digits = digits_of(kind)
    if dialect == "mysql" and not mysql_kinds.keeps(kind, there):
        return there.compile(dialect=mysql.dialect())
    if digits is None:
        return str(there) if _changes(kind, there, dialect) else None
    if isinstance(there, String):
        return None
    if dialect == "sqlite" or not isinstance(there, Numeric) or isinstance(there, Float):
        return str(there)
    if there.precision is None:
        return None
    scale = there.scale or 0
    whole = there.precision - scale
    keeps = scale >= digits.scale and whole >= digits.precision - digits.scale
    return None if keeps else str(there)


def _changes(kind: str, there: TypeEngine[Any], dialect: str) -> bool:
    if dialect == "mysql":
        return False
    if kind == "text":
        # PostgreSQL fills a CHAR up with blanks; what is too long for a VARCHAR it refuses.
        kept = String | LargeBinary | NullType
        return isinstance(there, CHAR) if dialect == "postgresql" else not isinstance(there, kept)
    if kind in ("bigint", VERSION):
        return isinstance(there, Float)
    # SQLite keeps the rest as it is in a column of any type.
    return dialect == "postgresql" and _rounds(kind, there)


def _rounds(kind: str, there: TypeEngine[Any]) -> bool:
    if kind == "double":
        whole = isinstance(there, Integer | Numeric) and not isinstance(there, Float)
        return whole or isinstance(there, REAL)
    if kind == "timestamp" and isinstance(there, DateTime) and there.timezone:
        precision = getattr(there, "precision", None)
        return precision is not None and precision < mysql_kinds.MICROSECONDS
    return kind == "timestamp" and isinstance(there, Date | Time | DateTime)


def table_of(
    name: str, columns: Mapping[str, str], key: Sequence[str], newest_by: str | None = None
) -> Table:
    """Describe the table; ``key`` becomes its primary key."""
    made: list[SchemaItem] = [
        Column(
            column,
            _type_in_key(kind, len(key)) if column in key else type_of(kind),
            primary_key=column in key,
            nullable=column not in key and column != newest_by,
            autoincrement=False,
        )
        for column, kind in columns.items()
    ]
    # SQLite makes a float of what is too large for a whole number, and keeps it in any column.
    made += [
        CheckConstraint(
            f"typeof({column}) IN ('integer', 'null')", name=f"{column}_is_a_bigint"
        ).ddl_if(dialect="sqlite")
        for column, kind in columns.items()
        if kind == "bigint"
    ]
    return Table(name, MetaData(), *made)


def _type_in_key(kind: str, columns: int) -> TypeEngine[Any]:
    """MariaDB and MySQL have no key over texts of any length."""
    length = min(_KEY_TEXT, _KEY_CHARACTERS // columns)
    if kind == "text":
        return Text().with_variant(mysql.VARCHAR(length), "mysql")
    if kind == "bytes":
        return LargeBinary().with_variant(mysql.VARBINARY(length), "mysql")
    return type_of(kind)
