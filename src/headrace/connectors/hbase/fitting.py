"""Whether a table is what its sink describes: made if it is not there, else looked at.

A table that is there is not altered.
"""

from __future__ import annotations

import math
from typing import Any, Final

import structlog

from headrace.connectors.hbase.library import library
from headrace.connectors.hbase.servers import Cluster
from headrace.errors import CodeNotLoaded, ConfigError, SinkRefused, SinkUnavailable, TargetMissing

log = structlog.get_logger(__name__)

#: what HBase says of a family whose cells stay
_FOR_EVER: Final = 2**31 - 1


def fit(cluster: Cluster, table: str, family: str, until_s: float = math.inf) -> None:
    """Make the table, or see that the one there has the family, and that its cells stay.

    Args:
        cluster: where it is.
        table: its name.
        family: its column family.
        until_s: second of the steady clock until which others wait.

    Raises:
        ConfigError: it has not, or may not be made.
        SinkUnavailable: the cluster does not answer.
    """
    try:
        found = families(cluster, table, until_s)
        if found is None:
            _make(cluster, table, family, until_s)
            found = families(cluster, table, until_s)
    except (TargetMissing, SinkRefused, CodeNotLoaded) as error:
        raise ConfigError(str(error)) from error
    if found is None:
        raise SinkUnavailable(f"{cluster.where}: table {table} was made, and is gone again")
    if family not in found:
        raise ConfigError(
            f"{cluster.where}: table {table} is there without the column family {family}: name "
            f"another, or add it in the shell of HBase: alter '{table}', NAME => '{family}'"
        )
    if found[family] != _FOR_EVER:
        raise ConfigError(
            f"{cluster.where}: in table {table} cells of the family {family} go after "
            f"{found[family]} s, counted from their timestamps, which are versions here and no "
            f"clock: let them stay: alter '{table}', {{NAME => '{family}', TTL => 'FOREVER'}}"
        )


def families(cluster: Cluster, table: str, until_s: float = math.inf) -> dict[str, int] | None:
    """The column families of a table, each with the seconds that its cells stay; None: no table.

    Raises:
        HeadraceError: the cluster does not answer, or lets nobody ask.
    """
    name = table.encode()

    def ask(connection: Any) -> dict[str, int] | None:
        # What is asked of a table that is not there is an answer that may have other reasons.
        if name not in connection.tables():
            return None
        told = connection.table(name).families()
        return {key.decode(): found["time_to_live"] for key, found in told.items()}

    found: dict[str, int] | None = cluster.asked(ask, until_s)
    return found


def _make(cluster: Cluster, table: str, family: str, until_s: float) -> None:
    exists = library().hbase.AlreadyExists

    def ask(connection: Any) -> bool:
        try:
            connection.create_table(table, {family: {"max_versions": 1}})
        except exists:  # by who was quicker
            return False
        return True

    if cluster.asked(ask, until_s):
        log.info("table made", table=f"{table}, {cluster.where}")
