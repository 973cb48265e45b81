"""The laws of a sink, on documents in a real OpenSearch."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Mapping
from contextlib import contextmanager
from typing import ClassVar
from unittest import mock

import pyarrow as pa
import pytest

from headrace.connectors.search.servers import Cluster, cluster_of
from headrace.errors import SinkUnavailable
from headrace.ports import Connections, Server, Sink, Site
from headrace.sinks import SearchIndex
from headrace.testing.sink_cases import State
from headrace.testing.sink_contract import Seen, SinkContract

COLUMNS = {
    "key": "text",
    "value": "text",
    "gone": "boolean",
    "came": "bigint",
    "newness": "version",
}


class TestSearchIndex(SinkContract):
    """Rows that are told apart by the versions of their records."""

    cannot_have: ClassVar[Mapping[str, str]] = {
        "replay after the target forgot": "nothing is noted beside the documents",
    }
    kind = "version"

    @pytest.fixture(autouse=True)
    def _server(self, opensearch):
        self.url, self.run = opensearch.url, f"c{uuid.uuid4().hex}"
        self.connections = Connections({}, "", servers={"search": Server(self.url)})
        self.came = itertools.count()

    def make_sink(self) -> Sink:
        return SearchIndex(
            self.run,
            {**COLUMNS, "newness": self.kind},
            key=("key",),
            newest_by="newness",
            at="search",
            delete_by="gone",
            key_in_one_lane=True,
            copies=0,
        )

    def site(self) -> Site:
        return Site(self.connections, None)

    def states(self, states):
        newness = pa.array([state.version for state in states], pa.int64())
        return self._rows(states).append_column("newness", newness)

    def table(self, values):
        made = self._rows([State(value, "", 0) for value in values])
        place = made.column_names.index("value")
        return made.set_column(place, "value", pa.array(list(values), pa.string()))

    def _rows(self, states):
        return pa.table(
            {
                "key": pa.array([state.key for state in states], pa.string()),
                "value": pa.array([state.text for state in states], pa.string()),
                "gone": pa.array([state.gone for state in states], pa.bool_()),
                "came": pa.array([next(self.came) for _ in states], pa.int64()),
            }
        )

    def refused_table(self):
        table = self.table(["a"])
        return table.set_column(table.column_names.index("key"), "key", pa.nulls(1, pa.string()))

    def wrong_table(self):
        return self.table(["a"]).drop_columns(["value"])

    @contextmanager
    def losing_an_answer(self):
        whole, loses = Cluster.raw, [True]

        def unheard(cluster, method, path, *more):
            answer = whole(cluster, method, path, *more)
            if loses and path.startswith("/_bulk"):
                loses.clear()
                raise SinkUnavailable("no answer in time")
            return answer

        with mock.patch.object(Cluster, "raw", unheard):
            yield
        assert not loses, "nothing was written"

    @contextmanager
    def refusing_for_now(self):
        away = SinkUnavailable("it is away")
        with mock.patch.object(Cluster, "raw", side_effect=away):
            yield

    def read_back(self):
        cluster = cluster_of(self.connections, "search")
        cluster.asked("POST", f"/{self.run}/_refresh")
        body = {"size": 1000, "query": {"bool": {"must_not": {"term": {"gone": True}}}}}
        found = cluster.asked("POST", f"/{self.run}/_search", body)["hits"]["hits"]
        rows = [one["_source"] for one in found]
        rows.sort(key=lambda row: row.get("came", -1))
        return [Seen(row.get("value"), row.get("value")) for row in rows]


class TestSearchIndexByData(TestSearchIndex):
    """Rows that are told apart by a column of the data."""

    kind = "bigint"

    def table(self, values):
        made = super().table(values)
        return made.append_column("newness", pa.array([1] * len(values), pa.int64()))
