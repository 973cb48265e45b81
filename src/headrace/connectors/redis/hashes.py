"""Entries of a cache in Redis or Valkey, of which the newest of each key stays.

Each row is a hash. A script compares how new it is with what is there, in the server and in one
step, so whatever comes twice, late, or in another order leaves the same state: exactly-once, by
intent. What is gone is a mark for a while, so that an older row does not come back.

What the server forgets, since its memory is full or it lost its disk, is not there any more, and an
older row that comes then is taken.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import pyarrow as pa

from headrace.connectors.newest import KeepsNewest, problem_of
from headrace.connectors.newest_rows import text_key_problem
from headrace.connectors.own_servers import is_met_later, is_one_for_each_tenant, name_problem
from headrace.connectors.redis.entries import Entries
from headrace.connectors.redis.fitting import fit
from headrace.connectors.redis.servers import address_of, cache_of
from headrace.connectors.redis.writer import RedisWriter
from headrace.connectors.tenants import TenantsWriter
from headrace.errors import ConfigError
from headrace.model.patterns import TENANT
from headrace.ports import Site

_NAME: Final = re.compile(r"[A-Za-z0-9_.:-]{1,100}")
#: a script's commands take some 8,000 words, and an entry that has more would be taken away first
_MOST_COLUMNS: Final = 1000
_LONGEST: Final = dt.timedelta(days=20 * 365)


@dataclass(frozen=True)
class RedisHashes(KeepsNewest):
    """Hashes in Redis or Valkey, one for each key.

    Args:
        name: what the keys of entries begin with; ``{tenant}`` in it is the tenant of the stream.
        columns: name and kind of each column, as of ``SqlTable``; each is a field of the hash.
            Tables returned by the handler must have exactly these.
        key: columns of kind ``text``, ``bigint`` or ``date`` that the rest of the key is made of.
        newest_by: the column that tells which row of a key is newer: a ``bigint``, ``timestamp`` or
            ``date`` of the data, or of kind ``version``, as of ``SqlTable``.
        at: name of the server under ``connections`` in the YAML file. With ``{tenant}`` in it, or
            in the URL that it stands for, each tenant has its own.
        delete_by: the ``boolean`` column that says that the key of a row is gone. Then its data is
            taken away, and a mark is left for ``marks_stay``.
        key_in_one_lane: all records of a key are in one partition of its topic. Versions compare
            along one lane alone, so a column of that kind needs this said.
        ttl: how long an entry stays after it was written; None: for ever.
        marks_stay: how long an older row of what is gone is known to be older.

    Raises:
        ConfigError: a name is none, a kind is unknown, or the columns do not fit each other.
    """

    name: str
    columns: Mapping[str, str]
    key: tuple[str, ...]
    newest_by: str
    at: str
    # Not where effects go, but how they look: a recorded wave goes on when they are changed.
    delete_by: str | None = field(default=None, repr=False)
    key_in_one_lane: bool = field(default=False, repr=False)
    ttl: dt.timedelta | None = field(default=None, repr=False)
    marks_stay: dt.timedelta = field(default=dt.timedelta(days=7), repr=False)

    def __post_init__(self) -> None:
        self._copy_given()
        problem = _problem(self)
        if problem:
            raise ConfigError(f"hashes {self.name!r}: {problem}")

    def prepare(self, site: Site) -> None:
        """See that there is a server which takes scripts; there is nothing to make.

        Where each tenant has its own, only the address is looked at.

        Raises:
            ConfigError: it takes none, or the YAML file names no such connection.
            SinkUnavailable: the server does not answer.
        """
        if not is_met_later(site.connections, self.at, address_of):
            fit(cache_of(site.connections, self.at), self._where)

    def check(self, output: pa.Table) -> None:
        """See that a handler's table has the columns, and values that fit them.

        Raises:
            WrongSchema: the message names the column.
            SinkRefused: a value does not fit; the message names column and row.
        """
        self._entries.check(output)

    def open(self, site: Site) -> RedisWriter | TenantsWriter[RedisWriter]:
        """Open the writer of a bin; contacts nobody yet.

        Raises:
            ConfigError: the YAML file names no such connection.
        """
        if is_one_for_each_tenant(site.connections, self.at):
            return TenantsWriter(partial(self._opened_for, site), _forget, site.in_company)
        return RedisWriter(self._entries, cache_of(site.connections, self.at))

    def _opened_for(self, site: Site, tenant: str, until_s: float) -> RedisWriter:
        of_one = cache_of(site.connections, self.at, tenant, in_company=site.in_company)
        return RedisWriter(self._entries, of_one, until_s)

    @property
    def _entries(self) -> Entries:
        entry_ms = 0 if self.ttl is None else _ms(self.ttl)
        return Entries(
            self.columns,
            self.key,
            self.newest_by,
            self.delete_by,
            self._where,
            self.name,
            (entry_ms, _ms(self.marks_stay)),
        )

    @property
    def _where(self) -> str:
        return f"hashes {self.name} at {self.at}"


def _forget(_: str) -> None:
    """Nothing is known of a server."""


def _ms(stay: dt.timedelta) -> int:
    return stay // dt.timedelta(milliseconds=1)


def _problem(sink: RedisHashes) -> str | None:
    if not _NAME.fullmatch(sink.name.replace(TENANT, "tenant")):
        return "the name has letters, digits, ':', '.', '_' and '-', and {tenant}"
    if len(sink.columns) > _MOST_COLUMNS:
        return f"it has {len(sink.columns)} columns, {_MOST_COLUMNS} at most can be written"
    return (
        text_key_problem(sink.columns, sink.key)
        or _own_problem(sink)
        or problem_of(
            sink.columns, sink.newest_by, sink.delete_by, in_one_lane=sink.key_in_one_lane
        )
    )


def _own_problem(sink: RedisHashes) -> str | None:
    for stay in (sink.ttl, sink.marks_stay):
        if stay is not None and not dt.timedelta(seconds=1) <= stay <= _LONGEST:
            return "ttl and marks_stay are from a second to 20 years"
    if not sink.at:
        return "at names no connection"
    return name_problem(sink.at)
