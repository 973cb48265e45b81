"""The laws of a sink, on a table in a real Cassandra."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Mapping
from contextlib import contextmanager
from typing import ClassVar
from unittest import mock

import cassandra as client
import cassandra.concurrent
import pyarrow as pa
import pytest
from newest_rows import ByData, OrderedRows

from headrace.connectors.cassandra.servers import Cluster, cluster_of
from headrace.errors import SinkUnavailable
from headrace.ports import Connections, Server, Sink, Site
from headrace.sinks import CassandraTable
from headrace.testing.sink_contract import Seen, SinkContract


class TestCassandraTable(OrderedRows, SinkContract):
    """Rows that are told apart by the versions of their records."""

    cannot_have: ClassVar[Mapping[str, str]] = {
        "replay after the target forgot": "nothing is noted beside the rows",
    }
    name = "things"

    @pytest.fixture(autouse=True)
    def _server(self, request):
        # Making a table takes a while; of one partition a test is alone.
        self.url, self.run = request.getfixturevalue("cassandra").url, uuid.uuid4().hex
        self.connections = Connections({}, "", servers={"history": Server(self.url)})

    def make_sink(self) -> Sink:
        return CassandraTable(
            self.name,
            {"run": "text", **self.columns},
            key=("run", "key"),
            newest_by="newness",
            at="history",
            delete_by="gone",
            key_in_one_lane=True,
        )

    def site(self) -> Site:
        return Site(self.connections, None)

    def rows(self, states):
        run = pa.array([self.run] * len(states), pa.string())
        return super().rows(states).append_column("run", run)

    @contextmanager
    def losing_an_answer(self):
        whole, loses = client.concurrent.execute_concurrent, [True]

        def unheard(*given, **how):
            lost, _ = list(loses), loses.clear()
            for told in whole(*given, **how):
                yield (False, client.OperationTimedOut()) if lost else told

        with mock.patch.object(client.concurrent, "execute_concurrent", unheard):
            yield
        assert not loses, "nothing was written"

    @contextmanager
    def refusing_for_now(self):
        away = SinkUnavailable("it is away")
        with mock.patch.object(Cluster, "session", side_effect=away):
            yield

    def read_back(self):
        owner = Connections({}, "", servers={"history": Server(self.url)})
        rows = cluster_of(owner, "history").asked(
            f"SELECT came, value FROM headrace.{self.name} WHERE {self.where}", self.run
        )
        rows = sorted(rows, key=lambda row: (row[0] is None, row[0]))
        return [Seen(value, value) for _, value in rows]

    where = "run = %s"


class TestHistoryInCassandra(ByData, TestCassandraTable):
    """Rows in buckets of a week, told apart by a column of the data."""

    name = "things_by_week"
    where = "run = %s AND bucket = '2026-01-26'"

    def make_sink(self) -> Sink:
        return CassandraTable(
            self.name,
            {"run": "text", "at": "timestamp", **self.columns},
            key=("run", "at", "key"),
            newest_by="newness",
            at="history",
            by_time="at",
            bucket="week",
            delete_by="gone",
        )

    def rows(self, states):
        sunday = dt.datetime(2026, 2, 1, 23, 59, 59, 999_000, tzinfo=dt.UTC)
        moments = pa.array([sunday] * len(states), pa.timestamp("us", "UTC"))
        return super().rows(states).append_column("at", moments)


class TestCassandraOfTenants(TestCassandraTable):
    """Each tenant has a client of its own."""

    @pytest.fixture(autouse=True)
    def _of_tenants(self, _server):
        server = Server(self.url, "of-{tenant}", "of no matter")
        self.connections = Connections({}, "", servers={"history": server})
