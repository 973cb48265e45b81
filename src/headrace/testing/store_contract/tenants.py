"""What every store must do with tenants, as tests; for ``Registry``.

Two operators who look at the same tenant must not undo each other's change without knowing, so a
change says what it was made from.
"""

# A test's name is its sentence.
# ruff: noqa: D102

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from headrace.errors import ConfigError, UnknownName
from headrace.model.places import place_at
from headrace.model.receipts import SliceError
from headrace.model.records import Failure, LaneStart, Move
from headrace.model.streams import (
    Slice,
    State,
    Stopper,
    StreamId,
    Tenant,
    Throttle,
)
from headrace.ports import Store
from headrace.testing.store_contract.begun import (
    ACME,
    BOLT,
    by_lane,
    lane,
    offsets,
    started,
)

_BEFORE = Tenant("acme", weight=1.5)
_STOPPED = frozenset({Stopper.OPERATOR})
_AFTER = Tenant("acme", State.SUSPENDED, 0.1, Throttle(0.3, None, 0.7), _STOPPED)


def _states(store: Store) -> dict[StreamId, State]:
    return {stream.id: stream.state for stream in store.registry.streams()}


class TestTenants:
    """The promises about tenants."""

    def test_a_tenant_comes_back_as_it_was_added(
        self, store: Store, open_again: Callable[[], Store]
    ) -> None:
        slow = Tenant("slow", weight=0.5, throttle=Throttle(records_per_s=10.0))
        stopped = Tenant("zeta", State.SUSPENDED, stopped_by=frozenset({Stopper.OPERATOR}))
        store.registry.add_tenant(stopped)
        store.registry.add_tenant(slow)
        again = open_again()
        assert again.registry.tenants() == [slow, stopped]
        again.close()

    @pytest.mark.parametrize("name", ["", "Acme", "a.b", "-a", "a/b", "é", "a" * 64, "a\n"])
    def test_a_name_that_fits_no_topic_is_refused(self, store: Store, name: str) -> None:
        with pytest.raises(ConfigError, match="lower-case"):
            store.registry.add_tenant(Tenant(name))
        assert store.registry.tenants() == []

    def test_a_tenant_is_added_once(self, store: Store) -> None:
        store.registry.add_tenant(Tenant("acme"))
        with pytest.raises(ConfigError, match="acme is there already, active"):
            store.registry.add_tenant(Tenant("acme"))

    def test_many_tenants_are_added_as_each_would_be(
        self, store: Store, open_again: Callable[[], Store]
    ) -> None:
        started(store, 0)
        slow = Tenant("slow", weight=0.5, throttle=Throttle(bytes_per_s=10.0, burst_s=2.0))
        still = Tenant("zeta", State.SUSPENDED, stopped_by=_STOPPED)
        before = store.revision()
        assert store.registry.add_tenants([still, slow]) == ["zeta", "slow"]
        assert store.revision() > before
        again = open_again()
        assert [tenant for tenant in again.registry.tenants() if tenant in (slow, still)] == [
            slow,
            still,
        ]
        again.close()
        (made,) = [
            stream for stream in store.registry.streams() if stream.id == StreamId("score", "slow")
        ]
        store.registry.add_tenant(Tenant("twin"))
        (twin,) = [
            stream for stream in store.registry.streams() if stream.id == StreamId("score", "twin")
        ]
        assert replace(twin, id=made.id, topic=made.topic) == made
        assert made.topic == twin.topic.replace("twin", "slow")
        assert store.membership.hold([made.id])[made.id] == made.epoch + 1

    def test_no_tenants_of_many_is_no_change(self, store: Store) -> None:
        assert store.registry.add_tenants([]) == []
        assert store.registry.tenants() == []

    def test_of_many_tenants_all_are_added_or_none(self, store: Store) -> None:
        store.registry.add_tenant(Tenant("acme"))
        refused: list[tuple[list[Tenant], str]] = [
            ([Tenant("bolt"), Tenant("acme", weight=9.0)], "tenant acme is there already"),
            ([Tenant("bolt"), Tenant("Bolt")], "lower-case"),
            ([Tenant("bolt"), Tenant("corp", weight=0.0)], "above 0"),
            ([Tenant("bolt"), Tenant("bolt")], "the name of another"),
            ([Tenant("bolt"), Tenant("corp", State.REMOVED)], "as removed"),
        ]
        for wanted, why in refused:
            with pytest.raises(ConfigError, match=why):
                store.registry.add_tenants(wanted)
            assert store.registry.tenants() == [Tenant("acme")]

    def test_of_many_tenants_those_that_are_there_can_be_left_alone(self, store: Store) -> None:
        store.registry.add_tenant(Tenant("acme", weight=3.0))
        wanted = [Tenant("bolt"), Tenant("acme", weight=9.0)]
        assert store.registry.add_tenants(wanted, skip_there=True) == ["bolt"]
        assert store.registry.tenants() == [Tenant("acme", weight=3.0), Tenant("bolt")]
        assert store.registry.add_tenants(wanted, skip_there=True) == []

    def test_of_many_tenants_one_that_was_removed_is_another_customer(self, store: Store) -> None:
        started(store, 3)
        store.registry.set_tenant_state("acme", State.REMOVED)
        epoch = next(s.epoch for s in store.registry.streams() if s.id == ACME)
        wanted = [Tenant("new"), Tenant("acme", weight=2.0)]
        assert store.registry.add_tenants(wanted, at_s=7.0) == ["new", "acme"]
        acme = next(tenant for tenant in store.registry.tenants() if tenant.name == "acme")
        assert (acme.state, acme.weight) == (State.ACTIVE, 2.0)
        assert acme.generation > epoch
        assert acme.added_again_s is not None
        assert store.progress.load_positions([ACME]) == []

    def test_weight_and_throttle_can_be_set_and_lifted(self, store: Store) -> None:
        store.registry.add_tenant(Tenant("acme"))
        store.registry.set_weight("acme", 2.5)
        throttle = Throttle(bytes_per_s=1e6, burst_s=0.25)
        store.registry.set_throttle("acme", throttle)
        assert store.registry.tenants() == [Tenant("acme", weight=2.5, throttle=throttle)]
        store.registry.set_throttle("acme", Throttle())
        assert store.registry.tenants()[0].throttle == Throttle()

    @pytest.mark.parametrize("number", [5e-324, 1e-7, 1e7, 1e308])
    def test_a_weight_that_no_plan_can_reckon_with_is_refused(
        self, store: Store, number: float
    ) -> None:
        store.registry.add_tenant(Tenant("acme"))
        with pytest.raises(ConfigError, match=r"acme: weight .* is not from 0\.000001 to 1000000"):
            store.registry.set_weight("acme", number)

    @pytest.mark.parametrize(
        "throttle", [Throttle(1e308), Throttle(None, 1e16), Throttle(1, 1, 1e300)]
    )
    def test_a_throttle_that_cannot_be_counted_is_refused(
        self, store: Store, throttle: Throttle
    ) -> None:
        store.registry.add_tenant(Tenant("acme"))
        with pytest.raises(ConfigError, match=r"acme: throttle .* leave it out for no limit"):
            store.registry.set_throttle("acme", throttle)

    @pytest.mark.parametrize("number", [0.0, -1.0, float("nan"), float("inf")])
    def test_weights_and_throttles_are_numbers_above_zero(
        self, store: Store, number: float
    ) -> None:
        store.registry.add_tenant(Tenant("acme"))
        with pytest.raises(ConfigError, match="above 0"):
            store.registry.set_weight("acme", number)
        with pytest.raises(ConfigError, match="above 0"):
            store.registry.set_throttle("acme", Throttle(records_per_s=number))
        with pytest.raises(ConfigError, match="above 0"):
            store.registry.set_throttle("acme", Throttle(burst_s=number))
        with pytest.raises(ConfigError, match="above 0"):
            store.registry.add_tenant(Tenant("bolt", weight=number))
        assert store.registry.tenants() == [Tenant("acme")]

    def test_unknown_names_are_told(self, store: Store) -> None:
        started(store, 0)
        nobody = StreamId("score", "nobody")
        failed = Failure(
            Slice(lane(0, nobody), "t", place_at(0), place_at(1), 0),
            SliceError(False, "X", ""),
            0.0,
        )
        attempts: list[Callable[[], object]] = [
            lambda: store.registry.set_tenant_state("nobody", State.SUSPENDED),
            lambda: store.registry.set_weight("nobody", 1.0),
            lambda: store.registry.set_throttle("nobody", Throttle()),
            lambda: store.registry.add_stream(nobody),
            lambda: store.registry.set_stream_state(nobody, State.SUSPENDED),
            lambda: store.membership.hold([ACME, nobody]),
            lambda: store.progress.load_positions([ACME, nobody]),
            lambda: store.progress.start_lanes([LaneStart(nobody, "id", by_lane({0: 0}, nobody))]),
            lambda: store.progress.seek(nobody, by_lane({0: 0}, nobody)),
            lambda: store.failures.keep([failed])[0],
            lambda: store.failures.every(nobody),
        ]
        for attempt in attempts:
            with pytest.raises(UnknownName, match="nobody"):
                attempt()
        with pytest.raises(UnknownName, match="replicate"):
            store.registry.add_stream(StreamId("replicate", "acme"))
        assert store.progress.load_positions([ACME])[0].epoch == 1, "a refused hold changes nothing"

    def test_suspending_a_tenant_leaves_its_streams_alone(self, store: Store) -> None:
        started(store, 0)
        store.registry.set_tenant_state("acme", State.SUSPENDED)
        assert store.registry.tenants()[0].state is State.SUSPENDED
        assert _states(store)[ACME] is State.ACTIVE

    def test_removing_a_tenant_removes_its_streams_and_keeps_their_positions(
        self, store: Store
    ) -> None:
        epoch = started(store, 7)
        store.registry.set_tenant_state("acme", State.REMOVED)
        assert _states(store) == {ACME: State.REMOVED, BOLT: State.ACTIVE}
        assert store.positions.advance([Move(lane(0), place_at(7), place_at(9), epoch)]) == [True]
        assert offsets(store) == {0: 9}

    def test_a_removed_tenant_can_only_be_added_again(self, store: Store) -> None:
        started(store, 0)
        store.registry.set_tenant_state("acme", State.REMOVED)
        for state in (State.ACTIVE, State.SUSPENDED):
            with pytest.raises(ConfigError, match="starts it afresh"):
                store.registry.set_tenant_state("acme", state)
            with pytest.raises(ConfigError, match="starts it afresh"):
                store.registry.set_stream_state(ACME, state)
        with pytest.raises(ConfigError, match="starts it afresh"):
            store.registry.add_stream(ACME)

    def test_a_tenant_added_again_starts_afresh(self, store: Store) -> None:
        epoch = started(store, 7)
        store.registry.set_tenant_state("acme", State.REMOVED)
        store.registry.add_tenant(Tenant("acme", weight=3.0))
        assert (store.registry.tenants()[0].state, store.registry.tenants()[0].weight) == (
            State.ACTIVE,
            3.0,
        )
        stream = store.registry.streams()[0]
        assert (stream.state, stream.topic_id, stream.epoch > epoch) == (State.ACTIVE, None, True)
        assert offsets(store) == {}
        store.progress.start_lanes([LaneStart(ACME, "id-2", by_lane({0: 7}))])
        assert store.positions.advance([Move(lane(0), place_at(7), place_at(9), epoch)]) == [
            False
        ], "a zombie moved"

    def test_a_change_sets_everything_or_nothing(self, store: Store) -> None:
        store.registry.add_tenant(_BEFORE)
        store.registry.add_tenant(Tenant("bolt"))
        assert store.registry.change_tenant(_BEFORE, _AFTER)
        assert store.registry.tenants() == [_AFTER, Tenant("bolt")]
        assert not store.registry.change_tenant(_BEFORE, replace(_BEFORE, weight=9.0))
        assert not store.registry.change_tenant(
            replace(_AFTER, throttle=Throttle()), replace(_AFTER, weight=9.0)
        )
        assert not store.registry.change_tenant(replace(_AFTER, state=State.ACTIVE), _BEFORE)
        assert store.registry.tenants() == [_AFTER, Tenant("bolt")]
        assert store.registry.change_tenant(_AFTER, _BEFORE)
        assert store.registry.tenants()[0] == _BEFORE

    def test_of_changes_made_from_the_same_one_is_done(self, store: Store) -> None:
        store.registry.add_tenant(_BEFORE)
        wanted = [replace(_BEFORE, weight=float(number)) for number in range(2, 8)]
        with ThreadPoolExecutor(len(wanted)) as pool:
            done = [*pool.map(lambda after: store.registry.change_tenant(_BEFORE, after), wanted)]
        assert done.count(True) == 1
        assert store.registry.tenants() == [wanted[done.index(True)]]

    def test_to_remove_by_a_change_removes_the_streams_and_stays(self, store: Store) -> None:
        started(store, 0)
        removed = Tenant("acme", State.REMOVED, 2.0)
        assert store.registry.change_tenant(Tenant("acme"), removed)
        assert store.registry.tenants()[0] == removed
        assert {stream.id.tenant: stream.state for stream in store.registry.streams()} == {
            "acme": State.REMOVED,
            "bolt": State.ACTIVE,
        }
        with pytest.raises(ConfigError, match="acme was removed"):
            store.registry.change_tenant(removed, Tenant("acme"))
        assert store.registry.tenants()[0] == removed

    def test_a_change_to_what_cannot_be_is_refused(self, store: Store) -> None:
        store.registry.add_tenant(_BEFORE)
        for wrong in (
            replace(_BEFORE, weight=0.0),
            replace(_BEFORE, throttle=Throttle(records_per_s=-1.0)),
        ):
            with pytest.raises(ConfigError, match="above 0"):
                store.registry.change_tenant(_BEFORE, wrong)
        with pytest.raises(UnknownName, match="no tenant nobody"):
            store.registry.change_tenant(Tenant("nobody"), Tenant("nobody", weight=2.0))
        assert store.registry.tenants() == [_BEFORE]

    def test_a_change_raises_the_revision(self, store: Store) -> None:
        store.registry.add_tenant(_BEFORE)
        before = store.revision()
        store.registry.change_tenant(_BEFORE, _AFTER)
        assert store.revision() > before
