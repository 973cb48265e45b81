"""The laws of a sink, on rows of a real HBase."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from contextlib import contextmanager
from typing import ClassVar
from unittest import mock

import happybase
import pytest
from newest_rows import ByData, OrderedRows

from headrace.connectors.hbase.servers import Cluster
from headrace.errors import SinkUnavailable
from headrace.ports import Connections, Server, Sink, Site
from headrace.sinks import HBaseTable
from headrace.testing.sink_contract import Seen, SinkContract


class TestHBaseTable(OrderedRows, SinkContract):
    """Rows that are told apart by the versions of their records."""

    cannot_have: ClassVar[Mapping[str, str]] = {
        "replay after the target forgot": "nothing is noted beside the rows",
    }

    @pytest.fixture(autouse=True)
    def _server(self, hbase):
        self.port, self.prefix = hbase.port, f"c{uuid.uuid4().hex}:"
        self.connections = Connections({}, "", servers={"hbase": Server(hbase.url)})

    def make_sink(self) -> Sink:
        return HBaseTable(
            "contract",
            self.columns,
            key=("key",),
            newest_by="newness",
            at="hbase",
            delete_by="gone",
            key_in_one_lane=True,
            prefix=self.prefix,
        )

    def site(self) -> Site:
        return Site(self.connections, None)

    @contextmanager
    def losing_an_answer(self):
        whole, loses = Cluster.done, [True]

        def unheard(cluster, *asked):
            answers = whole(cluster, *asked)
            if loses:
                loses.clear()
                raise SinkUnavailable("no answer in time")
            return answers

        with mock.patch.object(Cluster, "done", unheard):
            yield
        assert not loses, "nothing was written"

    @contextmanager
    def refusing_for_now(self):
        with mock.patch.object(Cluster, "_with_lines", side_effect=SinkUnavailable("it is away")):
            yield

    def read_back(self):
        connection = happybase.Connection("127.0.0.1", self.port)
        try:
            if b"contract" not in connection.tables():
                return []
            rows = [
                row for _, row in connection.table("contract").scan(row_prefix=self.prefix.encode())
            ]
        finally:
            connection.close()
        found = [
            (
                int(row.get(b"d:came", b"-1")),
                row[b"d:value"].decode() if b"d:value" in row else None,
            )
            for row in rows
        ]
        return [Seen(value, value) for _, value in sorted(found, key=lambda one: one[0])]


class TestHBaseTableByData(ByData, TestHBaseTable):
    """Rows that are told apart by a column of the data."""
