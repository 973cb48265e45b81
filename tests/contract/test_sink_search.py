"""The laws of a sink, on documents in a real OpenSearch."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from contextlib import contextmanager
from typing import ClassVar
from unittest import mock

import pytest
from newest_rows import ByData, OrderedRows

from headrace.connectors.search.servers import Cluster, cluster_of
from headrace.errors import SinkUnavailable
from headrace.ports import Connections, Server, Sink, Site
from headrace.sinks import SearchIndex
from headrace.testing.sink_contract import Seen, SinkContract


class TestSearchIndex(OrderedRows, SinkContract):
    """Rows that are told apart by the versions of their records."""

    cannot_have: ClassVar[Mapping[str, str]] = {
        "replay after the target forgot": "nothing is noted beside the documents",
    }

    @pytest.fixture(autouse=True)
    def _server(self, opensearch):
        self.url, self.run = opensearch.url, f"c{uuid.uuid4().hex}"
        self.connections = Connections({}, "", servers={"search": Server(self.url)})

    def make_sink(self) -> Sink:
        return SearchIndex(
            self.run,
            self.columns,
            key=("key",),
            newest_by="newness",
            at="search",
            delete_by="gone",
            key_in_one_lane=True,
            copies=0,
        )

    def site(self) -> Site:
        return Site(self.connections, None)

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


class TestSearchIndexByData(ByData, TestSearchIndex):
    """Rows that are told apart by a column of the data."""
