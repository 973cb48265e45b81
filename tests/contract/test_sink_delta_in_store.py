"""The laws of a sink, on a Delta table in a real S3 server; with recorded waves and without."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.connectors.object_stores import stores
from headrace.ports import Connections, Sink, Site
from headrace.sinks import DeltaTable
from headrace.testing.sink_contract import Seen, SinkContract
from s3_relay import LOST, Relay, said

_SCHEMA = pa.schema([("value", pa.string())])


class StillThere:
    """Positions that stand where every slice begins."""

    def advance(self, moves):
        return [True] * len(moves)


class TestDeltaTableInStore(SinkContract):
    """All that is asked of the server goes through a relay, which can lose an answer."""

    cannot_have: ClassVar[Mapping[str, str]] = {}

    @pytest.fixture(autouse=True)
    def _bucket(self, s3, monkeypatch):
        monkeypatch.setattr(stores._stores, "held", {})
        monkeypatch.setattr(stores, "_proofs", {})
        bucket = s3.make_bucket()
        self.folder = s3.folder_of(bucket) / "lake/things"
        with Relay(s3.port) as self.relay:
            self.server = s3.at(bucket, self.relay.port)
            yield

    def make_sink(self) -> Sink:
        return DeltaTable("things", schema=_SCHEMA, at="lake")

    def site(self) -> Site:
        connections = Connections({}, "sqlite:///unused.db", servers={"lake": self.server})
        return Site(connections, StillThere(), wave_id="wave", fence="0")

    def table(self, values):
        return pa.table({"value": list(values)}, schema=_SCHEMA)

    def refused_table(self):
        return pa.table({"value": [1]})

    def wrong_table(self):
        return pa.table({"other": ["a"]})

    @contextmanager
    def refusing_for_now(self):
        self.relay.always = said(503, "SlowDown")
        yield
        self.relay.always = None

    @contextmanager
    def losing_an_answer(self):
        """The answer to a commit, and to whoever looks for it."""

        def fate(method, path):
            if (method, "/_delta_log/" in path) != ("PUT", True):
                return None
            self.relay.fate = lambda *_: said(503, "SlowDown")
            return LOST

        self.relay.fate = fate
        yield
        del self.relay.fate

    def forgetting(self):
        """Delta forgets the ids of applications after a while that its users choose."""
        knew = False
        for commit in self.folder.glob("_delta_log/*.json"):
            lines = commit.read_text().splitlines(keepends=True)
            kept = [line for line in lines if "txn" not in json.loads(line)]
            knew = knew or kept != lines
            commit.write_text("".join(kept))
        return knew

    def read_back(self):
        """All that the log names, commit by commit, by the files of the server."""
        seen = []
        for commit in sorted(self.folder.glob("_delta_log/*.json")):
            for line in commit.read_text().splitlines():
                path = json.loads(line).get("add", {}).get("path")
                if path is not None:
                    values = pq.read_table(self.folder / path)["value"].to_pylist()
                    seen += [Seen(f"{path}:{row}", value) for row, value in enumerate(values)]
        return seen


class TestDeltaTableInStoreWithoutWaves(TestDeltaTableInStore):
    """What is not written down before it runs may come again."""

    writes_once = False
    cannot_have: ClassVar[Mapping[str, str]] = {
        "replay after the target forgot": "nothing is noted without recorded waves"
    }

    def site(self) -> Site:
        return replace(super().site(), fence="")

    def test_the_same_effect_again_does_what_the_guarantee_says(self) -> None:
        effect = self.effect(self.table(["a", "b"]))
        with self.writer() as writer:
            assert [writer.write([effect])[0].error for _ in range(2)] == [None, None]
        assert self._values() == ["a", "b", "a", "b"]
