"""How far each lane has come in a database that is not the store: a row for each lane.

It is locked before anything is written for the lane, and written with it. PostgreSQL does all lanes
of a group in one statement, in the order of their keys, so that two groups wait for each other and
never lock each other out; SQLite has one writer a file, and a statement costs nothing.

MariaDB and MySQL have statements of their own (`mysql_marks.py`).

Places are as wide as their log needs: of any number of digits in PostgreSQL, text elsewhere. Tables
that an earlier version made hold 64 bits; they are not altered here, since they may be somebody
else's, and hold whatever fits. What does not is refused with what to do.

What a row means for whom is decided in `elsewhere.py`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from sqlalchemy import BigInteger, Column, Connection, MetaData, Numeric, Table, Text
from sqlalchemy.dialects import mysql
from sqlalchemy.types import TypeEngine

from headrace.connectors.sql import mysql_marks
from headrace.errors import TargetMissing
from headrace.model.places import NARROW, Place, read_place, text_of

#: characters of a lane's name in MariaDB and MySQL
_LANE = 500
_PLACE = Numeric().with_variant(Text(), "sqlite").with_variant(mysql.VARCHAR(255), "mysql")


def _name(length: int) -> TypeEngine[str]:
    """MariaDB and MySQL have keys of 768 characters."""
    return Text().with_variant(mysql.VARCHAR(length), "mysql")


MARKS = Table(
    "headrace_written",
    MetaData(),
    #: whose lanes: of which store
    Column("installation", _name(32), primary_key=True),
    Column("use_case", _name(96), primary_key=True),
    Column("tenant", _name(96), primary_key=True),
    Column("lane", _name(_LANE), primary_key=True),
    Column("epoch", BigInteger, nullable=False),
    Column("wave", _name(255), nullable=False),
    Column("from_offset", _PLACE, nullable=False),
    Column("reached", _PLACE, nullable=False),
)

_TAKE_ONE = """
SELECT epoch, wave, from_offset, reached FROM headrace_written
WHERE installation = ? AND use_case = ? AND tenant = ? AND lane = ?
"""
_LEAVE_ONE = """
INSERT INTO headrace_written
    (installation, use_case, tenant, lane, epoch, wave, from_offset, reached)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (installation, use_case, tenant, lane) DO UPDATE SET
    epoch = excluded.epoch, wave = excluded.wave,
    from_offset = excluded.from_offset, reached = excluded.reached
"""
_TAKE_ALL = """
SELECT m.installation, m.use_case, m.tenant, m.lane, m.epoch, m.wave, m.from_offset, m.reached
FROM headrace_written m JOIN unnest(%s::text[], %s::text[], %s::text[], %s::text[])
    AS l (installation, use_case, tenant, lane)
    USING (installation, use_case, tenant, lane)
ORDER BY m.installation, m.use_case, m.tenant, m.lane
FOR UPDATE OF m
"""
# A row that is there can be locked, also by whoever comes first.
_MAKE_ALL = """
INSERT INTO headrace_written
    (installation, use_case, tenant, lane, epoch, wave, from_offset, reached)
SELECT installation, use_case, tenant, lane, 0, '', 0, 0
FROM unnest(%s::text[], %s::text[], %s::text[], %s::text[])
    AS l (installation, use_case, tenant, lane)
ORDER BY installation, use_case, tenant, lane
ON CONFLICT DO NOTHING
"""
_LEAVE_ALL = """
UPDATE headrace_written m SET
    epoch = l.epoch, wave = l.wave, from_offset = l.from_offset, reached = l.reached
FROM unnest(
    %s::text[], %s::text[], %s::text[], %s::text[],
    %s::bigint[], %s::text[], %s::numeric[], %s::numeric[]
) AS l (installation, use_case, tenant, lane, epoch, wave, from_offset, reached)
WHERE m.installation = l.installation AND m.use_case = l.use_case
  AND m.tenant = l.tenant AND m.lane = l.lane
