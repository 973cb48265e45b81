"""The tables that the demo keeps visits in beside its files: Delta, and Cassandra if it is asked.

Each is read back by what a user would read it by, and held against the visits that were sent,
record by record: none missing, none twice, none wrong, none that nobody sent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from headrace.demo.expected import came_by, expected
from headrace.demo.in_cassandra import TABLE
from headrace.demo.in_delta import FOLDER, SCHEMA
from headrace.demo.report import Check, Lane
from headrace.demo.scenario import REMOVED
from headrace.demo.visits import TENANTS, Visit
from headrace.embedded import EmbeddedCassandra
from headrace.ports import Connections
from headrace.settings import Settings
from headrace.settings.connections import ConnectionSettings

IN_DELTA, IN_CASSANDRA = "keep-in-delta", "keep-in-cassandra"
_TOLD = {
    IN_DELTA: "visits in Delta, to the record",
    IN_CASSANDRA: "visits in Cassandra, to the record",
}
#: tenant, partition and offset
_Place = tuple[str, int, int]
#: a row without them
_Rest = tuple[Any, ...]
Rows = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Tables:
    """Those that can be had."""

    #: the settings, with the use cases that write to them
    settings: Settings
    #: what is told of them
    told: str
    #: those use cases; each is checked, also one that wrote nothing
    use_cases: tuple[str, ...]


def with_tables(settings: Settings, folder: Path, stack: ExitStack, *, cassandra: bool) -> Tables:
    """See which tables can be had, and start what they need.

    Args:
        settings: of the demo without tables.
        folder: of the demo.
        stack: ends what is started.
        cassandra: whether it is asked for; one that a killed demo began with goes on.

    Raises:
        ServerError: Cassandra does not start.
    """
    data = folder / "cassandra"
    if cassandra or data.is_dir():
        server = stack.enter_context(EmbeddedCassandra(data))
        at = {TABLE.at: ConnectionSettings(url=SecretStr(server.url))}
        found: dict[str, object] = {"module": "headrace.demo.in_cassandra", "connections": at}
        told = f"visits are kept in a Delta table as well, and in Cassandra at {server.url}"
        return Tables(settings.model_copy(update=found), told, (IN_DELTA, IN_CASSANDRA))
    if find_spec("deltalake") is None:
        told = "no table in Delta or Cassandra is shown: pip install 'headrace[delta,cassandra]'"
        return Tables(settings, told, ())
    told = "visits are kept in a Delta table as well; in Cassandra too by 'demo --with cassandra'"
    found = {"module": "headrace.demo.in_delta"}
    return Tables(settings.model_copy(update=found), told, (IN_DELTA,))


def read_back(connections: Connections, use_cases: Iterable[str]) -> dict[str, Rows]:
    """What the tables have, by use case; a guest's visits are nobody's business.

    Args:
        connections: of the driver.
        use_cases: those that write to tables.

    Raises:
        HeadraceError: one cannot be read.
    """
    readers = {IN_DELTA: _in_delta, IN_CASSANDRA: _in_cassandra}
    return {name: list(readers[name](connections)) for name in use_cases}


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


def table_checks(
    visits: Iterable[Visit],
    positions: Mapping[str, Mapping[Lane, int]],
    kept: Mapping[str, Rows],
) -> list[Check]:
    """Hold what was read back against what was sent; of a removed tenant, as far as it was read."""
    lanes = expected(visits, {}).lanes
    return [
        _check(_TOLD[name], _wanted(lanes, positions.get(name, {})), rows)
        for name, rows in kept.items()
    ]


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
