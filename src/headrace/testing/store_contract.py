"""What every store must do, as tests.

Whoever exchanges the store has to keep the promises of ``headrace.ports.Store``, and the ones that
matter show only when several holders, threads or restarts meet. So they are written here once and
run on every store. A subclass gives two fixtures::

    class TestMyStore(StoreContract):
        @pytest.fixture
        def open_again(self, tmp_path):
            return lambda: MyStore(tmp_path)   # each call: the same data, other connections

        @pytest.fixture
        def store(self, open_again): ...       # one of them, on an empty database, closed after

What happens when a process is killed is not here: it needs processes, which are each store's own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from headrace.errors import ConfigError, UnknownName
from headrace.model.receipts import SliceError
from headrace.model.records import Deployment, Failure, LaneStart, Move
from headrace.model.streams import (
    BadRecordPolicy,
    DataLossPolicy,
    LaneId,
    Order,
    Slice,
    State,
    Stopper,
    StreamId,
    Tenant,
    Throttle,
)
from headrace.model.waves import Wave
from headrace.ports import Store
from headrace.testing.store_contract_answers import AnswersContract
from headrace.testing.store_contract_changes import ChangesContract
from headrace.testing.store_contract_drivers import DriversContract
from headrace.testing.store_contract_failures import FailuresContract
from headrace.testing.store_contract_generations import GenerationsContract
from headrace.testing.store_contract_intents import IntentsContract
from headrace.testing.store_contract_keys import AuditContract, KeysContract
from headrace.testing.store_contract_lost import LostContract
from headrace.testing.store_contract_positions import (
    ACME,
    BOLT,
    SCORE,
    PositionsContract,
    lane,
    offsets,
    started,
)
from headrace.testing.store_contract_stops import StopsContract


def _states(store: Store) -> dict[StreamId, State]:
    return {each.id: each.state for each in store.streams()}


class _Tenants:
    def test_a_tenant_comes_back_as_it_was_added(
        self, store: Store, open_again: Callable[[], Store]
    ) -> None:
        slow = Tenant("slow", weight=0.5, throttle=Throttle(records_per_s=10.0))
        stopped = Tenant("zeta", State.SUSPENDED, stopped_by=frozenset({Stopper.OPERATOR}))
        store.add_tenant(stopped)
        store.add_tenant(slow)
        again = open_again()
        assert again.tenants() == [slow, stopped]
        again.close()

    @pytest.mark.parametrize("name", ["", "Acme", "a.b", "-a", "a/b", "é", "a" * 64, "a\n"])
    def test_a_name_that_fits_no_topic_is_refused(self, store: Store, name: str) -> None:
        with pytest.raises(ConfigError, match="lower-case"):
            store.add_tenant(Tenant(name))
        assert store.tenants() == []

    def test_a_tenant_is_added_once(self, store: Store) -> None:
        store.add_tenant(Tenant("acme"))
        with pytest.raises(ConfigError, match="acme is there already, active"):
            store.add_tenant(Tenant("acme"))

    def test_weight_and_throttle_can_be_set_and_lifted(self, store: Store) -> None:
        store.add_tenant(Tenant("acme"))
        store.set_weight("acme", 2.5)
        throttle = Throttle(bytes_per_s=1e6, burst_s=0.25)
        store.set_throttle("acme", throttle)
        assert store.tenants() == [Tenant("acme", weight=2.5, throttle=throttle)]
        store.set_throttle("acme", Throttle())
        assert store.tenants()[0].throttle == Throttle()

    @pytest.mark.parametrize("number", [5e-324, 1e-7, 1e7, 1e308])
    def test_a_weight_that_no_plan_can_reckon_with_is_refused(
        self, store: Store, number: float
    ) -> None:
        store.add_tenant(Tenant("acme"))
        with pytest.raises(ConfigError, match=r"acme: weight .* is not from 0\.000001 to 1000000"):
            store.set_weight("acme", number)

    @pytest.mark.parametrize(
        "throttle", [Throttle(1e308), Throttle(None, 1e16), Throttle(1, 1, 1e300)]
    )
    def test_a_throttle_that_cannot_be_counted_is_refused(
        self, store: Store, throttle: Throttle
    ) -> None:
        store.add_tenant(Tenant("acme"))
        with pytest.raises(ConfigError, match=r"acme: throttle .* leave it out for no limit"):
            store.set_throttle("acme", throttle)

    @pytest.mark.parametrize("number", [0.0, -1.0, float("nan"), float("inf")])
    def test_weights_and_throttles_are_numbers_above_zero(
        self, store: Store, number: float
    ) -> None:
        store.add_tenant(Tenant("acme"))
        with pytest.raises(ConfigError, match="above 0"):
            store.set_weight("acme", number)
        with pytest.raises(ConfigError, match="above 0"):
            store.set_throttle("acme", Throttle(records_per_s=number))
        with pytest.raises(ConfigError, match="above 0"):
            store.set_throttle("acme", Throttle(burst_s=number))
        with pytest.raises(ConfigError, match="above 0"):
            store.add_tenant(Tenant("bolt", weight=number))
        assert store.tenants() == [Tenant("acme")]

    def test_unknown_names_are_told(self, store: Store) -> None:
        started(store, 0)
        nobody = StreamId("score", "nobody")
        failed = Failure(Slice(LaneId(*nobody, 0), "t", 0, 1, 0), SliceError(False, "X", ""), 0.0)
        attempts: list[Callable[[], object]] = [
            lambda: store.set_tenant_state("nobody", State.SUSPENDED),
            lambda: store.set_weight("nobody", 1.0),
            lambda: store.set_throttle("nobody", Throttle()),
            lambda: store.add_stream(nobody),
            lambda: store.set_stream_state(nobody, State.SUSPENDED),
            lambda: store.hold([ACME, nobody]),
            lambda: store.load_positions([ACME, nobody]),
            lambda: store.start_lanes([LaneStart(nobody, "id", {0: 0})]),
            lambda: store.seek(nobody, {0: 0}),
            lambda: store.keep_failure(failed),
            lambda: store.failures(nobody),
        ]
        for attempt in attempts:
            with pytest.raises(UnknownName, match="nobody"):
                attempt()
        with pytest.raises(UnknownName, match="replicate"):
            store.add_stream(StreamId("replicate", "acme"))
        assert store.load_positions([ACME])[0].epoch == 1, "a refused hold changes nothing"

    def test_suspending_a_tenant_leaves_its_streams_alone(self, store: Store) -> None:
        started(store, 0)
        store.set_tenant_state("acme", State.SUSPENDED)
        assert store.tenants()[0].state is State.SUSPENDED
        assert _states(store)[ACME] is State.ACTIVE

    def test_removing_a_tenant_removes_its_streams_and_keeps_their_positions(
        self, store: Store
    ) -> None:
        epoch = started(store, 7)
        store.set_tenant_state("acme", State.REMOVED)
        assert _states(store) == {ACME: State.REMOVED, BOLT: State.ACTIVE}
        assert store.positions.advance([Move(lane(0), 7, 9, epoch)]) == [True]
        assert offsets(store) == {0: 9}

    def test_a_removed_tenant_can_only_be_added_again(self, store: Store) -> None:
        started(store, 0)
        store.set_tenant_state("acme", State.REMOVED)
        for state in (State.ACTIVE, State.SUSPENDED):
            with pytest.raises(ConfigError, match="add it again"):
                store.set_tenant_state("acme", state)
            with pytest.raises(ConfigError, match="add it again"):
                store.set_stream_state(ACME, state)
        with pytest.raises(ConfigError, match="add the tenant again"):
            store.add_stream(ACME)

    def test_a_tenant_added_again_starts_afresh(self, store: Store) -> None:
        epoch = started(store, 7)
        store.set_tenant_state("acme", State.REMOVED)
        store.add_tenant(Tenant("acme", weight=3.0))
        assert (store.tenants()[0].state, store.tenants()[0].weight) == (State.ACTIVE, 3.0)
        stream = store.streams()[0]
        assert (stream.state, stream.topic_id, stream.epoch > epoch) == (State.ACTIVE, None, True)
        assert offsets(store) == {}
        store.start_lanes([LaneStart(ACME, "id-2", {0: 7})])
        assert store.positions.advance([Move(lane(0), 7, 9, epoch)]) == [False], "a zombie moved"


class _Streams:
    def test_a_use_case_for_all_gives_every_tenant_a_stream(self, store: Store) -> None:
        store.add_tenant(Tenant("early"))
        store.add_tenant(Tenant("gone"))
        store.set_tenant_state("gone", State.REMOVED)
        store.deploy(SCORE)
        store.add_tenant(Tenant("late"))
        topics = {each.id.tenant: each.topic for each in store.streams()}
        assert topics == {"early": "early.visits", "late": "late.visits"}

    def test_other_use_cases_get_their_streams_one_by_one(self, store: Store) -> None:
        store.add_tenant(Tenant("acme"))
        store.deploy(replace(SCORE, all_tenants=False))
        store.add_tenant(Tenant("bolt"))
        assert store.streams() == []
        store.add_stream(BOLT)
        assert [each.id for each in store.streams()] == [BOLT]
        with pytest.raises(ConfigError, match="there already"):
            store.add_stream(BOLT)

    def test_a_removed_stream_added_again_starts_afresh(self, store: Store) -> None:
        epoch = started(store, 7)
        store.set_stream_state(ACME, State.REMOVED, "no longer wanted")
        store.add_stream(ACME)
        stream = store.streams()[0]
        assert (stream.state, stream.reason, stream.topic_id) == (State.ACTIVE, None, None)
        assert stream.epoch > epoch
        assert offsets(store) == {}

    def test_a_reason_is_one_line_and_goes_when_the_stream_is_resumed(self, store: Store) -> None:
        started(store, 0)
        store.set_stream_state(ACME, State.SUSPENDED, "asked by\n  phone\0")
        assert store.streams()[0].reason == "asked by phone?"
        store.set_stream_state(ACME, State.ACTIVE)
        assert (store.streams()[0].state, store.streams()[0].reason) == (State.ACTIVE, None)

    def test_a_use_case_comes_back_as_it_was_deployed(self, store: Store) -> None:
        report = Deployment(
            use_case="report",
            module="r.py",
            digest="ff",
            topic="x.{tenant}",
            order=Order.STREAM,
            starting_offsets="latest",
            all_tenants=False,
            priority=3,
            options={"day": "ü"},
            bad_record=BadRecordPolicy.FAIL,
            retries=0,
            handler_timeout_s=0.25,
            max_rate_per_lane=1.5,
            data_loss=DataLossPolicy.SKIP,
            share=0.25,
            until={0: 7, 12: 9},
        )
        store.deploy(SCORE)
        store.deploy(report)
        assert store.deployments() == [report, SCORE]

    def test_deploying_again_keeps_streams_and_positions(self, store: Store) -> None:
        epoch = started(store, 7)
        newer = replace(SCORE, digest="cd34", priority=5)
        store.deploy(newer)
        assert store.deployments() == [newer]
        assert store.streams()[0].epoch == epoch
        assert offsets(store) == {0: 7}

    def test_a_name_that_is_taken_is_not_deployed_anew(self, store: Store) -> None:
        assert store.deploy(SCORE, anew=True)
        assert not store.deploy(replace(SCORE, digest="cd34"), anew=True)
        assert store.deployments() == [SCORE]

    def test_a_use_case_keeps_its_topic(self, store: Store) -> None:
        store.deploy(SCORE)
        with pytest.raises(ConfigError, match="another name"):
            store.deploy(replace(SCORE, topic="{tenant}.clicks"))

    @pytest.mark.parametrize("topic", ["visits", "{tenant}.{day}", "{tenant", "{0}.{tenant}"])
    def test_a_topic_that_is_not_a_tenants_own_is_refused(self, store: Store, topic: str) -> None:
        with pytest.raises(ConfigError, match="tenant"):
            store.deploy(replace(SCORE, topic=topic))

    def test_the_key_of_seals_is_random_and_the_same_for_all_who_open_the_store(
        self, store: Store, open_again: Callable[[], Store]
    ) -> None:
        again = open_again()
        assert len(store.seal_key()) == 32
        assert again.seal_key() == store.seal_key()
        again.close()

    def test_the_revision_grows_with_what_operators_change_and_not_with_work(
        self, store: Store
    ) -> None:
        failure = Failure(Slice(lane(0), "t", 0, 1, 0), SliceError(False, "X", "bad"), 0.0)
        changes: list[Callable[[], object]] = [
            lambda: store.deploy(SCORE),
            lambda: store.add_tenant(Tenant("acme")),
            lambda: store.set_weight("acme", 2.0),
            lambda: store.set_throttle("acme", Throttle(1.0)),
            lambda: store.set_stream_state(ACME, State.REMOVED),
            lambda: store.add_stream(ACME),
            lambda: store.seek(ACME, {0: 0}),
            lambda: store.keep_failure(failure),
            lambda: store.set_tenant_state("acme", State.SUSPENDED),
        ]
        for change in changes:
            before = store.revision()
            change()
            assert store.revision() > before
        before = store.revision()
        store.start_lanes([LaneStart(ACME, "id", {1: 0})])
        epoch = store.hold([ACME])[ACME]
        store.record_intent(Wave("w", "score", (), 1.0))
        store.finish_intent("w", [Move(lane(0), 0, 1, epoch)])
        assert store.positions.advance([Move(lane(0), 1, 2, epoch)]) == [True]
        assert store.revision() == before


class StoreContract(
    _Tenants,
    ChangesContract,
    _Streams,
    PositionsContract,
    IntentsContract,
    DriversContract,
    AnswersContract,
    FailuresContract,
    LostContract,
    KeysContract,
    AuditContract,
    StopsContract,
    GenerationsContract,
):
    """The promises of ``headrace.ports.Store``; see the module for the fixtures it needs."""