"""

_KIND_IN_SQLITE = "SELECT type FROM pragma_table_info('headrace_written') WHERE name = 'reached'"
_KIND_IN_POSTGRESQL = "SELECT CAST(pg_typeof(reached) AS text) FROM headrace_written LIMIT 1"
_KINDS = {
    "sqlite": _KIND_IN_SQLITE,
    "postgresql": _KIND_IN_POSTGRESQL,
    "mysql": mysql_marks.KIND,
}
_TO_WIDEN = (
    "ALTER TABLE headrace_written ALTER COLUMN from_offset TYPE numeric, "
    "ALTER COLUMN reached TYPE numeric"
)


class LaneKey(NamedTuple):
    """A lane, as it is known in a database that several installations may write to."""

    installation: str
    use_case: str
    tenant: str
    lane: str


class Mark(NamedTuple):
    """The last that was written for a lane: of which wave, from where to where, by whom."""

    epoch: int
    wave_id: str
    from_offset: Place
    reached: Place


def take(connection: Connection, lanes: Collection[LaneKey]) -> dict[LaneKey, Mark]:
    """Lock the rows of lanes until the transaction ends, and read them.

    Raises:
        TargetMissing: the table cannot keep the name of one.
    """
    if not lanes:
        return {}
    if connection.dialect.name == "sqlite":
        # The transaction began as a writer, so the whole file is locked.
        found = {lane: connection.exec_driver_sql(_TAKE_ONE, lane).first() for lane in lanes}
        return {lane: _mark(*row) for lane, row in found.items() if row is not None}
    if connection.dialect.name == "mysql":
        taken = mysql_marks.take(connection, sorted(lanes), _LANE)
        return {LaneKey(*row[:4]): _mark(*row[4:]) for row in taken}
    columns = _columns(lanes)
    rows = connection.exec_driver_sql(_TAKE_ALL, columns).all()
    if len(rows) < len(lanes):
        connection.exec_driver_sql(_MAKE_ALL, columns)
        rows = connection.exec_driver_sql(_TAKE_ALL, columns).all()
    return {LaneKey(*row[:4]): _mark(*row[4:]) for row in rows}


def leave(connection: Connection, marks: Mapping[LaneKey, Mark]) -> None:
    """Write the rows of lanes, all of which were taken.

    Raises:
        TargetMissing: the table has no room for places of so many digits.
    """
    if not marks:
        return
    if any(mark.reached > NARROW for mark in marks.values()):
        _demand_width(connection)
    rows = [(*lane, *_row(connection, mark)) for lane, mark in marks.items()]
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql(_LEAVE_ONE, rows)
    elif connection.dialect.name == "mysql":
        mysql_marks.leave(connection, sorted(rows))
    else:
        connection.exec_driver_sql(_LEAVE_ALL, _columns(rows))


def _mark(epoch: int, wave_id: str, from_offset: object, reached: object) -> Mark:
    # A number, a decimal or text, as the table was made.
    return Mark(epoch, wave_id, read_place(str(from_offset)), read_place(str(reached)))


def _row(connection: Connection, mark: Mark) -> tuple[object, ...]:
    if connection.dialect.name == "postgresql":
        return mark
    # The others have no room for a number of more digits; SQLite keeps text as one where it fits.
    return mark.epoch, mark.wave_id, text_of(mark.from_offset), text_of(mark.reached)


def _demand_width(connection: Connection) -> None:
    kind = connection.exec_driver_sql(_KINDS[connection.dialect.name]).scalar()
    if str(kind).casefold() in ("text", "numeric", "varchar"):
        return
    widen = "rename it, and the next deploy makes another"
    if connection.dialect.name == "postgresql":
        widen = f"run '{_TO_WIDEN}'"
    raise TargetMissing(
        "headrace_written is of an earlier version and holds places of 64 bits, and this log has "
        f"wider ones: {widen}"
    )


def _columns(rows: Collection[tuple[object, ...]]) -> tuple[list[object], ...]:
    return tuple(list(column) for column in zip(*rows, strict=True))
