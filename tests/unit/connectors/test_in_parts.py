"""Rows of several tenants, to targets of which each has a part: what one costs the others."""

import orjson
import pyarrow as pa
import pytest

from headrace.connectors import in_parts
from headrace.connectors.changes import Change
from headrace.connectors.redis.servers import Cache
from headrace.connectors.search.servers import Cluster
from headrace.errors import TargetMissing
from headrace.model.streams import LaneId, Slice
from headrace.ports import Connections, Effect, Server, Site
from headrace.sinks import RedisHashes, SearchIndex

COLUMNS = {"id": "text", "size": "bigint"}
GONE = {"type": "index_not_found_exception", "reason": "no such alias"}
FULL = {"type": "cluster_block_exception", "reason": "read-only"}


def effect(tenant, rows):
    piece = Slice(LaneId("keep", tenant, 0), "visits", 0, 1, epoch=1)
    table = pa.table({"id": [f"k{n}" for n in range(rows)], "size": [1] * rows})
    return Effect((piece,), (1,), table)


class Fake:
    """A cluster, or a server, that says of documents of ``bad`` what ``error`` is."""

    def __init__(self, status, error):
        self.status, self.error = status, error
        self.offered = []

    def raw(self, method, path, body=None):
        if method == "GET":
            found = {name: {"type": kind} for name, kind in (("id", "text"), ("size", "long"))}
            return {"leads.v1": {"mappings": {"properties": found}}}
        assert path.startswith("/_bulk")
        actions = [orjson.loads(line)["index"] for line in body.splitlines()[::2]]
        self.offered += [action["_index"] for action in actions]
        return {"items": [{"index": self._judged(action["_index"])} for action in actions]}

    def _judged(self, index):
        if index.endswith("bad"):
            return {"status": self.status, "error": self.error}
        return {"status": 201}

    def each(self, commands, until_s):
        keys = [command[3] for command in commands[1:]]
        self.offered += [key.partition(":")[0] for key in keys]
        return [b"", *(self.error if key.startswith("bad:") else 1 for key in keys)]


def by_search(monkeypatch, fake, *effects, name="leads-{tenant}"):
    monkeypatch.setattr(Cluster, "raw", fake.raw)
    sink = SearchIndex(name, COLUMNS, key=("id",), newest_by="size", at="search")
    site = Site(Connections({}, "", servers={"search": Server("http://a")}), None)
    return sink.open(site).write(effects)


def by_redis(monkeypatch, fake, *effects, name="{tenant}"):
    monkeypatch.setattr(Cache, "each", fake.each)
    sink = RedisHashes(name, COLUMNS, key=("id",), newest_by="size", at="cache")
    site = Site(Connections({}, "", servers={"cache": Server("redis://a")}), None)
    return sink.open(site).write(effects)


@pytest.mark.parametrize(
    ("status", "error", "code"), [(404, GONE, "TargetMissing"), (403, FULL, "SinkUnavailable")]
)
def test_an_index_of_one_tenant_that_takes_nothing_costs_the_others_nothing(
    monkeypatch, status, error, code
):
    fake = Fake(status, error)
    told = by_search(
        monkeypatch, fake, effect("bad", 3000), effect("good", 3000), effect("fine", 10)
    )
    assert told[0].error.code == code
    assert [(one.error, one.refused) for one in told[1:]] == [(None, ())] * 2
    # One was alone, and the rest of its request was on its way with it.
    assert fake.offered.count("leads-bad") <= 1001
    assert fake.offered.count("leads-good") == 3000


def test_keys_of_one_tenant_that_nobody_may_write_cost_the_others_nothing(monkeypatch):
    fake = Fake(0, TargetMissing("its user lacks a right"))
    told = by_redis(monkeypatch, fake, effect("bad", 3000), effect("good", 3000))
    assert told[0].error.code == "TargetMissing"
    assert told[1].error is None
    assert not told[1].refused
    assert fake.offered.count("good") == 3000


def test_where_all_have_one_index_no_more_is_offered_when_it_is_gone(monkeypatch):
    class All(Fake):
        def _judged(self, _):
            return {"status": self.status, "error": self.error}

    fake = All(404, GONE)
    told = by_search(monkeypatch, fake, effect("a", 3000), effect("b", 3000), name="leads")
    assert {one.error.code for one in told} == {"TargetMissing"}
    assert len(fake.offered) == 1


@pytest.mark.parametrize(
    ("row_s", "sizes"), [(0.012, [1, 416, 416, 416, 251]), (0.0001, [1, 1000, 499])]
)
def test_of_a_slow_target_a_part_is_what_it_answers_in_time(monkeypatch, row_s, sizes):
    """A part of a thousand was never answered in time, and all of it was sent again and again."""
    now_s, asked = [100.0], []

    def ask(part):
        now_s[0] += row_s * len(part)
        asked.append(len(part))
        return [None] * len(part)

    monkeypatch.setattr(in_parts.time, "monotonic", lambda: now_s[0])
    changes = [Change(number, False, (f"k{number}",), 1) for number in range(1500)]
    assert in_parts.sent(changes, "keep", ask, "redis") == [None] * 1500
    assert asked == sizes
