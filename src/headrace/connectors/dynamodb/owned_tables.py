"""Tables that somebody else's tools look at, and in which nobody but one writer has items.

Each item says whose it is. A table is looked through before it is written to, and each write is on
the condition that the item is the writer's own or is not there: what belongs to anybody else is
refused by name, and never written over. One that is not there is made.

Every item says when it may be forgotten, which whoever writes it puts off.
"""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NamedTuple

from headrace.connectors.dynamodb.fitting import fit
from headrace.connectors.dynamodb.items import Attribute
from headrace.connectors.dynamodb.items_there import plain, scanned
from headrace.connectors.dynamodb.library import (
    MISSING,
    code_of,
    is_answered,
    is_done,
    translated,
)
from headrace.connectors.dynamodb.servers import Service
from headrace.errors import (
    BrokerUnavailable,
    ConfigError,
    HeadraceError,
    SinkUnavailable,
    Temporary,
)

_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{3,255}")
#: how long a table is waited for that is being made
_MADE_S: Final = 10.0
#: the service forgets an item that nobody wrote for so long
_KEPT_S: Final = 7 * 86_400
#: that are asked for at once, as many as the service bears
_ITEMS_AT_ONCE: Final = 100


class Names(NamedTuple):
    """What attributes of an item are called that are not the writer's alone to say."""

    key: str
    owner: str
    #: goes up with each write
    counter: str
    #: second since 1970 from which on it may be forgotten
    forget_at: str


class TableGone(Temporary):
    """There is no such table."""


@dataclass(slots=True)
class OwnedTables:
    """Tables of one service in which one owner has all items."""

    service: Service
    owner: str
    names: Names
    #: those that were there, and had items of nobody else
    _ours: set[str] = field(default_factory=set)

    def demand(self, table: str) -> None:
        """Make a table, or see that nobody else has items in it.

        Raises:
            ConfigError: somebody has, it has another key, or there cannot be such a table.
            HeadraceError: the service does not say.
        """
        if table in self._ours:
            return
        if not _NAME.fullmatch(table):
            raise ConfigError(
                f"{table!r} is no name of a table in DynamoDB: 3 to 255 letters, digits, '.', '_' "
                "and '-'"
            )
        self._fit(table)
        for item in self._of_others(table):
            self._demand_ours(table, item)
        self._let_forget(table)
        self._ours.add(table)

    def write(self, table: str, key: str, attributes: Mapping[str, Attribute]) -> None:
        """Set attributes of the owner's item; others that it has stay.

        Raises:
            ConfigError: it is somebody else's.
            TableGone: as it says.
            HeadraceError: the service did not take it.
        """
        said = {
            **attributes,
            self.names.owner: {"S": self.owner},
            self.names.forget_at: {"N": str(round(time.time()) + _KEPT_S)},
        }
        numbers = {name: at for at, name in enumerate(said)}
        owner = numbers[self.names.owner]
        request = {
            "TableName": table,
            "Key": {self.names.key: {"S": key}},
            "UpdateExpression": "SET "
            + ", ".join(f"#n{at} = :v{at}" for at in numbers.values())
            + " ADD #counter :one",
            "ConditionExpression": f"attribute_not_exists(#key) OR #n{owner} = :v{owner}",
            "ExpressionAttributeNames": {
                **{f"#n{at}": name for name, at in numbers.items()},
                "#key": self.names.key,
                "#counter": self.names.counter,
            },
            "ExpressionAttributeValues": {
                **{f":v{at}": said[name] for name, at in numbers.items()},
                ":one": {"N": "1"},
            },
        }
        self._asked("update_item", table, request)

    def read(self, table: str, keys: Collection[str]) -> dict[str, dict[str, Any]]:
        """The items of these keys that are there, with plain values.

        Raises:
            ConfigError: one is somebody else's.
            TableGone: as it says.
            HeadraceError: the service does not say.
        """
        found, left = dict[str, dict[str, Any]](), list(keys)
        for first in range(0, len(left), _ITEMS_AT_ONCE):
            some = [{self.names.key: {"S": key}} for key in left[first : first + _ITEMS_AT_ONCE]]
            wanted = {table: {"Keys": some, "ConsistentRead": True}}
            answer = self._asked("batch_get_item", table, {"RequestItems": wanted})
            if answer.get("UnprocessedKeys"):
                raise Temporary(f"{self._where(table)}: it gives no more items for now")
            for item in map(plain, answer.get("Responses", {}).get(table, ())):
                self._demand_ours(table, item)
                found[item[self.names.key]] = item
        return found

    def close(self) -> None:
        """Give up connections."""
        self.service.close()

    def _fit(self, table: str) -> None:
        try:
            fit(self.service, table, time.monotonic() + _MADE_S, {self.names.key: "HASH"})
        except SinkUnavailable as trouble:
            why = trouble.__cause__
            if why is None or is_answered(why):
                raise
            raise BrokerUnavailable(str(trouble)) from why

    def _let_forget(self, table: str) -> None:
        forgets = {"Enabled": True, "AttributeName": self.names.forget_at}
        request = {"TableName": table, "TimeToLiveSpecification": forgets}
        try:
            self.service.asked("update_time_to_live", request)
        except Exception as error:
            # It may forget them already, or not be ours to tell: then who made it clears it.
            if not is_answered(error):
                raise self._told(error, table) from error

    def _of_others(self, table: str) -> Iterator[dict[str, Any]]:
        return scanned(
            partial(self._asked, "scan", table),
            table,
            FilterExpression="attribute_not_exists(#owner) OR #owner <> :owner",
            ExpressionAttributeNames={"#owner": self.names.owner},
            ExpressionAttributeValues={":owner": {"S": self.owner}},
        )

    def _demand_ours(self, table: str, item: Mapping[str, Any]) -> None:
        whose = item.get(self.names.owner)
        if whose != self.owner:
            raise self._anothers(table, f"{item.get(self.names.key)} is of {whose or 'nobody'}")

    def _anothers(self, table: str, why: str) -> ConfigError:
        self._ours.discard(table)
        return ConfigError(
            f"{self._where(table)} belongs to another application ({why}), so nothing is written "
            "to it"
        )

    def _asked(self, operation: str, table: str, request: dict[str, Any]) -> Any:
        try:
            return self.service.asked(operation, request)
        except Exception as error:
            raise self._told(error, table) from error

    def _told(self, error: Exception, table: str) -> HeadraceError:
        where = self._where(table)
        if code_of(error) == MISSING:
            self._ours.discard(table)
            return TableGone(f"{where} is not there any more; it is made again")
        if is_done(error):
            return self._anothers(table, "somebody else took what was ours")
        told = translated(error, where)
        return told if is_answered(error) else BrokerUnavailable(str(told))

    def _where(self, table: str) -> str:
        return f"{self.service.where}: table {table}"
