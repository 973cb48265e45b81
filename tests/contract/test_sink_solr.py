"""The laws of a sink, on documents in a real Solr."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from contextlib import contextmanager
from typing import ClassVar
from unittest import mock

import pytest
from newest_rows import ByData, OrderedRows

from headrace.connectors.solr.servers import Solr, solr_of
from headrace.errors import SinkUnavailable
from headrace.ports import Connections, Server, Sink, Site
from headrace.sinks import SolrIndex
from headrace.testing.sink_contract import Seen, SinkContract
from solr_cores import drop_core, found, make_core


class TestSolrIndex(OrderedRows, SinkContract):
    """Rows that are told apart by the versions of their records."""

    cannot_have: ClassVar[Mapping[str, str]] = {
        "replay after the target forgot": "nothing is noted beside the documents",
    }

    @pytest.fixture(autouse=True)
    def _server(self, solr):
        self.run = f"c{uuid.uuid4().hex}"
        self.connections = Connections({}, "", servers={"solr": Server(solr.url)})
        make_core(solr, self.run, self.columns)
        yield
        drop_core(solr, self.run)

    def make_sink(self) -> Sink:
        return SolrIndex(
            self.run,
            self.columns,
            key=("key",),
            newest_by="newness",
            at="solr",
            delete_by="gone",
            key_in_one_lane=True,
        )

    def site(self) -> Site:
        return Site(self.connections, None)

    @contextmanager
    def losing_an_answer(self):
        whole, loses = Solr.asked, [True]

        def unheard(solr, path, *more):
            answer = whole(solr, path, *more)
            if loses and "/update" in path:
                loses.clear()
                raise SinkUnavailable("no answer in time")
            return answer

        with mock.patch.object(Solr, "asked", unheard):
            yield
        assert not loses, "nothing was written"

    @contextmanager
    def refusing_for_now(self):
        away = SinkUnavailable("it is away")
        with mock.patch.object(Solr, "asked", side_effect=away):
            yield

    def read_back(self):
        rows = list(found(solr_of(self.connections, "solr"), self.run, "-gone:true").values())
        rows.sort(key=lambda row: row.get("came", -1))
        return [Seen(row.get("value"), row.get("value")) for row in rows]


class TestSolrIndexByData(ByData, TestSolrIndex):
    """Rows that are told apart by a column of the data."""
