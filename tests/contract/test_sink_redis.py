"""The laws of a sink, on hashes in a real Valkey."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from contextlib import contextmanager
from typing import ClassVar
from unittest import mock

import pytest
import redis
from newest_rows import ByData, OrderedRows

from headrace.connectors.made_once import MadeOnce
from headrace.connectors.redis.servers import Cache
from headrace.errors import SinkUnavailable
from headrace.ports import Connections, Server, Sink, Site
from headrace.sinks import RedisHashes
from headrace.testing.sink_contract import Seen, SinkContract


class TestRedisHashes(OrderedRows, SinkContract):
    """Rows that are told apart by the versions of their records."""

    cannot_have: ClassVar[Mapping[str, str]] = {
        "replay after the target forgot": "nothing is noted beside the entries",
    }

    @pytest.fixture(autouse=True)
    def _server(self, valkey):
        self.url, self.run = valkey.url, f"c{uuid.uuid4().hex}"
        self.connections = Connections({}, "", servers={"cache": Server(self.url)})

    def make_sink(self) -> Sink:
        return RedisHashes(
            self.run,
            self.columns,
            key=("key",),
            newest_by="newness",
            at="cache",
            delete_by="gone",
            key_in_one_lane=True,
        )

    def site(self) -> Site:
        return Site(self.connections, None)

    @contextmanager
    def losing_an_answer(self):
        whole, loses = Cache.each, [True]

        def unheard(cache, *asked):
            answers = whole(cache, *asked)
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
        with mock.patch.object(MadeOnce, "had", side_effect=away):
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


class TestRedisHashesByData(ByData, TestRedisHashes):
    """Rows that are told apart by a column of the data."""
