"""What people are shown is told by the words it begins with."""

import pytest

from headrace.model.statistics import ShownState


@pytest.mark.parametrize("state", ShownState)
def test_each_state_is_shown_by_its_own_words(state):
    assert ShownState.of(state.value) is state


def test_what_only_some_lanes_are_in_is_that_state():
    assert ShownState.of("suspended 1/4") is ShownState.SUSPENDED


@pytest.mark.parametrize("shown", ["", "suspendedly", "of another version"])
def test_what_is_strange_is_unknown(shown):
    assert ShownState.of(shown) is ShownState.UNKNOWN
