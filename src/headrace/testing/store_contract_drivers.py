"""What every store must do about drivers that share it; a part of ``StoreContract``."""

# The names of the tests are the promises.
# ruff: noqa: D102

from __future__ import annotations

from headrace.model.records import Peer
from headrace.model.streams import StreamId
from headrace.model.waves import Wave
from headrace.ports import Store
from headrace.testing.store_contract_positions import ACME, BOLT, started


def _holders(store: Store) -> dict[StreamId, str | None]:
    return {each.id: each.holder for each in store.streams()}


def _seen(store: Store, by: str, number: int) -> dict[str, Peer]:
    return {each.name: each for each in store.beat(by, number)}


class DriversContract:
    """The promises about who holds what."""

    def test_who_was_replaced_neither_gives_nor_takes_what_its_successor_has(
        self, store: Store
    ) -> None:
        started(store, 0)
        old, new = (store.join("d1", ["score"]) for _ in range(2))
        assert store.hold([ACME], "d1", old) == {}
        held = store.hold([ACME], "d1", new)
        store.release("d1", old, [ACME])
        assert {each.id: each.holder for each in store.streams()} == {ACME: "d1", BOLT: None}
        assert held == {ACME: store.streams()[0].epoch}
        store.release("d1", new, [ACME])
        assert store.streams()[0].holder is None

    def test_a_driver_that_comes_back_is_another_one(self, store: Store) -> None:
        first = store.join("d1", ["score"])
        store.leave("d1", first)
        assert store.join("d1", ["score"]) > first

    def test_an_heir_has_all_that_the_dead_one_had(self, store: Store) -> None:
        started(store, 0)
        dead, heir = store.join("d1", ["score"]), store.join("d2", ["score"])
        store.hold([ACME], "d1", dead)
        store.record_intent(Wave("w1", "score", (), 1.0), "d1")
        as_seen = _seen(store, "d2", heir)["d1"]
        before = store.revision()
        assert store.adopt("d2", heir, as_seen)
        assert store.revision() > before
        assert _holders(store) == {ACME: "d2", BOLT: None}
        assert [each.id for each in store.pending_intents("d2")] == ["w1"]
        assert store.beat("d1", dead) == []
        assert not store.adopt("d2", heir, as_seen)

    def test_one_that_has_beaten_since_is_not_inherited_from(self, store: Store) -> None:
        started(store, 0)
        living, heir = store.join("d1", ["score"]), store.join("d2", ["score"])
        store.hold([ACME], "d1", living)
        as_seen = _seen(store, "d2", heir)["d1"]
        store.beat("d1", living)
        assert not store.adopt("d2", heir, as_seen)
        assert _holders(store)[ACME] == "d1"

    def test_an_heir_that_was_replaced_inherits_nothing(self, store: Store) -> None:
        started(store, 0)
        dead, heir = store.join("d1", ["score"]), store.join("d2", ["score"])
        store.hold([ACME], "d1", dead)
        as_seen = _seen(store, "d2", heir)["d1"]
        successor = store.join("d2", ["other"])
        assert not store.adopt("d2", heir, as_seen)
        assert _holders(store)[ACME] == "d1"
        assert set(_seen(store, "d2", successor)) == {"d1", "d2"}

    def test_an_heir_that_was_given_up_for_dead_inherits_nothing(self, store: Store) -> None:
        started(store, 0)
        first, second = store.join("d1", ["score"]), store.join("d2", ["score"])
        store.hold([ACME], "d1", first)
        seen = _seen(store, "d2", second)
        assert store.adopt("d1", first, seen["d2"])
        assert not store.adopt("d2", second, seen["d1"])
        assert not store.adopt("d1", first, seen["d1"]), "nor does anybody inherit from himself"
        assert _holders(store)[ACME] == "d1"

    def test_what_is_in_the_name_of_no_driver_can_be_inherited(self, store: Store) -> None:
        started(store, 0)
        store.hold([ACME], "lost")
        store.record_intent(Wave("w1", "other", (), 1.0), "gone")
        heir = store.join("d1", ["score", "other"])
        seen = _seen(store, "d1", heir)
        assert seen["lost"] == Peer("lost", heir, 0, frozenset({"score"}))
        assert seen["gone"] == Peer("gone", heir, 0, frozenset({"other"}))
        assert store.adopt("d1", heir, seen["lost"])
        assert store.adopt("d1", heir, seen["gone"])
        assert _holders(store) == {ACME: "d1", BOLT: None}
        assert [each.id for each in store.pending_intents("d1")] == ["w1"]

    def test_whoever_joins_under_a_lost_name_has_what_is_in_it(self, store: Store) -> None:
        started(store, 0)
        store.hold([ACME], "lost")
        store.join("d1", ["score"])
        number = store.join("lost", ["score"])
        assert set(store.hold([ACME, BOLT], "lost", number)) == {ACME, BOLT}
