"""The laws of a sink, on Parquet files in a real S3 server; with recorded waves and without."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import ClassVar

import pyarrow.parquet as pq
from plain_values import SCHEMA, InStore

from headrace.ports import Sink, Site
from headrace.sinks import ParquetFiles
from headrace.testing.sink_contract import InBuckets, Seen, SinkContract
from s3_relay import LOST

#: where the server keeps what a client says of a file
_METADATA = "user.user.user-metadata."


class TestParquetFilesInStore(InStore, SinkContract):
    """All that is asked of the server goes through a relay, which can lose an answer."""

    at = "lake"
    cannot_have: ClassVar[Mapping[str, str]] = {}

    def make_sink(self) -> Sink:
        return ParquetFiles("things", schema=SCHEMA, at=self.at)

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


class TestParquetFilesInStoreInBuckets(InBuckets, TestParquetFilesInStore):
    """Objects that are named after buckets."""


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
