"""The laws of a sink, on a Delta table in a real S3 server; with recorded waves and without."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import ClassVar

from plain_values import SCHEMA, DeltaLog, InStore

from headrace.ports import Sink, Site
from headrace.sinks import DeltaTable
from headrace.testing.sink_contract import InBuckets, SinkContract
from s3_relay import LOST, said


class TestDeltaTableInStore(InStore, DeltaLog, SinkContract):
    """All that is asked of the server goes through a relay, which can lose an answer."""

    cannot_have: ClassVar[Mapping[str, str]] = {}

    @property
    def things(self):
        return self.folder / "lake/things"

    def make_sink(self) -> Sink:
        return DeltaTable("things", schema=SCHEMA, at="lake")

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


class TestDeltaTableInStoreInBuckets(InBuckets, TestDeltaTableInStore):
    """Marks that are of buckets."""


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
