"""The laws of a sink, on a Delta table; alone, and with recorded waves."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar
from unittest import mock

import pyarrow as pa
import pytest
from plain_values import SCHEMA, DeltaLog, PlainValues

from headrace.ports import Connections, Sink, Site
from headrace.sinks import DeltaTable
from headrace.testing.sink_contract import InBuckets, SinkContract
from still_there import StillThere


class TestDeltaTable(PlainValues, DeltaLog, SinkContract):
    cannot_have: ClassVar[Mapping[str, str]] = {
        "ambiguous time-out": "a file of the log is there or it is not"
    }

    @pytest.fixture(autouse=True)
    def _warehouse(self, tmp_path):
        self.warehouse = tmp_path

    def make_sink(self) -> Sink:
        return DeltaTable("things", schema=SCHEMA)

    def site(self) -> Site:
        connections = Connections({}, "sqlite:///unused.db", warehouse=str(self.warehouse))
        return Site(connections, StillThere(), wave_id="wave", fence="0")

    def refusing_for_now(self):
        return mock.patch("os.fsync", side_effect=OSError(errno.ENOSPC, "the disk is full"))

    @property
    def things(self):
        return self.warehouse / "things"


class TestDeltaTableInBuckets(InBuckets, TestDeltaTable):
    """Marks that are of buckets."""


class TestDeltaTableByDay(TestDeltaTable):
    """Divided by a column that the rows have besides."""

    def make_sink(self) -> Sink:
        return DeltaTable("things", schema=self.schema, partition_by=("tenant",))

    @property
    def schema(self):
        return pa.schema([("value", pa.string()), ("tenant", pa.string())])

    def table(self, values):
        rows = list(values)
        return pa.table({"value": rows, "tenant": ["a b/ü%"] * len(rows)}, schema=self.schema)


class TestDeltaTableWithoutWaves(TestDeltaTable):
    """What is not written down before it runs may come again."""

    writes_once = False
    cannot_have: ClassVar[Mapping[str, str]] = TestDeltaTable.cannot_have | {
        "replay after the target forgot": "nothing is noted without recorded waves"
    }

    def site(self) -> Site:
        return replace(super().site(), fence="")

    def test_the_same_effect_again_does_what_the_guarantee_says(self) -> None:
        effect = self.effect(self.table(["a", "b"]))
        with self.writer() as writer:
            assert [writer.write([effect])[0].error for _ in range(2)] == [None, None]
        assert self._values() == ["a", "b", "a", "b"]
