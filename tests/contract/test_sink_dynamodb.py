"""The laws of a sink, on items of a table in moto's DynamoDB."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import contextmanager
from typing import ClassVar

import pytest
from newest_rows import ByData, OrderedRows

from dynamodb_server import LOST, a_name
from headrace.ports import Connections, Sink, Site
from headrace.sinks import DynamoTable
from headrace.testing.sink_contract import Seen, SinkContract


class TestDynamoTable(OrderedRows, SinkContract):
    """Rows that are told apart by the versions of their records."""

    cannot_have: ClassVar[Mapping[str, str]] = {
        "replay after the target forgot": "nothing is noted beside the items",
    }
    name = "{run}"

    @pytest.fixture(autouse=True)
    def _server(self, dynamodb):
        self.dynamodb, self.run = dynamodb, a_name()
        self.connections = Connections({}, "", servers={"there": dynamodb.server})

    def make_sink(self) -> Sink:
        return DynamoTable(
            self.name.replace("{run}", self.run),
            self.columns,
            key=("key",),
            newest_by="newness",
            at="there",
            delete_by="gone",
            key_in_one_lane=True,
        )

    def site(self) -> Site:
        return Site(self.connections, None)

    @contextmanager
    def losing_an_answer(self):
        self.dynamodb.fates.append(LOST)
        yield
        assert not self.dynamodb.fates, "nothing was written"

    @contextmanager
    def refusing_for_now(self):
        self.dynamodb.away = True
        yield
        self.dynamodb.away = False

    def read_back(self):
        pages = self.dynamodb.client.get_paginator("list_tables").paginate()
        tables = [name for page in pages for name in page["TableNames"] if self.run in name]
        rows = [row for table in tables for row in self.dynamodb.items(table)]
        there = sorted(
            (row for row in rows if not row["gone"]), key=lambda row: int(row.get("came", -1))
        )
        return [Seen(row.get("value"), row.get("value")) for row in there]


class TestDynamoTableByData(ByData, TestDynamoTable):
    """Rows that are told apart by a column of the data."""


class TestDynamoTableOfEachTenant(TestDynamoTable):
    """The same in a table for each tenant."""

    name = "{tenant}.{run}"
