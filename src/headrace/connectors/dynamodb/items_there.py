"""All items of a table that somebody else writes, as plain values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from headrace.connectors.dynamodb.library import MISSING, code_of, translated
from headrace.connectors.dynamodb.servers import service_of
from headrace.errors import ConfigError, SinkUnavailable
from headrace.ports import Connections


def items_there(connections: Connections, at: str, table: str) -> list[dict[str, Any]]:
    """What is in a table; of values only texts and numbers, as texts.

    Args:
        connections: all that the YAML file names.
        at: the one that the table is at.
        table: its name.

    Raises:
        ConfigError: there is no such connection, or no such table, or it may not be read.
        SinkUnavailable: the service does not answer.
    """
    try:
        return [*_items(connections, at, table)]
    except Exception as error:
        where = f"connection {at}: table {table}"
        if code_of(error) == MISSING:
            raise ConfigError(f"{where}: there is no such table") from error
        told = translated(error, where)
        if isinstance(told, SinkUnavailable):
            raise told from error
        raise ConfigError(str(told)) from error


def _items(connections: Connections, at: str, table: str) -> Iterator[dict[str, Any]]:
    service, more = service_of(connections, at), dict[str, Any]()
    while True:
        page = service.asked("scan", {"TableName": table, "ConsistentRead": True, **more})
        for item in page.get("Items", ()):
            yield plain(item)
        if not page.get("LastEvaluatedKey"):
            return
        more = {"ExclusiveStartKey": page["LastEvaluatedKey"]}


def plain(item: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """An item as plain values: only texts, and numbers as texts."""
    return {
        name: value
        for name, typed in item.items()
        for kind, value in typed.items()
        if kind in ("S", "N")
    }
