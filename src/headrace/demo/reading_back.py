"""What the tables of the demo have at its end, against the visits that were sent.

Each is read back by what a user would read it by, and held against the visits record by record:
none missing, none twice, none wrong, none that nobody sent. A search finds those with its word, and
a cache has of each lead the last one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from headrace.connectors.redis.servers import cache_of
from headrace.connectors.search.servers import cluster_of
from headrace.demo.expected import came_by, expected
from headrace.demo.in_cassandra import TABLE
from headrace.demo.in_delta import FOLDER, SCHEMA
from headrace.demo.replicated import INDEX, LEADS
from headrace.demo.report import Check
from headrace.demo.scenario import REMOVED
from headrace.demo.visits import TENANTS, Lane, Visit
from headrace.ports import Connections

IN_DELTA, IN_CASSANDRA = "keep-in-delta", "keep-in-cassandra"
IN_SEARCH, IN_CACHE = "index-visits", "keep-last-visits"
#: what is searched for
WORD = "puppet"
#: most documents that a search gives, which are more than all visits of a tenant
_MOST = 10_000
#: tenant, partition and offset
_Place = tuple[str, int, int]
#: line, lead, moment, path, status, bytes and method
_Rest = tuple[Any, ...]
_Wanted = Mapping[_Place, _Rest]
Rows = list[dict[str, Any]]


def read_back(connections: Connections, use_cases: Collection[str]) -> dict[str, Rows]:
    """What the tables have, by the name of their check; a guest's visits are nobody's business.

    Args:
        connections: of the driver.
        use_cases: those that write to tables.

    Raises:
        HeadraceError: one cannot be read.
    """
    return {
        table.name: list(table.rows(connections))
        for table in _TABLES
        if table.use_case in use_cases
    }


def table_checks(
    visits: Iterable[Visit],
    positions: Mapping[str, Mapping[Lane, int]],
    kept: Mapping[str, Rows],
) -> list[Check]:
    """Hold what was read back against what was sent; of a removed tenant, as far as it was read."""
    lanes = expected(visits, {}).lanes
    return [
        _check(table.name, table.of(_wanted(lanes, positions.get(table.use_case, {}))), rows)
        for table in _TABLES
        if (rows := kept.get(table.name)) is not None
    ]


def _in_delta(connections: Connections) -> Iterator[dict[str, Any]]:
    from deltalake import DeltaTable  # noqa: PLC0415 - not everybody has it

    table = DeltaTable(Path(connections.warehouse or "") / FOLDER).to_pyarrow_table()
    yield from (row for row in table.to_pylist() if row["tenant"] in TENANTS)


def _in_cassandra(connections: Connections) -> Iterator[dict[str, Any]]:
    since, until = datetime(2015, 5, 1, tzinfo=UTC), datetime(2015, 6, 1, tzinfo=UTC)
    for tenant in TENANTS:
        for page in TABLE.read(connections, tenant, since=since, until=until):
            for row in page.to_pylist():
                yield {**row, "at": row["at"].isoformat()}


def _in_search(connections: Connections) -> Iterator[dict[str, Any]]:
    yield from _found(connections, {"match_all": {}})


def _by_its_word(connections: Connections) -> Iterator[dict[str, Any]]:
    yield from _found(connections, {"match": {"path": WORD}})


def _found(connections: Connections, query: object) -> Iterator[dict[str, Any]]:
    cluster = cluster_of(connections, INDEX.at)
    for tenant in TENANTS:
        # Who was removed before anything was written for it has none. What is written is found
        # within a second, or at once after this.
        index = f"/{tenant}-visits"
        cluster.asked("POST", f"{index}/_refresh?ignore_unavailable=true")
        search = f"{index}/_search?ignore_unavailable=true"
        found = cluster.asked("POST", search, {"query": query, "size": _MOST})
        for hit in found["hits"]["hits"]:
            yield _row(tenant, hit["_source"])


def _in_cache(connections: Connections) -> Iterator[dict[str, Any]]:
    cache = cache_of(connections, LEADS.at)
    for tenant in TENANTS:
        cursor = None
        keys: set[bytes] = set()
        while cursor != 0:
            asked = ("SCAN", cursor or 0, "MATCH", f"{tenant}:lead:*", "COUNT", 1000)
            cursor, some = cache.asked(*asked)
            keys.update(some)
        for entry in cache.each([("HGETALL", key) for key in sorted(keys)]):
            said = {name.decode(): value.decode() for name, value in entry.items()}
            yield _row(tenant, said)


def _row(tenant: str, said: Mapping[str, Any]) -> dict[str, Any]:
    """A row of all columns; what is null is no field of a document or an entry."""
    found = {"tenant": tenant, **said}
    return {
        field.name: int(value)
        if (value := found.get(field.name)) is not None and pa.types.is_integer(field.type)
        else value
        for field in SCHEMA
    }


def _all(wanted: _Wanted) -> _Wanted:
    return wanted


def _with_the_word(wanted: _Wanted) -> _Wanted:
    return {
        place: rest
        for place, rest in wanted.items()
        if WORD in re.split(r"[^a-z0-9._]+", str(rest[3]).lower())
    }


def _last_ones(wanted: _Wanted) -> _Wanted:
    last = {(place[0], wanted[place][1]): place for place in sorted(wanted)}
    return {place: wanted[place] for place in last.values()}


@dataclass(frozen=True, slots=True)
class _Table:
    """One that is read back."""

    name: str
    use_case: str
    rows: Callable[[Connections], Iterable[dict[str, Any]]]
    #: which of all visits it has
    of: Callable[[_Wanted], _Wanted] = _all


_TABLES = (
    _Table("visits in Delta, to the record", IN_DELTA, _in_delta),
    _Table("visits in Cassandra, to the record", IN_CASSANDRA, _in_cassandra),
    _Table("visits in OpenSearch, to the record", IN_SEARCH, _in_search),
    _Table(f"those that a search for {WORD} finds", IN_SEARCH, _by_its_word, _with_the_word),
    _Table("the last visit of each lead, in Valkey", IN_CACHE, _in_cache, _last_ones),
)


def _wanted(
    lanes: Mapping[Lane, list[Visit]], positions: Mapping[Lane, int]
) -> dict[_Place, _Rest]:
    wanted = {}
    for (tenant, part), sent in lanes.items():
        until = positions.get((tenant, part), 0) if tenant == REMOVED else len(sent)
        for record, visit in enumerate(sent[:until]):
            wanted[tenant, part, record] = _as_sent(visit)
    return wanted


def _as_sent(visit: Visit) -> _Rest:
    method = None if came_by(visit) == "version 1" else visit.method
    said = (visit.line, visit.lead, visit.at, visit.path, visit.status, visit.size_bytes)
    return (*said, method)


def _check(name: str, wanted: Mapping[_Place, _Rest], rows: Rows) -> Check:
    times: Counter[_Place] = Counter()
    found: dict[_Place, _Rest] = {}
    for row in rows:
        tenant, part, record, *rest = (row[column] for column in SCHEMA.names)
        times[tenant, part, record] += 1
        found[tenant, part, record] = tuple(rest)
    both = sorted(wanted.keys() & found.keys())
    faults = (
        *(f"missing: {_told(place)}" for place in sorted(wanted.keys() - found.keys())),
        *(f"nobody sent: {_told(place)}" for place in sorted(found.keys() - wanted.keys())),
        *(f"{_told(place)} is there {n} times" for place, n in sorted(times.items()) if n > 1),
        *(
            f"wrong: {_told(place)}: {wanted[place]} expected, {found[place]} found"
            for place in both
            if wanted[place] != found[place]
        ),
    )
    return Check(name, str(len(wanted)), str(len(rows)), faults)


def _told(place: _Place) -> str:
    tenant, part, record = place
    return f"{tenant}.visits[{part}], record {record}"
