"""Tables of one column, in a folder or an object store, as the suite of sinks writes them."""

import json
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.connectors.object_stores import stores
from headrace.ports import Connections, Site
from headrace.testing.sink_contract import Seen
from s3_relay import Relay, said
from still_there import StillThere

SCHEMA = pa.schema([("value", pa.string())])


class PlainValues:
    """What suites of such tables have in common."""

    def table(self, values):
        return pa.table({"value": list(values)}, schema=SCHEMA)

    def refused_table(self):
        return pa.table({"value": [1]})

    def wrong_table(self):
        return pa.table({"other": ["a"]})


class InStore(PlainValues):
    """A bucket of a real S3 server, of which all is asked through a relay that can lose an answer.

    ``folder`` is where the server keeps it.
    """

    @pytest.fixture(autouse=True)
    def _bucket(self, s3, monkeypatch):
        monkeypatch.setattr(stores._stores, "held", {})
        monkeypatch.setattr(stores, "_proofs", {})
        bucket = s3.make_bucket()
        self.folder = s3.folder_of(bucket)
        with Relay(s3.port) as self.relay:
            self.server = s3.at(bucket, self.relay.port)
            yield

    def site(self):
        connections = Connections({}, "sqlite:///unused.db", servers={"lake": self.server})
        return Site(connections, StillThere(), wave_id="wave", fence="0")

    @contextmanager
    def refusing_for_now(self):
        self.relay.always = said(503, "SlowDown")
        yield
        self.relay.always = None


class DeltaLog:
    """A Delta table as its files tell it; ``things`` is where they are."""

    def forgetting(self):
        """Delta forgets the ids of applications after a while that its users choose."""
        knew = False
        for commit in self.things.glob("_delta_log/*.json"):
            lines = commit.read_text().splitlines(keepends=True)
            kept = [line for line in lines if "txn" not in json.loads(line)]
            knew = knew or kept != lines
            commit.write_text("".join(kept))
        return knew

    def read_back(self):
        """All that the log names, commit by commit."""
        seen = []
        for commit in sorted(self.things.glob("_delta_log/*.json")):
            for line in commit.read_text().splitlines():
                path = json.loads(line).get("add", {}).get("path")
                if path is not None:
                    values = pq.read_table(self.things / path)["value"].to_pylist()
                    seen += [Seen(f"{path}:{row}", value) for row, value in enumerate(values)]
        return seen
