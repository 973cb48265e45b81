"""What a handler sees of its state in one call, and what becomes of it.

A handler may be called again on a part of its records: to find a bad one, or behind one that was
set aside. So state goes in and comes out as a value: each call is given what was kept, with what
the calls before it made of it that count, and its own changes count only if its answer does. What
was asked of the store for a portion is asked once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from headrace.errors import ConfigError, StateFull
from headrace.model.state import (
    MOST_STATE,
    NOTHING,
    StateChanges,
    StateKey,
    StateLoaded,
    StateSize,
    size_of,
)
from headrace.model.streams import LaneId
from headrace.state.copies import KnownState
from headrace.state.tables import StateTable

#: rows of a table by their keys, and how much there is in all
Load = Callable[[str, Sequence[bytes]], StateLoaded]
_Rows = dict[StateKey, bytes | None]


def _nothing(table: str, keys: Sequence[bytes]) -> StateLoaded:
    """What is kept where nothing is, as in a test of a handler."""
    del table, keys
    return StateLoaded({}, NOTHING)


@dataclass(slots=True)
class PortionState:
    """State as the records of one portion find it."""

    tables: Mapping[str, StateTable]
    load: Load = _nothing
    #: whether a key is that of one of its records
    owns: Callable[[bytes], bool] = lambda key: True
    #: what a tenant may have
    most: StateSize = MOST_STATE
    #: what was raised where state was asked for or read, whatever the handler made of it
    trouble: Exception | None = None
    #: a store is asked just now, or was when what asked was ended
    asks: bool = False
    #: as of where it begins
    known: KnownState = field(default_factory=KnownState)
    #: the store was asked for this portion
    _is_told: bool = False
    #: by calls whose answers count, and by the last one
    _changed: _Rows = field(default_factory=dict)
    _last: _Rows = field(default_factory=dict)

    def begin(self) -> State:
        """State for one more call."""
        self.asks = False
        return State(self)

    def answered(self, call: State) -> None:
        """A call is over.

        Raises:
            HeadraceError: what was raised where state was asked for.
        """
        call.is_over = True
        if self.trouble is not None:
            raise self.trouble
        self._last = call.changed

    def go_on(self) -> None:
        """The answer of the last call counts: the next one finds what it changed."""
        self._changed |= self._last

    def find(self, table: str, keys: Collection[bytes]) -> None:
        """Ask for rows that nobody asked for yet.

        Raises:
            HeadraceError: nobody knows, or the lane moved on; then and for the rest of the portion.
        """
        if self.trouble is not None:
            raise self.trouble
        new = [key for key in dict.fromkeys(keys) if StateKey(table, key) not in self.known.rows]
        if new:
            self._ask(table, new)

    def more_since(self, table: str) -> StateSize:
        """How much more the tenant has than was known where the portion begins; asked once.

        Raises:
            HeadraceError: as ``find``.
        """
        before = self.known.size
        if not self._is_told:
            self._ask(table, [])
        now = self.known.size
        return StateSize(now.rows - before.rows, now.bytes - before.bytes)

    def _ask(self, table: str, keys: Sequence[bytes]) -> None:
        self.asks = True
        try:
            loaded = self.load(table, keys)
        except Exception as error:
            self.trouble, self.asks = error, False
            raise
        self.asks, self._is_told = False, True
        rows = {StateKey(table, key): loaded.rows.get(key) for key in keys}
        self.known.told(rows, loaded.size, time.monotonic())

    def row(self, key: StateKey) -> bytes | None:
        """A row as a new call finds it."""
        return self._changed[key] if key in self._changed else self.known.rows[key]

    def size(self) -> StateSize:
        """How much the tenant has, as a new call finds it."""
        return self.known.size.plus(self._grown(self._changed))

    def changes(self, lane: LaneId) -> StateChanges:
        """What goes with the position: only what is not as it was kept."""
        rows = {key: row for key, row in self._changed.items() if row != self.known.rows[key]}
        return StateChanges(lane, rows, self._grown(rows))

    def _grown(self, rows: Mapping[StateKey, bytes | None]) -> StateSize:
        grown = NOTHING
        for key, row in rows.items():
            grown = grown.plus(_more(key, self.known.rows[key], row))
        return grown


def _more(key: StateKey, before: bytes | None, after: bytes | None) -> StateSize:
    was, now = size_of(key, before), size_of(key, after)
    return StateSize(now.rows - was.rows, now.bytes - was.bytes)


def _is_over(size: StateSize, grown: StateSize, most: StateSize) -> bool:
    """Whether it is more than there may be, and than there was."""
    more = (grown.rows > size.rows, grown.bytes > size.bytes)
    over = (grown.rows > most.rows, grown.bytes > most.bytes)
    return any(map(all, zip(more, over, strict=True)))


class State(Mapping[str, "TableState"]):
    """``context.state``: the tables that the use case declares, by name."""

    def __init__(self, portion: PortionState | None = None) -> None:
        """Take what the portion has; None: the use case declares no state."""
        self.portion = portion or PortionState({})
        self._size: StateSize | None = None
        #: by this call
        self.changed: _Rows = {}
        #: what is changed from now on would count nowhere, and what is read may be of before
        self.is_over = False

    @classmethod
    def of(cls, *tables: StateTable) -> State:
        """An empty one, for a test that calls a handler itself."""
        return cls(PortionState({table.name: table for table in tables}))

    def __getitem__(self, name: str) -> TableState:
        """A table.

        Raises:
            ConfigError: the use case declares none of this name.
        """
        table = self.portion.tables.get(name)
        if table is None:
            known = ", ".join(self.portion.tables) or "none"
            raise ConfigError(f"the use case declares no state table {name!r}; it has {known}")
        return TableState(self, table)

    def __iter__(self) -> Iterator[str]:
        """The names of the tables."""
        return iter(self.portion.tables)

    def __len__(self) -> int:
        """How many tables there are."""
        return len(self.portion.tables)

    def find(self, table: StateTable, keys: Sequence[bytes]) -> list[bytes | None]:
        """Rows as they are now, in order.

        Raises:
            ConfigError: its call is over, as of one that a handler has kept somewhere.
        """
        if self.is_over:
            raise ConfigError(
                f"state table {table.name!r} is that of a call which is over: take context.state "
                "in each call, and leave it to no global variable and no thread that goes on"
            )
        self.portion.find(table.name, keys)
        return [self._now(StateKey(table.name, key)) for key in keys]

    def check_owned(self, table: StateTable, keys: Sequence[bytes]) -> None:
        """See that with scope ``key`` all are keys of records that are handled here."""
        if table.scope == "key" and not all(map(self.portion.owns, keys)):
            raise table.refused(
                "a key is of no record that is handled now; with scope key a row is of its "
                'record\'s own key: for other columns take order lane and scope="lane"'
            )

    def read(self, table: StateTable, rows: Mapping[bytes, bytes]) -> pa.Table:
        """Rows by their keys, as columns.

        Raises:
            ConfigError: they were kept otherwise, and nothing may take their place; so for the rest
                of the portion.
        """
        try:
            return table.kept(rows)
        except ConfigError as error:
            self.portion.trouble = error
            raise

    def put(self, table: StateTable, rows: Mapping[bytes, bytes | None]) -> None:
        """Change rows of a table.

        Raises:
            StateFull: the tenant would have more than it may.
        """
        self.find(table, list(rows))
        grown = size = self.portion.size() if self._size is None else self._size
        for key, row in rows.items():
            of = StateKey(table.name, key)
            grown = grown.plus(_more(of, self._now(of), row))
        most = self.portion.most
        if _is_over(size, grown, most):
            # Other lanes may have let rows go since a copy was told of them.
            more = self.portion.more_since(table.name)
            size, grown = size.plus(more), grown.plus(more)
        if _is_over(size, grown, most):
            raise StateFull(
                f"state table {table.name!r}: with this the tenant's state has {grown.rows} rows "
                f"and {grown.bytes} bytes, and a tenant may have {most.rows} and {most.bytes} in "
                "this use case; delete rows that are over, say max_state_rows or max_state_bytes, "
                "or seek the stream with --forget-state"
            )
        self._size = grown
        self.changed |= {StateKey(table.name, key): row for key, row in rows.items()}

    def _now(self, key: StateKey) -> bytes | None:
        return self.changed[key] if key in self.changed else self.portion.row(key)


#: of a use case that declares none: nothing can be changed in it, so all calls share it
NO_STATE = State()


@dataclass(frozen=True, slots=True)
class TableState:
    """One table of state. Its rows are those of the lane that the records are of."""

    _state: State
    _table: StateTable

    def load(self, keys: Any) -> pa.Table:
        """The rows of these keys, as one table: those that there are, each once.

        Args:
            keys: an array, a column or a list; one may come more than once.

        Raises:
            StateRefused: one of them cannot be a key.
            ConfigError: what is kept does not fit the columns, or it is no list.
            HeadraceError: nobody knows now; let it pass, and the records come again.
        """
        wanted = list(dict.fromkeys(self._keys(keys)))
        found = zip(wanted, self._state.find(self._table, wanted), strict=True)
        kept = {key: row for key, row in found if row is not None}
        return self._state.read(self._table, kept)

    def save(self, rows: pa.Table) -> None:
        """Keep rows, whole: one of a key that is there takes its place. Of two the last counts.

        Raises:
            StateRefused: a key or a value cannot be kept.
            WrongSchema: it has other columns than the table, or of other types.
            StateFull: the tenant would have more than it may.
        """
        kept = self._table.rows_of(rows)
        keys = self._keys(rows.column(self._table.key))
        self._state.put(self._table, dict(zip(keys, kept, strict=True)))

    def delete(self, keys: Any) -> None:
        """Let keys have no row; one that has none stays so."""
        self._state.put(self._table, dict.fromkeys(self._keys(keys)))

    def get(self, key: str | bytes | int) -> dict[str, Any] | None:
        """The row of one key; of keys that were loaded nobody is asked again."""
        rows: list[dict[str, Any]] = self.load([key]).to_pylist()
        return rows[0] if rows else None

    def put(self, row: Mapping[str, Any]) -> None:
        """Keep one row.

        Raises:
            StateRefused: a key or a value cannot be kept.
            WrongSchema: it has not just the columns of the table.
            StateFull: the tenant would have more than it may.
        """
        self._table.check_names(list(row))
        try:
            table = pa.Table.from_pylist([dict(row)], schema=self._table.columns)
        except (TypeError, ValueError, OverflowError, pa.ArrowException) as error:
            raise self._table.refused(str(error)) from error
        self.save(table)

    def _keys(self, values: Any) -> list[bytes]:
        keys = self._table.keys_of(values)
        self._state.check_owned(self._table, keys)
        return keys
