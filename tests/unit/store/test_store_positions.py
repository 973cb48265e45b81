"""How positions come to tasks; what they promise is in the contract suite."""

import os
import pickle

import pytest

from headrace.errors import ConfigError
from headrace.model.records import Move
from headrace.model.streams import LaneId
from headrace.ports import Connections
from headrace.store import SqlPositionsFactory
from headrace.store.database import open_database
from headrace.store.positions import _rounds, advance

MOVE = Move(LaneId("score", "acme", "acme.visits[0]"), 0, 1, 1)


def connections(path):
    return Connections(kafka={}, database_url=f"sqlite:///{path}")


def test_the_factory_travels_by_pickle_and_contacts_nobody():
    factory = pickle.loads(pickle.dumps(SqlPositionsFactory()))
    elsewhere = Connections(kafka={}, database_url="postgresql://me:s3cret@127.0.0.1:1/none")
    positions = factory.open(elsewhere)
    assert repr(positions) == "SqlPositions(postgresql://127.0.0.1:1/none)"


def test_a_process_has_one_pool_for_each_store(tmp_path):
    first = SqlPositionsFactory().open(connections(tmp_path / "a.db"))
    same = SqlPositionsFactory().open(connections(tmp_path / "a.db"))
    other = SqlPositionsFactory().open(connections(tmp_path / "b.db"))
    assert first._database is same._database
    assert first._database is not other._database


def test_a_forked_worker_makes_a_pool_of_its_own(tmp_path, monkeypatch):
    before = SqlPositionsFactory().open(connections(tmp_path / "a.db"))
    monkeypatch.setattr(os, "getpid", lambda: -1)
    after = SqlPositionsFactory().open(connections(tmp_path / "a.db"))
    assert after._database is not before._database


def test_a_store_without_tables_is_told(tmp_path):
    positions = SqlPositionsFactory().open(connections(tmp_path / "a.db"))
    with pytest.raises(ConfigError, match="no tables"):
        positions.advance([MOVE])
    with positions.begin() as transaction, pytest.raises(ConfigError, match="no tables"):
        positions.advance_in(transaction, [MOVE])
    positions._database.close()


def test_nothing_moves_outside_a_transaction(tmp_path):
    database = open_database(f"sqlite:///{tmp_path}/a.db")
    with (
        database.engine.connect() as connection,
        pytest.raises(AssertionError, match="inside a transaction"),
    ):
        advance(connection, [MOVE])
    database.close()


def test_no_lane_comes_twice_in_a_round_and_rounds_keep_the_order():
    other = Move(LaneId("score", "bolt", "bolt.visits[0]"), 0, 1, 1)
    rounds = list(_rounds([MOVE, MOVE, other, MOVE, other]))
    assert [[number for number, _ in round_] for round_ in rounds] == [[0, 2], [1, 4], [3]]
