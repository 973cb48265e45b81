"""Items of a table as plain values, such as of one that somebody else writes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
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
        service = service_of(connections, at)
        return [*scanned(partial(service.asked, "scan"), table)]
    except Exception as error:
        where = f"connection {at}: table {table}"
        if code_of(error) == MISSING:
            raise ConfigError(f"{where}: there is no such table") from error
        told = translated(error, where)
        if isinstance(told, SinkUnavailable):
            raise told from error
        raise ConfigError(str(told)) from error


def scanned(
    ask: Callable[[dict[str, Any]], Any], table: str, **which: Any
) -> Iterator[dict[str, Any]]:
    """Items of a table with plain values, page by page.

    Args:
        ask: asks the service to scan; what it raises is raised.
        table: its name.
        which: more of the request, where not all of them are wanted.
    """
    request = {"TableName": table, "ConsistentRead": True, **which}
    while True:
        page = ask(request)
        yield from map(plain, page.get("Items", ()))
        if not page.get("LastEvaluatedKey"):
            return
        request = {**request, "ExclusiveStartKey": page["LastEvaluatedKey"]}


def plain(item: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """An item as plain values: only texts, and numbers as texts."""
    return {
        name: value
        for name, typed in item.items()
        for kind, value in typed.items()
        if kind in ("S", "N")
    }
