"""The simulation with streams that read lists of topics, or what a pattern matches.

Of these, topics vanish and are made again while others stay, and some come while they are read; of
tenants whom nobody added there are topics, too.
"""

from collections import Counter

import pytest
from planted import also, first_wrong

from headrace.cycle import described, first_places, lineage, losses, newcomers, topics
from headrace.model.starting import Edge
from headrace.model.topic_lists import ALL, id_of_list, ids_in, others
from headrace.testing.simulation import simulate
from headrace.testing.simulation.run import silent

SEVERAL = {"lists": 0.5, "patterns": 0.6, "deletes": 0.6}


@pytest.fixture(autouse=True)
def no_log_lines():
    with silent():
        yield


@pytest.mark.parametrize("first", range(0, 100, 20))
def test_nothing_is_wrong_where_streams_read_several_topics(first):
    for seed in range(first, first + 20):
        outcome = simulate(seed, odds=SEVERAL)
        assert not outcome.wrong, str(outcome)


def test_several_topics_are_played():
    counts = sum((simulate(seed, odds=SEVERAL).counts for seed in range(40)), start=Counter())
    for what in (
        "use cases of a list",
        "use cases of a pattern",
        "topics deleted",
        "topics that came later",
        "tenants added by drivers",
    ):
        assert counts[what] > 0, what


def test_a_topic_of_several_that_is_made_again_and_counts_as_the_one_before_is_found(monkeypatch):
    def forgetful(was, now):
        return id_of_list({**ids_in(now), **ids_in(was)}) if "{" in now else now

    also(monkeypatch, SEVERAL)
    monkeypatch.setattr(described, "with_known", forgetful)
    assert first_wrong(how="made again")


def test_a_topic_that_comes_by_a_pattern_and_begins_at_its_end_is_found(monkeypatch):
    also(monkeypatch, {**SEVERAL, "lists": 0.0})
    monkeypatch.setattr(first_places, "starting_of", lambda held: Edge.LATEST)
    assert first_wrong(how="its log at")


def test_a_topic_of_several_that_is_away_and_taken_for_a_loss_is_found(monkeypatch):
    also(monkeypatch, {**SEVERAL, "splits": 0.3})
    for module in (lineage, losses, topics):
        monkeypatch.setattr(module, "listed_or_away", lambda held, info: set(info.lanes))
    assert first_wrong(how="its topic may come again", known=110)


def test_one_topic_made_again_after_which_all_begin_anew_is_found(monkeypatch):
    also(monkeypatch, SEVERAL)
    monkeypatch.setattr(losses, "others", lambda was, now: ALL if others(was, now) else frozenset())
    assert first_wrong(how="decisions that cannot be")


def test_a_tenant_whom_no_driver_adds_is_found(monkeypatch):
    also(monkeypatch, {**SEVERAL, "lists": 0.0})
    monkeypatch.setattr(newcomers.Newcomers, "_add", lambda *_: False)
    assert first_wrong(how="unknown tenants")
