"""What every store must do about drivers that share it, as tests; for ``Membership``."""

# A test's name is its sentence.
# ruff: noqa: D102

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from headrace.errors import Fenced
from headrace.model.places import place_at
from headrace.model.records import Answer, Peer
from headrace.model.streams import Slice, StreamId
from headrace.model.waves import Bin, Wave
from headrace.ports import Store
from headrace.testing.store_contract.begun import ACME, BOLT, SCORE, lane, started

RUNS = Answer("d1", "score", 7, "ab12", 12.5)
#: text of others is kept to the last character
REFUSES = Answer("d1", "mail", 8, None, 13.0, "no \0 server \ud800", again=True)


def _deployed(store: Store) -> int:
    (found,) = store.registry.deployments()
    return found.revision


def _holders(store: Store) -> dict[StreamId, str | None]:
    return {stream.id: stream.holder for stream in store.registry.streams()}


def _seen(store: Store, by: str, number: int) -> dict[str, Peer]:
    return {peer.name: peer for peer in store.membership.beat(by, number)}


class TestMembership:
    """The promises about who holds what, and what drivers say to deployments."""

    def test_who_was_replaced_neither_gives_nor_takes_what_its_successor_has(
        self, store: Store
    ) -> None:
        started(store, 0)
        old, new = (store.membership.join("d1", ["score"]) for _ in range(2))
        assert store.membership.hold([ACME], "d1", old) == {}
        held = store.membership.hold([ACME], "d1", new)
        store.membership.release("d1", old, [ACME])
        assert {stream.id: stream.holder for stream in store.registry.streams()} == {
            ACME: "d1",
            BOLT: None,
        }
        assert held == {ACME: store.registry.streams()[0].epoch}
        store.membership.release("d1", new, [ACME])
        assert store.registry.streams()[0].holder is None

    def test_who_joins_again_does_not_replace_another_process_of_its_name(
        self, store: Store
    ) -> None:
        store.membership.join("d1", ["score"], process="old")
        again = store.membership.join("d1", ["score"], process="old", again=True)
        assert [peer.name for peer in store.membership.beat("d1", again)] == ["d1"]
        new = store.membership.join("d1", ["score"], process="new")
        with pytest.raises(Fenced):
            store.membership.join("d1", ["score"], process="old", again=True)
        with pytest.raises(Fenced):
            store.membership.join("d1", ["score"], process="old")
        assert store.membership.beat("d1", new)
        store.membership.leave("d1", new)
        assert store.membership.beat(
            "d1", store.membership.join("d1", ["score"], process="old", again=True)
        )

    def test_a_stream_of_which_a_wave_is_written_down_is_not_given_back(self, store: Store) -> None:
        started(store, 0)
        number = store.membership.join("d1", ["score"])
        epoch = store.membership.hold([ACME, BOLT], "d1", number)[ACME]
        piece = Slice(lane(0), "acme.visits", place_at(0), place_at(5), epoch)
        assert store.progress.record_intent(Wave("w1", "score", (Bin((piece,), 1.0),), 1.0), "d1")
        store.membership.release("d1", number, [ACME, BOLT])
        assert _holders(store) == {ACME: "d1", BOLT: None}
        store.progress.finish_intent("w1", [], "d1", over=[piece])
        store.membership.release("d1", number, [ACME, BOLT])
        assert _holders(store) == {ACME: None, BOLT: None}

    def test_who_leaves_gives_back_all_that_no_unfinished_wave_is_of(self, store: Store) -> None:
        started(store, 0)
        number, heir = (store.membership.join(name, ["score"]) for name in ("d1", "d2"))
        epoch = store.membership.hold([ACME, BOLT], "d1", number)[ACME]
        piece = Slice(lane(0), "acme.visits", place_at(0), place_at(5), epoch)
        wave = Wave("w1", "score", (Bin((piece,), 1.0),), 1.0)
        assert store.progress.record_intent(wave, "d1")
        store.membership.beat("d1", number)
        store.membership.leave("d1", number)
        assert _holders(store) == {ACME: "d1", BOLT: None}
        (dead,) = [driver for driver in store.membership.drivers() if driver.name == "d1"]
        assert dead.beats == 0
        assert store.membership.adopt("d2", heir, dead)
        assert _holders(store) == {ACME: "d2", BOLT: None}
        assert store.progress.pending_intents("d2") == [wave]

    def test_who_leaves_keeps_what_still_runs_for_an_heir_and_no_lease_longer(
        self, store: Store
    ) -> None:
        started(store, 0)
        number, heir = (store.membership.join(name, ["score"]) for name in ("d1", "d2"))
        store.membership.hold([ACME, BOLT], "d1", number)
        store.membership.beat("d1", number)
        before = store.revision()
        store.membership.leave("d1", number, [ACME])
        assert store.revision() > before
        assert _holders(store) == {ACME: "d1", BOLT: None}
        left = _seen(store, "d2", heir)["d1"]
        assert left.beats == 0
        assert store.membership.adopt("d2", heir, left)
        assert _holders(store) == {ACME: "d2", BOLT: None}

    def test_what_runs_of_others_keeps_nobody_from_leaving(self, store: Store) -> None:
        started(store, 0)
        number, other = (store.membership.join(name, ["score"]) for name in ("d1", "d2"))
        store.membership.hold([ACME], "d2", other)
        store.membership.hold([BOLT], "d1", number)
        store.membership.leave("d1", number, [ACME, StreamId("score", "unknown")])
        assert _holders(store) == {ACME: "d2", BOLT: None}
        assert list(_seen(store, "d2", other)) == ["d2"]

    def test_a_driver_that_comes_back_is_another_one(self, store: Store) -> None:
        first = store.membership.join("d1", ["score"])
        store.membership.leave("d1", first)
        assert store.membership.join("d1", ["score"]) > first

    def test_an_heir_has_all_that_the_dead_one_had(self, store: Store) -> None:
        started(store, 0)
        dead, heir = store.membership.join("d1", ["score"]), store.membership.join("d2", ["score"])
        store.membership.hold([ACME], "d1", dead)
        store.progress.record_intent(Wave("w1", "score", (), 1.0), "d1")
        as_seen = _seen(store, "d2", heir)["d1"]
        before = store.revision()
        assert store.membership.adopt("d2", heir, as_seen)
        assert store.revision() > before
        assert _holders(store) == {ACME: "d2", BOLT: None}
        assert [wave.id for wave in store.progress.pending_intents("d2")] == ["w1"]
        assert store.membership.beat("d1", dead) == []
        assert not store.membership.adopt("d2", heir, as_seen)

    def test_one_that_has_beaten_since_is_not_inherited_from(self, store: Store) -> None:
        started(store, 0)
        living, heir = (
            store.membership.join("d1", ["score"]),
            store.membership.join("d2", ["score"]),
        )
        store.membership.hold([ACME], "d1", living)
        as_seen = _seen(store, "d2", heir)["d1"]
        store.membership.beat("d1", living)
        assert not store.membership.adopt("d2", heir, as_seen)
        assert _holders(store)[ACME] == "d1"

    def test_an_heir_that_was_replaced_inherits_nothing(self, store: Store) -> None:
        started(store, 0)
        dead, heir = store.membership.join("d1", ["score"]), store.membership.join("d2", ["score"])
        store.membership.hold([ACME], "d1", dead)
        as_seen = _seen(store, "d2", heir)["d1"]
        successor = store.membership.join("d2", ["other"])
        assert not store.membership.adopt("d2", heir, as_seen)
        assert _holders(store)[ACME] == "d1"
        assert set(_seen(store, "d2", successor)) == {"d1", "d2"}

    def test_an_heir_that_was_given_up_for_dead_inherits_nothing(self, store: Store) -> None:
        started(store, 0)
        first, second = (
            store.membership.join("d1", ["score"]),
            store.membership.join("d2", ["score"]),
        )
        store.membership.hold([ACME], "d1", first)
        seen = _seen(store, "d2", second)
        assert store.membership.adopt("d1", first, seen["d2"])
        assert not store.membership.adopt("d2", second, seen["d1"])
        assert not store.membership.adopt("d1", first, seen["d1"]), (
            "nor does anybody inherit from himself"
        )
        assert _holders(store)[ACME] == "d1"

    def test_what_is_in_the_name_of_no_driver_can_be_inherited(self, store: Store) -> None:
        started(store, 0)
        store.membership.hold([ACME], "lost")
        store.progress.record_intent(Wave("w1", "other", (), 1.0), "gone")
        heir = store.membership.join("d1", ["score", "other"])
        seen = _seen(store, "d1", heir)
        assert seen["lost"] == Peer("lost", heir, 0, frozenset({"score"}))
        assert seen["gone"] == Peer("gone", heir, 0, frozenset({"other"}))
        assert store.membership.adopt("d1", heir, seen["lost"])
        assert store.membership.adopt("d1", heir, seen["gone"])
        assert _holders(store) == {ACME: "d1", BOLT: None}
        assert [wave.id for wave in store.progress.pending_intents("d1")] == ["w1"]

    def test_whoever_joins_under_a_lost_name_has_what_is_in_it(self, store: Store) -> None:
        started(store, 0)
        store.membership.hold([ACME], "lost")
        store.membership.join("d1", ["score"])
        number = store.membership.join("lost", ["score"])
        assert set(store.membership.hold([ACME, BOLT], "lost", number)) == {ACME, BOLT}

    def test_each_deployment_has_a_larger_revision_also_of_what_is_there(
        self, store: Store
    ) -> None:
        assert store.registry.deploy(SCORE)
        first = _deployed(store)
        assert store.registry.deploy(SCORE)
        again = _deployed(store)
        assert 0 < first < again
        assert not store.registry.deploy(SCORE, anew=True)
        assert _deployed(store) == again
        assert store.registry.deployments() == [SCORE], "and is the same one in all that counts"

    def test_what_was_deployed_meanwhile_is_not_deployed_over(self, store: Store) -> None:
        assert not store.registry.deploy(SCORE, over=SCORE), "it is not there"
        store.registry.deploy(SCORE)
        (read,) = store.registry.deployments()
        newer = replace(SCORE, digest="cd34")
        assert store.registry.deploy(newer, over=read)
        assert not store.registry.deploy(SCORE, over=read)
        assert store.registry.deployments() == [newer]

    def test_what_a_deployment_says_to_people_is_kept(self, store: Store) -> None:
        told = replace(SCORE, guarantee="exactly-once", sink="SqlTable(name='scores')")
        store.registry.deploy(told)
        (found,) = store.registry.deployments()
        assert (found.guarantee, found.sink) == (told.guarantee, told.sink)

    def test_drivers_are_seen_without_being_one(self, store: Store) -> None:
        assert store.membership.drivers() == []
        store.membership.join("d2", ["score"])
        number = store.membership.join("d1", ["score"])
        store.membership.beat("d1", number)
        assert [(driver.name, driver.beats) for driver in store.membership.drivers()] == [
            ("d1", 1),
            ("d2", 0),
        ]

    def test_an_answer_is_what_a_driver_said_last(
        self, store: Store, open_again: Callable[[], Store]
    ) -> None:
        first, second = (
            store.membership.join("d1", ["score"]),
            store.membership.join("d2", ["score"]),
        )
        before = store.revision()
        assert store.membership.answer("d1", first, [RUNS, REFUSES])
        other = replace(RUNS, driver="d2")
        assert store.membership.answer("d2", second, [other])
        again = open_again()
        assert again.membership.answers() == [REFUSES, RUNS, other]
        again.close()
        newer = replace(RUNS, revision=9)
        assert store.membership.answer("d1", first, [newer])
        assert store.membership.answers() == [newer, other]
        assert store.revision() == before, "nobody has to look again because of it"

    def test_who_is_no_driver_any_more_has_no_say(self, store: Store) -> None:
        assert not store.membership.answer("d1", 1, [RUNS])
        old = store.membership.join("d1", ["score"])
        store.membership.answer("d1", old, [RUNS])
        new = store.membership.join("d1", ["score"])
        assert store.membership.answers() == [], "another one of the name has said nothing yet"
        assert not store.membership.answer("d1", old, [RUNS])
        assert store.membership.answer("d1", new, [RUNS])
        store.membership.leave("d1", new)
        assert store.membership.answers() == []

    def test_nobody_waits_for_the_word_of_the_dead(self, store: Store) -> None:
        started(store, 0)
        dead, heir = store.membership.join("d1", ["score"]), store.membership.join("d2", ["score"])
        store.membership.answer("d1", dead, [RUNS])
        (as_seen,) = [driver for driver in store.membership.drivers() if driver.name == "d1"]
        assert store.membership.adopt("d2", heir, as_seen)
        assert store.membership.answers() == []
        assert not store.membership.answer("d1", dead, [RUNS])
