"""State of keys beside the positions: rows of bytes, written in the transaction that moves these.

A position moves by compare-and-set, and whoever moves it holds its row until the commit. So what a
lane's records make of its state is written by one at a time, and needs no lock of its own: a part
that several buckets share has each key in one of them. Reading is not locked either: rows are read
first and the position after them, and a position that stands where it stood was never elsewhere
meanwhile, as it only goes forward within an epoch.

On PostgreSQL many keys are one statement, with arrays, up to so many bytes; nothing that changes is
in an index, and pages keep room so that an update stays on its own.

How much a stream has is counted by lane, so that no two lanes wait for each other. A lane that is
forgotten leaves its count behind for as long as its part has a lane.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from sqlalchemy import Connection, delete, inspect, select

from headrace.model.buckets import whole_lane
from headrace.model.places import Place, text_of
from headrace.model.records import Move
from headrace.model.state import StateChanges, StateLoaded, StateSize
from headrace.model.streams import StreamId
from headrace.policies.state_sent import forgotten
from headrace.store.pairs import matching, of, portions
from headrace.store.schema import positions, state_rows, state_sizes

_FIND = """
SELECT key, value FROM headrace_state
WHERE use_case = %s AND tenant = %s AND part = %s AND name = %s AND key = ANY(%s::bytea[])
"""
_STANDS = """
SELECT coalesce(sum(row_count), 0), coalesce(sum(byte_count), 0),
    (SELECT count(*) FROM headrace_positions
     WHERE use_case = ? AND tenant = ? AND lane = ? AND next_offset = ? AND epoch = ?)
FROM headrace_state_sizes WHERE use_case = ? AND tenant = ?
"""
_SAVE_ONE = """
INSERT INTO headrace_state (use_case, tenant, part, name, key, value) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (use_case, tenant, part, name, key) DO UPDATE SET value = excluded.value
"""
_SAVE_ALL = """
INSERT INTO headrace_state (use_case, tenant, part, name, key, value)
SELECT * FROM unnest(%s::text[], %s::text[], %s::text[], %s::text[], %s::bytea[], %s::bytea[])
ON CONFLICT (use_case, tenant, part, name, key) DO UPDATE SET value = excluded.value
"""
_DROP_ONE = """
DELETE FROM headrace_state
WHERE use_case = ? AND tenant = ? AND part = ? AND name = ? AND key = ?
"""
_DROP_ALL = """
DELETE FROM headrace_state s
USING unnest(%s::text[], %s::text[], %s::text[], %s::text[], %s::bytea[])
    AS d (use_case, tenant, part, name, key)
WHERE s.use_case = d.use_case AND s.tenant = d.tenant AND s.part = d.part AND s.name = d.name
    AND s.key = d.key
"""
_GROW_ONE = """
INSERT INTO headrace_state_sizes (use_case, tenant, lane, row_count, byte_count)
VALUES (?, ?, ?, ?, ?)
ON CONFLICT (use_case, tenant, lane) DO UPDATE
SET row_count = headrace_state_sizes.row_count + excluded.row_count,
    byte_count = headrace_state_sizes.byte_count + excluded.byte_count
