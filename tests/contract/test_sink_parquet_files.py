"""The laws of a sink, on Parquet files."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from typing import ClassVar
from unittest import mock

import pyarrow.parquet as pq
import pytest
from plain_values import SCHEMA, PlainValues

from headrace.ports import Connections, Sink, Site
from headrace.sinks import ParquetFiles
from headrace.testing.sink_contract import InBuckets, Seen, SinkContract


class TestParquetFiles(PlainValues, SinkContract):
    cannot_have: ClassVar[Mapping[str, str]] = {
        "ambiguous time-out": "a rename has happened or it has not",
        "replay after the target forgot": "nothing is kept but the files",
    }

    @pytest.fixture(autouse=True)
    def _warehouse(self, tmp_path):
        self.warehouse = tmp_path

    def make_sink(self) -> Sink:
        return ParquetFiles("things", schema=SCHEMA)

    def site(self) -> Site:
        connections = Connections({}, "sqlite:///unused.db", warehouse=str(self.warehouse))
        return Site(connections, positions=None)

    def refusing_for_now(self):
        return mock.patch("os.fsync", side_effect=OSError(errno.ENOSPC, "the disk is full"))

    def read_back(self):
        return [
            Seen(f"{path.name}:{row}", value)
            for path in sorted(self.warehouse.glob("things/tenant=*/*.parquet"))
            for row, value in enumerate(pq.read_table(path, partitioning=None)["value"].to_pylist())
        ]


class TestParquetFilesInBuckets(InBuckets, TestParquetFiles):
    """Files that are named after buckets."""
