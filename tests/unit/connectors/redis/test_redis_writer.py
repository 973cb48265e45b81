"""Rows that are offered to a server which takes its time, while others wait."""

import time

import pyarrow as pa

from headrace.connectors.redis import hashes
from headrace.connectors.tenants import MOMENT_S
from headrace.model.streams import LaneId, Slice
from headrace.ports import Connections, Effect, Server, Site
from headrace.sinks import RedisHashes


class SlowCache:
    """Answers everything, a while later for each."""

    def each(self, commands, until_s):
        time.sleep(len(commands) * MOMENT_S / 500)
        return [None] * len(commands)


def test_a_slow_server_of_a_tenant_has_its_moment_where_others_wait(monkeypatch):
    monkeypatch.setattr(hashes, "cache_of", lambda *_, **__: SlowCache())
    site = Site(Connections({}, "", servers={"c": Server("redis://{tenant}")}), None)
    sink = RedisHashes("x", {"id": "bigint"}, key=("id",), newest_by="id", at="c")
    rows = pa.table({"id": pa.array(range(3_000), pa.int64())})
    effect = Effect((Slice(LaneId("keep", "acme", 0), "visits", 0, 9, epoch=1),), (9,), rows)
    began_s = time.monotonic()
    [told] = sink.open(Site(site.connections, None, in_company=True)).write([effect])
    assert time.monotonic() - began_s < 2 * MOMENT_S
    assert told.error.code == "TenantsSinkSlow"
