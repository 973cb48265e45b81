"""How far each lane has come, in a MariaDB or MySQL.

Rows are made or locked in one statement, in the order of their keys, so that two groups wait for
each other and never lock each other out, and read in another: one that locked what it finds would
lock what it passes as well, where it takes the whole table for quicker.

What a row means is said in `marks.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

from sqlalchemy import Connection

from headrace.errors import TargetMissing

_LEAVE = """
INSERT INTO headrace_written
    (installation, use_case, tenant, lane, epoch, wave, from_offset, reached)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s)
ON DUPLICATE KEY UPDATE
    epoch = VALUES(epoch), wave = VALUES(wave),
    from_offset = VALUES(from_offset), reached = VALUES(reached)
"""
# It changes nothing of a row that is there, and locks it.
_MAKE = """
INSERT INTO headrace_written
    (installation, use_case, tenant, lane, epoch, wave, from_offset, reached)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s)
ON DUPLICATE KEY UPDATE epoch = headrace_written.epoch
"""
_READ = """
SELECT installation, use_case, tenant, lane, epoch, wave, from_offset, reached
FROM headrace_written WHERE
"""
_ONE = "(installation = %s AND use_case = %s AND tenant = %s AND lane = %s)"
#: lanes that are named in one statement there
_AT_ONCE = 200

KIND = """
SELECT data_type FROM information_schema.columns
WHERE table_schema = DATABASE() AND table_name = 'headrace_written' AND column_name = 'reached'
"""


def take(
    connection: Connection, lanes: Sequence[tuple[str, ...]], longest: int
) -> list[Sequence[Any]]:
    """Lock the rows of lanes, which come in order, and read them, key first.

    Raises:
        TargetMissing: a lane's name is longer than a key may be, or the table, which somebody made,
            gives names back as others.
    """
    long = next((lane[-1] for lane in lanes if len(lane[-1]) > longest), None)
    if long is not None:
        raise TargetMissing(f"headrace_written has no room for the name of lane {long[:80]}...")
    connection.exec_driver_sql(_MAKE, [(*lane, 0, "", "0", "0") for lane in lanes])
    found: list[Sequence[Any]] = []
    for first in range(0, len(lanes), _AT_ONCE):
        some = lanes[first : first + _AT_ONCE]
        query = _READ + " OR ".join([_ONE] * len(some))
        found += connection.exec_driver_sql(query, tuple(chain.from_iterable(some))).all()
    if {tuple(row[:4]) for row in found} != {tuple(lane) for lane in lanes}:
        raise TargetMissing(
            "headrace_written gives names of lanes back as others: its columns have to be VARCHAR"
        )
    return found


def leave(connection: Connection, rows: Sequence[tuple[Any, ...]]) -> None:
    """Write the rows of lanes, which come in order; all of them were taken."""
    connection.exec_driver_sql(_LEAVE, list(rows))
