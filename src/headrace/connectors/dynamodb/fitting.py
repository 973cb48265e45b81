"""Whether a table is what its sink describes: made if it is not there, else looked at.

One that is made is billed by request, and is waited for until it takes items. One that is there is
not altered.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

import structlog

from headrace.connectors.dynamodb.items import ROW_KEY, TENANT_KEY
from headrace.connectors.dynamodb.library import (
    IN_USE,
    MISSING,
    code_of,
    not_its_own,
    translated,
)
from headrace.connectors.dynamodb.servers import Service
from headrace.errors import CodeNotLoaded, ConfigError, SinkUnavailable, TargetMissing

log = structlog.get_logger(__name__)

#: how long a table is waited for that is being made, where nobody else waits
_MOST_S: Final = 60.0
_POLL_S: Final = 0.25
#: of a table of ours: a text each
_KEY: Final[Mapping[str, str]] = {TENANT_KEY: "HASH", ROW_KEY: "RANGE"}
_TAKES_ITEMS: Final = ("ACTIVE", "UPDATING")
_IN_A_WHILE: Final = ("CREATING", "DELETING")


def fit(service: Service, table: str, until_s: float, key: Mapping[str, str] = _KEY) -> None:
    """Make the table, or see that the one there has the key; it takes items then.

    Args:
        service: where it is.
        table: its name.
        until_s: second of the steady clock until which others wait.
        key: what it is found by, a text each.

    Raises:
        ConfigError: it has another key, or may not be made.
        TargetMissing: it takes nothing until a person does something.
        SinkUnavailable: the service does not answer, or it is still being made.
    """
    until_s = min(until_s, time.monotonic() + _MOST_S)
    while True:
        try:
            found = _described(service, table, until_s, key)
        except (TargetMissing, CodeNotLoaded) as error:
            raise ConfigError(str(error)) from error
        state = found.get("TableStatus", "CREATING")
        if state in _TAKES_ITEMS:
            _check_key(service, table, found, key)
            return
        if state not in _IN_A_WHILE:
            raise TargetMissing(f"{service.where}: table {table} is {state}")
        if time.monotonic() + _POLL_S > until_s:
            raise SinkUnavailable(f"{service.where}: table {table} is {state}; it takes its time")
        time.sleep(_POLL_S)


def _described(
    service: Service, table: str, until_s: float, key: Mapping[str, str]
) -> dict[str, Any]:
    try:
        answer = service.asked("describe_table", {"TableName": table}, until_s)
    except Exception as error:
        if code_of(error) == MISSING:
            return _made(service, table, until_s, key)
        raise translated(error, f"{service.where}: table {table}") from error
    return _part(service, answer, "Table")


def _made(service: Service, table: str, until_s: float, key: Mapping[str, str]) -> dict[str, Any]:
    request = {
        "TableName": table,
        "BillingMode": "PAY_PER_REQUEST",
        "AttributeDefinitions": [{"AttributeName": name, "AttributeType": "S"} for name in key],
        "KeySchema": [{"AttributeName": name, "KeyType": kind} for name, kind in key.items()],
    }
    try:
        answer = service.asked("create_table", request, until_s)
    except Exception as error:
        if code_of(error) == IN_USE:
            return {}
        told = translated(error, f"{service.where}: table {table} cannot be made")
        raise told from error
    log.info("table made, billed by request", table=f"{table}, {service.where}")
    return _part(service, answer, "TableDescription")


def _part(service: Service, answer: dict[str, Any], name: str) -> dict[str, Any]:
    found = answer.get(name)
    if not isinstance(found, dict):
        raise not_its_own(service.where, f"no {name} in it")
    return found


def _check_key(service: Service, table: str, found: dict[str, Any], key: Mapping[str, str]) -> None:
    try:
        there = {one["AttributeName"]: one["KeyType"] for one in found["KeySchema"]}
        told = {one["AttributeName"]: one["AttributeType"] for one in found["AttributeDefinitions"]}
        types = {name: told[name] for name in there}
    except (KeyError, TypeError) as error:
        raise not_its_own(service.where, f"it tells no key of table {table}") from error
    if there != key or any(types[name] != "S" for name in there):
        has = ", ".join(f"{name} ({types[name]}, {kind})" for name, kind in there.items())
        wanted = " and ".join(f"{name} (S, {kind})" for name, kind in key.items())
        raise ConfigError(
            f"{service.where}: table {table} is there with the key {has}, and has to have "
            f"{wanted}: name another table"
        )
