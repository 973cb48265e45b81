"""What every store must do about what drivers say to deployments; a part of ``StoreContract``."""

# The names of the tests are the promises.
# ruff: noqa: D102

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from headrace.model.records import Answer
from headrace.ports import Store
from headrace.testing.store_contract_positions import SCORE, started

RUNS = Answer("d1", "score", 7, "ab12", 12.5)
#: text of others is kept to the last character
REFUSES = Answer("d1", "mail", 8, None, 13.0, "no \0 server \ud800", again=True)


def _deployed(store: Store) -> int:
    (found,) = store.deployments()
    return found.revision


class AnswersContract:
    """The promises about deployments that drivers answer."""

    def test_each_deployment_has_a_larger_revision_also_of_what_is_there(
        self, store: Store
    ) -> None:
        assert store.deploy(SCORE)
        first = _deployed(store)
        assert store.deploy(SCORE)
        again = _deployed(store)
        assert 0 < first < again
        assert not store.deploy(SCORE, anew=True)
        assert _deployed(store) == again
        assert store.deployments() == [SCORE], "and is the same one in all that counts"

    def test_what_was_deployed_meanwhile_is_not_deployed_over(self, store: Store) -> None:
        assert not store.deploy(SCORE, over=SCORE), "it is not there"
        store.deploy(SCORE)
        (read,) = store.deployments()
        newer = replace(SCORE, digest="cd34")
        assert store.deploy(newer, over=read)
        assert not store.deploy(SCORE, over=read)
        assert store.deployments() == [newer]

    def test_what_a_deployment_says_to_people_is_kept(self, store: Store) -> None:
        told = replace(SCORE, guarantee="exactly-once", sink="SqlTable(name='scores')")
        store.deploy(told)
        (found,) = store.deployments()
        assert (found.guarantee, found.sink) == (told.guarantee, told.sink)

    def test_drivers_are_seen_without_being_one(self, store: Store) -> None:
        assert store.drivers() == []
        store.join("d2", ["score"])
        number = store.join("d1", ["score"])
        store.beat("d1", number)
        assert [(each.name, each.beats) for each in store.drivers()] == [("d1", 1), ("d2", 0)]

    def test_an_answer_is_what_a_driver_said_last(
        self, store: Store, open_again: Callable[[], Store]
    ) -> None:
        first, second = store.join("d1", ["score"]), store.join("d2", ["score"])
        before = store.revision()
        assert store.answer("d1", first, [RUNS, REFUSES])
        other = replace(RUNS, driver="d2")
        assert store.answer("d2", second, [other])
        again = open_again()
        assert again.answers() == [REFUSES, RUNS, other]
        again.close()
        newer = replace(RUNS, revision=9)
        assert store.answer("d1", first, [newer])
        assert store.answers() == [newer, other]
        assert store.revision() == before, "nobody has to look again because of it"

    def test_who_is_no_driver_any_more_has_no_say(self, store: Store) -> None:
        assert not store.answer("d1", 1, [RUNS])
        old = store.join("d1", ["score"])
        store.answer("d1", old, [RUNS])
        new = store.join("d1", ["score"])
        assert store.answers() == [], "another one of the name has said nothing yet"
        assert not store.answer("d1", old, [RUNS])
        assert store.answer("d1", new, [RUNS])
        store.leave("d1", new)
        assert store.answers() == []

    def test_nobody_waits_for_the_word_of_the_dead(self, store: Store) -> None:
        started(store, 0)
        dead, heir = store.join("d1", ["score"]), store.join("d2", ["score"])
        store.answer("d1", dead, [RUNS])
        (as_seen,) = [each for each in store.drivers() if each.name == "d1"]
        assert store.adopt("d2", heir, as_seen)
        assert store.answers() == []
        assert not store.answer("d1", dead, [RUNS])