"""
_GROW_ALL = _GROW_ONE.replace(
    "VALUES (?, ?, ?, ?, ?)",
    "SELECT * FROM unnest(%s::text[], %s::text[], %s::text[], %s::bigint[], %s::bigint[])",
)
_Row = tuple[object, ...]
#: of rows, that one statement brings; a row may be larger by itself
AT_ONCE_BYTES = 4 * 1024 * 1024
#: lanes of which one is looked for that has a row of a table
_LOOKS = 1_000


def load(connection: Connection, at: Move, table: str, keys: Sequence[bytes]) -> StateLoaded | None:
    """Rows of a table by their keys; None where the lane does not stand where it is said to."""
    found = dict(_found(connection, at, table, keys))
    lane, stands = at.lane, text_of(at.from_offset)
    asked = (*lane, stands, at.epoch, *lane.stream)
    rows, bytes_, is_there = connection.exec_driver_sql(_said(connection, _STANDS), asked).one()
    return StateLoaded(found, StateSize(int(rows), int(bytes_))) if is_there else None


def sample(connection: Connection, use_case: str, table: str) -> tuple[bytes, bytes] | None:
    """Key and row of one of a table, of whichever stream; None where none was found.

    The table is no beginning of an index, so it is asked lane by lane, and of the first thousand.
    Who deploys may be the first who asks this store, which has no tables then.
    """
    if not inspect(connection).has_table(state_sizes.name):
        return None
    sizes = select(state_sizes.c.tenant, state_sizes.c.lane).where(
        state_sizes.c.use_case == use_case, state_sizes.c.row_count > 0
    )
    lanes = connection.execute(sizes.limit(_LOOKS)).all()
    for tenant, part in dict.fromkeys((tenant, whole_lane(lane)) for tenant, lane in lanes):
        column = state_rows.c
        here = (column.use_case == use_case) & (column.tenant == tenant) & (column.part == part)
        one = select(column.key, column.value).where(here, column.name == table).limit(1)
        if found := connection.execute(one).first():
            return bytes(found.key), bytes(found.value)
    return None


def save(connection: Connection, states: Sequence[StateChanges]) -> None:
    """Change rows, each table and key once, and count what there is."""
    assert connection.in_transaction(), "state changes only inside a transaction"
    kept: list[_Row] = []
    gone: list[_Row] = []
    sizes: list[_Row] = []
    for state in sorted(states, key=lambda state: state.lane):
        lane = state.lane
        for (table, key), row in state.rows.items():
            at = (*lane.stream, state.part, table, key)
            if row is None:
                gone.append(at)
            else:
                kept.append((*at, row))
        if state.rows:
            sizes.append((*lane, *state.grows))
    _each(connection, _SAVE_ONE, _SAVE_ALL, kept)
    _each(connection, _DROP_ONE, _DROP_ALL, gone)
    _each(connection, _GROW_ONE, _GROW_ALL, sizes)


def sent(
    connection: Connection,
    stream: StreamId,
    before: Mapping[str, Place],
    offsets: Mapping[str, Place],
    other: Collection[str],
    *,
    forget: bool,
) -> None:
    """Forget state that a seek leaves behind, or refuse the seek, as ``state_sent`` says.

    Raises:
        ConfigError: see ``forgotten``.
    """
    if known := parts(connection, stream):
        gone = forgotten(stream, known, before, offsets, other, forget=forget)
        _forget(connection, stream, gone)


def forget_streams(connection: Connection, streams: Collection[StreamId]) -> None:
    """Forget all state of streams that lose their positions."""
    for table in (state_rows, state_sizes):
        for some in matching(table, streams):
            connection.execute(delete(table).where(some))


def forget_gone(connection: Connection, stream: StreamId, gone: Iterable[str]) -> None:
    """Forget the state of lanes that are no more, unless another lane is of the same part."""
    known = parts(connection, stream)
    if not known:
        return
    left = connection.scalars(select(positions.c.lane).where(of(positions, stream)))
    _forget(connection, stream, (known & set(map(whole_lane, gone))) - set(map(whole_lane, left)))


def parts(connection: Connection, stream: StreamId) -> set[str]:
    """The parts that ever had state."""
    lanes = connection.scalars(select(state_sizes.c.lane).where(of(state_sizes, stream)))
    return set(map(whole_lane, lanes))


def _found(
    connection: Connection, at: Move, table: str, keys: Sequence[bytes]
) -> Iterable[tuple[bytes, bytes]]:
    part = (*at.lane.stream, whole_lane(at.lane.name), table)
    if connection.dialect.name != "sqlite":
        for key, row in connection.exec_driver_sql(_FIND, (*part, list(keys))):
            yield bytes(key), bytes(row)
        return
    for some in portions(keys):
        holes = ", ".join("?" * len(some))
        asked = _FIND.replace("%s", "?").replace("= ANY(?::bytea[])", f"IN ({holes})")
        yield from ((key, row) for key, row in connection.exec_driver_sql(asked, (*part, *some)))


def _each(connection: Connection, one: str, at_once: str, rows: Sequence[_Row]) -> None:
    if not rows:
        return
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql(one, list(rows))
        return
    for some in pieces(rows):
        columns = tuple(list(column) for column in zip(*some, strict=True))
        connection.exec_driver_sql(at_once, columns)


def pieces(rows: Sequence[_Row]) -> Iterator[Sequence[_Row]]:
    """As many at a time as one statement may bring: what is sent, both sides have in memory."""
    begin = size = 0
    for number, row in enumerate(rows):
        own = sum(len(value) for value in row if isinstance(value, bytes | str))
        if size and size + own > AT_ONCE_BYTES:
            yield rows[begin:number]
            begin, size = number, 0
        size += own
    yield rows[begin:]


def _said(connection: Connection, statement: str) -> str:
    is_sqlite = connection.dialect.name == "sqlite"
    return statement if is_sqlite else statement.replace("?", "%s")


def _forget(connection: Connection, stream: StreamId, gone: Collection[str]) -> None:
    if not gone:
        return
    rows = state_rows.c.part.in_(sorted(gone))
    connection.execute(delete(state_rows).where(of(state_rows, stream), rows))
    lanes = connection.scalars(select(state_sizes.c.lane).where(of(state_sizes, stream)))
    theirs = sorted(lane for lane in lanes if whole_lane(lane) in gone)
    for some in portions(theirs):
        of_part = state_sizes.c.lane.in_(list(some))
        connection.execute(delete(state_sizes).where(of(state_sizes, stream), of_part))
