"""Whether a table is what its sink describes: made if it is not there, else looked at.

A table that is there is not altered. What would keep other values, or tell rows apart otherwise, is
refused with the statement that makes one that is right. What is only likely to be a mistake, such
as somebody who writes without timestamps, is told in the log.
"""

from __future__ import annotations

from typing import Any, Final

import structlog

from headrace.connectors.cassandra.description import Description, types_of
from headrace.connectors.cassandra.servers import Cluster
from headrace.errors import CodeNotLoaded, ConfigError, SinkRefused, SinkUnavailable, TargetMissing
from headrace.model.record_versions import NUMBER_BITS

log = structlog.get_logger(__name__)

#: numbers of records that no log has yet; microseconds since 1970 have such at any depth
_NO_RECORD: Final = 2**40
_LOOKED_AT: Final = 100


def fit(cluster: Cluster, says: Description, where: str, *, by_version: bool) -> None:
    """Make the table, or see that the one there has the columns and the key.

    Raises:
        ConfigError: it has not, or may not be made.
        SinkUnavailable: no node answers.
    """
    try:
        _demand_keyspace(cluster, says)
        if not _columns_of(cluster, says):
            _make(cluster, says, where)
        found = _columns_of(cluster, says)
    except (TargetMissing, SinkRefused, CodeNotLoaded) as error:
        raise ConfigError(str(error)) from error
    problem = _problem(found, says)
    if problem is not None:
        raise ConfigError(
            f"{where} is there {problem}: name another table, or drop it and let it be made: "
            f"'{says.create}'"
        )
    _warn(cluster, says, where, by_version=by_version)


def _demand_keyspace(cluster: Cluster, says: Description) -> None:
    found = cluster.asked(
        "SELECT keyspace_name FROM system_schema.keyspaces WHERE keyspace_name = %s", says.keyspace
    )
    if not found:
        datacenter = cluster.address.datacenter
        raise ConfigError(
            f"{cluster.where}: there is no keyspace {says.keyspace}; make it, with so many copies "
            f"as you want: 'CREATE KEYSPACE {says.keyspace} WITH replication = {{'class': "
            f"'NetworkTopologyStrategy', '{datacenter}': 3}}'"
        )


def _make(cluster: Cluster, says: Description, where: str) -> None:
    try:
        cluster.asked(says.create)
    except TargetMissing as error:
        raise ConfigError(
            f"{error}; let its user make tables, or make it by hand: '{says.create}'"
        ) from error
    log.info("table made", table=where)


def _columns_of(cluster: Cluster, says: Description) -> list[Any]:
    return cluster.asked(
        "SELECT column_name, kind, position, type FROM system_schema.columns "
        "WHERE keyspace_name = %s AND table_name = %s",
        says.keyspace,
        says.name,
    )


def _problem(found: list[Any], says: Description) -> str | None:
    types = {name: kind for name, _, _, kind in found}
    for name, kind in says.stored.items():
        if name not in types:
            return f"without column {name!r} ({types_of(kind)[0]})"
        if types[name] not in types_of(kind):
            return f"with column {name!r} as {types[name]}, which is no {types_of(kind)[0]}"
    for part, wanted in (("partition_key", says.partition_key), ("clustering", says.clustering)):
        there = sorted((place, name) for name, of, place, _ in found if of == part)
        names = tuple(name for _, name in there)
        if names != wanted:
            return f"with ({', '.join(names)}) as its {part}, not ({', '.join(wanted)})"
    for name, of, _, _ in found:
        if of == "static" and name in says.stored:
            return f"with column {name!r} as static, which is not of a row"
    return None


def _warn(cluster: Cluster, says: Description, where: str, *, by_version: bool) -> None:
    """Tell what is likely to be a mistake, as far as it shows; never refuse for it."""
    try:
        if by_version and _has_foreign_rows(cluster, says):
            log.warning(
                "somebody writes to this table without timestamps: their rows and deletes count as "
                "newer than any version, now and later; let them say USING TIMESTAMP, or tell by "
                "a column of the kind timestamp which row is newer",
                table=where,
            )
        if by_version and "TimeWindow" in _compaction(cluster, says):
            log.warning(
                "TimeWindowCompactionStrategy takes timestamps for times, and versions are none: "
                "take another strategy, or a column of the kind timestamp for newest_by",
                table=where,
            )
    except (SinkUnavailable, SinkRefused, TargetMissing) as error:
        log.info("who else writes to the table could not be seen", table=where, error=str(error))


def _has_foreign_rows(cluster: Cluster, says: Description) -> bool:
    apart = [name for name in says.stored if name not in says.key]
    if not apart:
        return False
    rows = cluster.asked(
        f'SELECT WRITETIME("{apart[0]}") FROM {says.full_name} LIMIT {_LOOKED_AT}'  # noqa: S608 - names that were checked
    )
    return any(at is not None and at % 2**NUMBER_BITS >= _NO_RECORD for (at,) in rows)


def _compaction(cluster: Cluster, says: Description) -> str:
    rows = cluster.asked(
        "SELECT compaction FROM system_schema.tables WHERE keyspace_name = %s AND table_name = %s",
        says.keyspace,
        says.name,
    )
    return str(rows[0][0]["class"]) if rows else ""
