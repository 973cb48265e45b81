"""What a driver reads of failures after each change: as many rows as it has stopped lanes."""

import sys

import pytest
from sqlalchemy import event

from headrace.model.receipts import SliceError
from headrace.model.records import Deployment, Failure
from headrace.model.streams import LaneId, Slice, StreamId, Tenant
from headrace.store import open_store

RECORD = bytes(100_000)


@pytest.fixture
def store(tmp_path):
    store = open_store(f"sqlite:///{tmp_path}/store.db")
    store.registry.deploy(Deployment("keep", "m.py", "00", "{tenant}.visits"))
    for number in range(40):
        stream = StreamId("keep", f"t{number:02}")
        store.registry.add_tenant(Tenant(stream.tenant))
        store.membership.hold([stream], "mine" if number < 3 else "other")
        piece = Slice(
            LaneId(*stream, f"{stream.tenant}.visits[0]"), f"{stream.tenant}.visits", 0, 9, 1
        )
        error = SliceError(False, "HandlerError", "no", RECORD.hex(), offset=3, raw_value=RECORD)
        store.failures.keep([Failure(piece, error, 1.0)])[0]
    yield store
    store.close()


@pytest.fixture
def read(store):
    """What the store was asked, and how many rows and bytes came of it."""
    found = {"statements": [], "rows": 0, "bytes": 0}

    def asked(_connection, cursor, statement, parameters, *_):
        if not statement.startswith("SELECT"):
            return
        found["statements"].append(statement)
        for row in cursor.connection.execute(statement, parameters):
            found["rows"] += 1
            found["bytes"] += sum(sys.getsizeof(value) for value in row)

    event.listen(store._database.engine, "after_cursor_execute", asked)
    return found


def test_a_driver_reads_its_own_stopped_lanes_and_no_record(store, read):
    lanes = store.failures.stopped_lanes("mine")
    assert [lane.tenant for lane in lanes] == ["t00", "t01", "t02"]
    assert read["rows"] == 3
    assert read["bytes"] < 1_000
    (statement,) = read["statements"]
    assert "raw_value" not in statement


def test_a_look_that_reads_records_would_be_counted(store, read):
    store.failures.every(only_open=True)
    assert read["bytes"] > 40 * len(RECORD)
