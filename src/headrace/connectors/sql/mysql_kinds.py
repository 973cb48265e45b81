"""Which types of MariaDB and MySQL keep what they are given, or refuse it.

They turn almost anything into almost anything: a text into a number, a number into a day. So a kind
of column names the types that it may have; all others change values in silence.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy.dialects import mysql
from sqlalchemy.types import Boolean, Date, DateTime, Float, Integer, LargeBinary, Numeric, String

#: digits after the second that the databases keep
MICROSECONDS = 6
#: these fill up, round, have a list of what they take, end in 2038 or take a null for now
_CHANGING = (
    mysql.CHAR,
    mysql.NCHAR,
    mysql.ENUM,
    mysql.SET,
    mysql.YEAR,
    mysql.TIMESTAMP,
    mysql.TIME,
    mysql.JSON,
)
_BINARY = (
    LargeBinary,
    mysql.VARBINARY,
    mysql.TINYBLOB,
    mysql.BLOB,
    mysql.MEDIUMBLOB,
    mysql.LONGBLOB,
)


def _is_exact(there: Any) -> bool:
    return isinstance(there, Integer | Numeric | String) and not isinstance(there, Float)


#: kind of a column -> whether a type keeps it; amounts are kept by what is exact
_KEEPING: Mapping[str, Callable[[Any], bool]] = {
    "text": lambda there: isinstance(there, (String, *_BINARY)),
    "bytes": lambda there: isinstance(there, _BINARY),
    "double": lambda there: isinstance(there, mysql.DOUBLE) and there.scale is None,
    "boolean": lambda there: isinstance(there, Boolean | Integer | mysql.BIT),
    "timestamp": lambda there: isinstance(there, mysql.DATETIME) and there.fsp == MICROSECONDS,
    "date": lambda there: isinstance(there, Date | DateTime),
}


def keeps(kind: str, there: Any) -> bool:
    """Whether a column of this type keeps each value of a kind as it is, or refuses it."""
    return not isinstance(there, _CHANGING) and _KEEPING.get(kind, _is_exact)(there)
