"""The simulation of state: nothing is wrong but what is planted."""

import pytest

from headrace.ports import advance_groups
from headrace.state.copies import KnownState, StateCopies
from headrace.state.seen import PortionState
from headrace.testing.memory_store import MemoryPositions
from headrace.testing.memory_store.kept_state import KeptState
from headrace.testing.simulation import doors
from headrace.testing.simulation.keyed_state import simulate_state
from headrace.testing.simulation.run import silent

#: seeds in which a planted fault has to be found
ENOUGH = 60


@pytest.fixture(autouse=True)
def no_log_lines():
    with silent():
        yield


def first_wrong():
    """What is wrong with the first seed with which anything is."""
    return next((wrong for seed in range(ENOUGH) if (wrong := simulate_state(seed)[0])), [])


@pytest.mark.parametrize("first", range(0, 40, 10))
def test_state_is_what_the_log_says_whatever_happens(first):
    for seed in range(first, first + 10):
        wrong, counts = simulate_state(seed)
        assert not wrong, f"seed {seed}: {wrong}"
        assert counts["bins"]
        assert counts["copies"]


def test_a_zombie_that_is_told_the_state_of_now_is_found(monkeypatch):
    def loads(self, at, table, keys):
        return self._data.state.load(at.lane, table, keys)

    monkeypatch.setattr(MemoryPositions, "load_state", loads)
    assert first_wrong()


def test_state_that_is_saved_where_the_position_did_not_move_is_found(monkeypatch):
    def advances(positions, groups, states=()):
        moved = advance_groups(positions, groups)
        with positions.begin() as transaction:
            positions.save_state_in(transaction, [state for state in states if state is not None])
        return moved

    monkeypatch.setattr(doors, "advance_groups", advances)
    assert first_wrong()


def test_state_that_stays_where_a_lane_is_sent_back_is_found(monkeypatch):
    monkeypatch.setattr(KeptState, "sent", lambda *_, **__: None)
    assert first_wrong()


def test_state_of_a_call_that_did_not_count_is_found(monkeypatch):
    def counts_all(self, call):
        self._last |= call.changed

    monkeypatch.setattr(PortionState, "answered", counts_all)
    assert first_wrong()


@pytest.mark.parametrize("trusts", ["any epoch", "any place"])
def test_a_copy_that_is_trusted_where_it_is_not_right_is_found(monkeypatch, trusts):
    def takes(self, lane, place, epoch):
        found = self._drop(lane)
        if found is None:
            return KnownState()
        at, under, known = found
        right = at == place if trusts == "any epoch" else under == epoch
        return known if right else KnownState()

    monkeypatch.setattr(StateCopies, "take", takes)
    assert first_wrong()


def test_a_key_that_is_not_asked_for_again_after_a_takeover_is_found(monkeypatch):
    known = {}

    def remembers(self, at, table, keys):
        found = loads(self, at, table, keys)
        if found is None:
            return None
        rows = {
            key: row
            for key in keys
            if (row := known.setdefault((at.lane, key), found.rows.get(key))) is not None
        }
        return type(found)(rows, found.size)

    loads = MemoryPositions.load_state
    monkeypatch.setattr(MemoryPositions, "load_state", remembers)
    assert first_wrong()
