"""A table and its positions after a task was killed, and against a zombie."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
from contextlib import closing

import pyarrow as pa
import pytest
from sqlalchemy import create_engine, text

from headrace.model.records import Deployment, LaneStart
from headrace.model.streams import LaneId, Slice, StreamId, Tenant
from headrace.ports import Connections, Effect, Site
from headrace.sinks import SqlTable
from headrace.store import open_store

_STREAM = StreamId("score", "acme")
_SINK = SqlTable(
    "scores",
    {"lead": "text", "score": "bigint"},
    key=("lead",),
    update={"score": "scores.score + excluded.score"},
)
_STALL_BEFORE_COMMIT = """
import sys, time
from contextlib import contextmanager
import pyarrow as pa
from headrace.model.streams import LaneId, Slice
from headrace.ports import Connections, Effect, Site
from headrace.sinks import SqlTable
from headrace.store import SqlPositionsFactory

class Stalling:
    def __init__(self, real):
        self.advance_in = real.advance_in
        self.real = real

    @contextmanager
    def begin(self):
        with self.real.begin() as connection:
            yield connection
            print("written", flush=True)
            time.sleep(60)

connections = Connections({}, sys.argv[1])
site = Site(connections, Stalling(SqlPositionsFactory().open(connections)))
sink = SqlTable("scores", {"lead": "text", "score": "bigint"}, ("lead",), {"score": "0"})
piece = Slice(LaneId("score", "acme", "t[0]"), "t", 0, 1, epoch=1)
sink.open(site).write([Effect((piece,), (1,), pa.table({"lead": ["a"], "score": [5]}), True)])
"""


@pytest.fixture
def store(tmp_path):
    made = open_store(f"sqlite:///{tmp_path}/store.db")
    made.registry.deploy(Deployment("score", "score.py", "0", "{tenant}.visits"))
    made.registry.add_tenant(Tenant("acme"))
    made.membership.hold([_STREAM])
    made.progress.start_lanes([LaneStart(_STREAM, "id", {"t[0]": 0})])
    yield made
    made.close()


@pytest.fixture
def site(store, tmp_path):
    made = Site(Connections({}, f"sqlite:///{tmp_path}/store.db"), store.positions)
    _SINK.prepare(made)
    return made


def _effect(epoch=1, tenant="acme", lead="a"):
    piece = Slice(LaneId("score", tenant, "t[0]"), "t", 0, 1, epoch)
    return Effect((piece,), (1,), pa.table({"lead": [lead], "score": [5]}), move_positions=True)


def _rows(site):
    engine = create_engine(site.connections.database_url)
    with engine.connect() as connection:
        rows = [tuple(row) for row in connection.execute(text("SELECT lead, score FROM scores"))]
    engine.dispose()
    return rows


def test_a_task_killed_before_its_commit_leaves_nothing_and_its_slice_can_run_again(site, store):
    with subprocess.Popen(
        [sys.executable, "-c", _STALL_BEFORE_COMMIT, site.connections.database_url],
        stdout=subprocess.PIPE,
        text=True,
    ) as task:
        assert task.stdout.readline() == "written\n"
        task.send_signal(signal.SIGKILL)
    assert _rows(site) == []
    assert [position.next_offset for position in store.progress.load_positions()] == [0]
    assert _SINK.open(site).write([_effect()])[0].committed
    assert _rows(site) == [("a", 5)]


def test_a_zombie_writes_nothing_once_another_driver_holds_the_stream(site, store):
    epoch = store.membership.hold([_STREAM])[_STREAM]
    assert _SINK.open(site).write([_effect(epoch=1)])[0].superseded
    assert _rows(site) == []
    assert _SINK.open(site).write([_effect(epoch)])[0].committed
    assert _SINK.open(site).write([_effect(epoch)])[0].superseded
    assert _rows(site) == [("a", 5)]


AT_THE_COMMIT = """
CREATE TABLE leads (lead TEXT PRIMARY KEY);
INSERT INTO leads VALUES ('a'), ('c');
DROP TABLE scores;
CREATE TABLE scores (
    lead TEXT PRIMARY KEY REFERENCES leads (lead) DEFERRABLE INITIALLY DEFERRED, score BIGINT
);
"""
ALL_ROLLED_BACK = """
CREATE TRIGGER leads BEFORE INSERT ON scores WHEN new.lead = 'b'
BEGIN SELECT RAISE(ROLLBACK, 'nobody knows it'); END;
"""


@pytest.mark.parametrize("made", [AT_THE_COMMIT, ALL_ROLLED_BACK])
def test_whose_row_is_refused_late_costs_no_other_tenant_and_holds_no_lock(
    site, store, tmp_path, made
):
    for tenant in ("bolt", "cove"):
        store.registry.add_tenant(Tenant(tenant))
        store.progress.start_lanes([LaneStart(StreamId("score", tenant), "id", {"t[0]": 0})])
    with closing(sqlite3.connect(tmp_path / "store.db")) as connection:
        connection.executescript(made)
    streams = [StreamId("score", tenant) for tenant in ("acme", "bolt", "cove")]
    epochs = store.membership.hold(streams)
    three = [_effect(epochs[s], s.tenant, lead) for s, lead in zip(streams, "abc", strict=True)]
    told = _SINK.open(site).write(three)
    assert [(written.committed, written.error is None) for written in told] == [
        (True, True),
        (False, False),
        (True, True),
    ]
    assert _rows(site) == [("a", 5), ("c", 5)]
    with closing(sqlite3.connect(tmp_path / "store.db", timeout=0)) as another:
        another.execute("BEGIN IMMEDIATE")
