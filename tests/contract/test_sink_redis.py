"""The laws of a sink, on hashes in a real Valkey."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Mapping
from contextlib import contextmanager
from typing import ClassVar
from unittest import mock

import pyarrow as pa
import pytest
import redis

from headrace.connectors.redis.servers import Cache
from headrace.errors import SinkUnavailable
from headrace.ports import Connections, Server, Sink, Site
from headrace.sinks import RedisHashes
from headrace.testing.sink_cases import State
from headrace.testing.sink_contract import Seen, SinkContract

COLUMNS = {
    "key": "text",
    "value": "text",
    "gone": "boolean",
    "came": "bigint",
    "newness": "version",
}


class TestRedisHashes(SinkContract):
    """Rows that are told apart by the versions of their records."""

    cannot_have: ClassVar[Mapping[str, str]] = {
        "replay after the target forgot": "nothing is noted beside the entries",
    }
    kind = "version"

    @pytest.fixture(autouse=True)
    def _server(self, valkey):
        self.url, self.run = valkey.url, f"c{uuid.uuid4().hex}"
        self.connections = Connections({}, "", servers={"cache": Server(self.url)})
        self.came = itertools.count()

    def make_sink(self) -> Sink:
        return RedisHashes(
            self.run,
            {**COLUMNS, "newness": self.kind},
            key=("key",),
            newest_by="newness",
            at="cache",
            delete_by="gone",
            key_in_one_lane=True,
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
        whole, loses = Cache.each, [True]

        def unheard(cache, commands):
            answers = whole(cache, commands)
            if loses:
                loses.clear()
                raise SinkUnavailable("no answer in time")
            return answers

        with mock.patch.object(Cache, "each", unheard):
            yield
        assert not loses, "nothing was written"

    @contextmanager
    def refusing_for_now(self):
        away = SinkUnavailable("it is away")
        with mock.patch.object(Cache, "_client", side_effect=away):
            yield

    def read_back(self):
        found = []
        with redis.Redis.from_url(self.url, decode_responses=True) as client:
            for key in client.scan_iter(f"{self.run}:*", count=1000):
                entry = client.hgetall(key)
                if "_gone" not in entry:
                    came = int(entry["came"]) if "came" in entry else -1
                    found.append((came, entry.get("value")))
        return [Seen(value, value) for _, value in sorted(found, key=lambda one: one[0])]


class TestRedisHashesByData(TestRedisHashes):
    """Rows that are told apart by a column of the data."""

    kind = "bigint"

    def table(self, values):
        made = super().table(values)
        return made.append_column("newness", pa.array([1] * len(values), pa.int64()))
