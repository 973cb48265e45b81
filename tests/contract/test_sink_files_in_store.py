"""The laws of a sink, on Parquet files in a real S3 server; with recorded waves and without."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.connectors.object_stores import stores
from headrace.ports import Connections, Sink, Site
from headrace.sinks import ParquetFiles
from headrace.testing.sink_contract import Seen, SinkContract
from s3_relay import LOST, Relay, said

_SCHEMA = pa.schema([("value", pa.string())])
#: where the server keeps what a client says of a file
_METADATA = "user.user.user-metadata."


class StillThere:
    """Positions that stand where every slice begins."""

    def advance(self, moves):
        return [True] * len(moves)


class TestParquetFilesInStore(SinkContract):
    """All that is asked of the server goes through a relay, which can lose an answer."""

    at = "lake"
    cannot_have: ClassVar[Mapping[str, str]] = {}

    @pytest.fixture(autouse=True)
    def _bucket(self, s3, monkeypatch):
        monkeypatch.setattr(stores._stores, "held", {})
        monkeypatch.setattr(stores, "_proofs", {})
        bucket = s3.make_bucket()
        self.folder = s3.folder_of(bucket)
        with Relay(s3.port) as self.relay:
            self.server = s3.at(bucket, self.relay.port)
            yield

    def make_sink(self) -> Sink:
        return ParquetFiles("things", schema=_SCHEMA, at=self.at)

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
        # The process knows the store already, so the next request is the file.
        self.relay.fates.append(LOST)
        yield

    def forgetting(self):
        """The files stay, and what tells whose they are goes, as in a copy of a bucket."""
        knew = False
        for path in self.folder.rglob("*.parquet"):
            for name in os.listxattr(path):
                if name.startswith(_METADATA):
                    os.removexattr(path, name)
                    knew = True
        return knew

    def read_back(self):
        """By the files of the server."""
        return [
            Seen(f"{path.name}:{row}", value)
            for path in sorted(self.folder.glob("lake/things/tenant=*/*.parquet"))
            for row, value in enumerate(pq.read_table(path, partitioning=None)["value"].to_pylist())
        ]


class TestParquetFilesInStoreWithoutWaves(TestParquetFilesInStore):
    """What is not written down before it runs is written over its own name."""

    cannot_have: ClassVar[Mapping[str, str]] = {
        "replay after the target forgot": "nothing is told of files without recorded waves"
    }

    def site(self) -> Site:
        return replace(super().site(), wave_id="", fence="")


class TestParquetFilesInStoreOfEachTenant(TestParquetFilesInStore):
    """The same where each tenant has a part of the bucket."""

    at = "own"

    def site(self) -> Site:
        url = self.server.url.replace("/lake", "/of-{tenant}")
        servers = {"own": replace(self.server, url=url)}
        site = super().site()
        return replace(site, connections=replace(site.connections, servers=servers))

    @contextmanager
    def losing_an_answer(self):
        # Of the first write in a process to a tenant's store, the file is asked for third.
        self.relay.fates += [None, None, LOST]
        yield

    def read_back(self):
        return [
            Seen(f"{path.name}:{row}", value)
            for path in sorted(self.folder.glob("of-*/things/tenant=*/*.parquet"))
            for row, value in enumerate(pq.read_table(path, partitioning=None)["value"].to_pylist())
        ]
