"""What it takes to keep the failures of many lanes at once: a few statements, and one look."""

import pytest
from sqlalchemy import event

from headrace.model.receipts import SliceError
from headrace.model.records import Deployment, Failure
from headrace.model.streams import LaneId, Slice, State, StreamId, Tenant
from headrace.policies import keeping
from headrace.store import open_store

ACME = StreamId("keep", "acme")


@pytest.fixture
def store(tmp_path):
    store = open_store(f"sqlite:///{tmp_path}/store.db")
    store.registry.deploy(Deployment("keep", "m.py", "00", "{tenant}.visits"))
    store.registry.add_tenant(Tenant("acme"))
    yield store
    store.close()


@pytest.fixture
def statements(store):
    found = []

    def asked(_connection, _cursor, statement, *_):
        # A row that is added is a call inside the process.
        if not statement.startswith("INSERT INTO headrace_failures "):
            found.append(statement)

    event.listen(store._database.engine, "before_cursor_execute", asked)
    return found


def failed(lane):
    piece = Slice(LaneId(*ACME, f"acme.visits[{lane}]"), "acme.visits", 0, 9, 1)
    headers = (("trace", b"1"),)
    error = SliceError(False, "BadRecord", "no", offset=3, raw_value=b"v", raw_headers=headers)
    return Failure(piece, error, 1.0, behind=4)


def test_many_lanes_that_stop_together_take_a_few_statements(store, statements):
    for _ in ("first", "again"):
        statements.clear()
        store.failures.keep([failed(lane) for lane in range(400)])
        assert len(statements) < 20
        store.registry.set_stream_state(ACME, State.SUSPENDED)
        store.registry.set_stream_state(ACME, State.ACTIVE)


def test_what_a_tenant_keeps_is_looked_at_once_for_all_of_them(store, monkeypatch):
    looked_at, kept_row = [], keeping.KeptRow
    monkeypatch.setattr(keeping, "KeptRow", lambda *row: looked_at.append(row) or kept_row(*row))
    store.failures.keep([failed(lane) for lane in range(100)])
    store.failures.keep([failed(lane) for lane in range(100, 200)])
    assert len(looked_at) == 100


def test_many_notes_take_a_few_statements(store, statements):
    store.failures.note([failed(lane) for lane in range(300)])
    assert len(statements) < 12
