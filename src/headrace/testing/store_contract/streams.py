"""What every store must do with use cases and their streams, as tests; for ``Registry``."""

# A test's name is its sentence.
# ruff: noqa: D102

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from headrace.errors import ConfigError
from headrace.model.places import place_at
from headrace.model.receipts import SliceError
from headrace.model.records import Deployment, Failure, LaneStart, Move
from headrace.model.streams import (
    BadRecordPolicy,
    DataLossPolicy,
    Order,
    Slice,
    State,
    StreamId,
    Tenant,
    Throttle,
)
from headrace.model.waves import Wave
from headrace.ports import Store
from headrace.testing.store_contract.begun import (
    ACME,
    BOLT,
    SCORE,
    by_lane,
    lane,
    offsets,
    started,
)


class TestStreams:
    """The promises about streams, deployments and the revision."""

    def test_a_use_case_for_all_gives_every_tenant_a_stream(self, store: Store) -> None:
        store.registry.add_tenant(Tenant("early"))
        store.registry.add_tenant(Tenant("gone"))
        store.registry.set_tenant_state("gone", State.REMOVED)
        store.registry.deploy(SCORE)
        store.registry.add_tenant(Tenant("late"))
        topics = {stream.id.tenant: stream.topic for stream in store.registry.streams()}
        assert topics == {"early": "early.visits", "late": "late.visits"}

    def test_no_topic_is_of_two_tenants(self, store: Store) -> None:
        dashed = replace(SCORE, topic="{tenant}-visits")
        store.registry.deploy(dashed)
        store.registry.deploy(replace(SCORE, use_case="eu", topic="{tenant}-eu-visits"))
        store.registry.add_tenant(Tenant("acme"))
        with pytest.raises(ConfigError, match=r"topic acme-eu-visits .*of acme-eu .*of acme "):
            store.registry.add_tenant(Tenant("acme-eu"))
        store.registry.add_tenant(Tenant("acme-us"))
        assert {tenant.name for tenant in store.registry.tenants()} == {"acme", "acme-us"}
        store.registry.set_tenant_state("acme", State.REMOVED)
        store.registry.add_tenant(Tenant("acme-eu"))
        with pytest.raises(ConfigError, match="acme-eu-visits"):
            store.registry.add_tenant(Tenant("acme"))

    def test_nor_is_it_of_two_that_are_added_together(self, store: Store) -> None:
        store.registry.deploy(replace(SCORE, topic="{tenant}-visits"))
        store.registry.deploy(replace(SCORE, use_case="eu", topic="{tenant}-eu-visits"))
        with pytest.raises(ConfigError, match="acme-eu-visits"):
            store.registry.add_tenants([Tenant("bolt"), Tenant("acme"), Tenant("acme-eu")])
        assert store.registry.tenants() == []

    def test_nor_by_a_use_case_that_comes_later(self, store: Store) -> None:
        store.registry.add_tenants([Tenant("acme"), Tenant("acme-eu")])
        store.registry.deploy(replace(SCORE, topic="{tenant}-visits"))
        later = replace(SCORE, use_case="eu", topic="{tenant}-eu-visits")
        with pytest.raises(ConfigError, match="acme-eu-visits"):
            store.registry.deploy(later)
        assert [known.use_case for known in store.registry.deployments()] == ["score"]
        store.registry.deploy(replace(later, all_tenants=False))
        store.registry.add_stream(StreamId("eu", "acme-eu"))
        with pytest.raises(ConfigError, match="acme-eu-visits"):
            store.registry.add_stream(StreamId("eu", "acme"))

    def test_of_use_cases_that_are_deployed_together_it_is_all_or_none(self, store: Store) -> None:
        store.registry.add_tenants([Tenant("acme"), Tenant("acme-eu")])
        dashed = replace(SCORE, topic="{tenant}-visits")
        shared = replace(SCORE, use_case="eu", topic="{tenant}-eu-visits")
        with pytest.raises(ConfigError, match="acme-eu-visits"):
            store.registry.deploy_together([dashed, shared])
        assert (store.registry.deployments(), store.registry.streams()) == ([], [])
        again = replace(dashed, use_case="again")
        store.registry.deploy_together([dashed, again])
        assert len(store.registry.streams()) == 4
        with pytest.raises(ConfigError, match="another name"):
            store.registry.deploy_together(
                [replace(dashed, digest="cd34"), replace(again, topic="{tenant}.b")]
            )
        assert {known.digest for known in store.registry.deployments()} == {SCORE.digest}

    def test_use_cases_of_one_tenant_may_read_one_topic(self, store: Store) -> None:
        store.registry.add_tenant(Tenant("acme"))
        store.registry.deploy(SCORE)
        store.registry.deploy(replace(SCORE, use_case="again"))
        assert {stream.topic for stream in store.registry.streams()} == {"acme.visits"}

    def test_other_use_cases_get_their_streams_one_by_one(self, store: Store) -> None:
        store.registry.add_tenant(Tenant("acme"))
        store.registry.deploy(replace(SCORE, all_tenants=False))
        store.registry.add_tenant(Tenant("bolt"))
        assert store.registry.streams() == []
        store.registry.add_stream(BOLT)
        assert [stream.id for stream in store.registry.streams()] == [BOLT]
        with pytest.raises(ConfigError, match="there already"):
            store.registry.add_stream(BOLT)

    def test_a_removed_stream_added_again_starts_afresh(self, store: Store) -> None:
        epoch = started(store, 7)
        store.registry.set_stream_state(ACME, State.REMOVED, "no longer wanted")
        store.registry.add_stream(ACME)
        stream = store.registry.streams()[0]
        assert (stream.state, stream.reason, stream.topic_id) == (State.ACTIVE, None, None)
        assert stream.epoch > epoch
        assert offsets(store) == {}

    def test_a_reason_is_one_line_and_goes_when_the_stream_is_resumed(self, store: Store) -> None:
        started(store, 0)
        store.registry.set_stream_state(ACME, State.SUSPENDED, "asked by\n  phone\0")
        assert store.registry.streams()[0].reason == "asked by phone?"
        store.registry.set_stream_state(ACME, State.ACTIVE)
        assert (store.registry.streams()[0].state, store.registry.streams()[0].reason) == (
            State.ACTIVE,
            None,
        )

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
            until=by_lane({0: 7, 12: 9}),
        )
        store.registry.deploy(SCORE)
        store.registry.deploy(report)
        assert store.registry.deployments() == [report, SCORE]

    @pytest.mark.parametrize(
        "starting", ["2026-11-01T00:00:00Z", '{"acme.visits": {"0": 23, "1": -1}}']
    )
    def test_where_its_streams_begin_comes_back_as_it_was_written(
        self, store: Store, starting: str
    ) -> None:
        store.registry.deploy(replace(SCORE, starting_offsets=starting))
        assert store.registry.deployments()[0].starting_offsets == starting

    def test_a_beginning_that_says_nothing_is_refused(self, store: Store) -> None:
        with pytest.raises(ConfigError, match="use case score: startingOffsets: say earliest"):
            store.registry.deploy(replace(SCORE, starting_offsets="middle"))
        assert store.registry.deployments() == []

    def test_deploying_again_keeps_streams_and_positions(self, store: Store) -> None:
        epoch = started(store, 7)
        newer = replace(SCORE, digest="cd34", priority=5)
        store.registry.deploy(newer)
        assert store.registry.deployments() == [newer]
        assert store.registry.streams()[0].epoch == epoch
        assert offsets(store) == {0: 7}

    def test_a_name_that_is_taken_is_not_deployed_anew(self, store: Store) -> None:
        assert store.registry.deploy(SCORE, anew=True)
        assert not store.registry.deploy(replace(SCORE, digest="cd34"), anew=True)
        assert store.registry.deployments() == [SCORE]

    def test_a_use_case_keeps_its_topic(self, store: Store) -> None:
        store.registry.deploy(SCORE)
        with pytest.raises(ConfigError, match="another name"):
            store.registry.deploy(replace(SCORE, topic="{tenant}.clicks"))

    @pytest.mark.parametrize(
        "topic",
        [
            "",
            "..",
            "visits of all",
            "{tenant}.{day}",
            "{tenant",
            "{0}.{tenant}",
            "{tenant}-{tenant:.2}",
            "{tenant!r}.{tenant}",
            "{tenant.x}.{tenant}",
            "{{x}}.{tenant}",
        ],
    )
    def test_a_topic_that_cannot_be_is_refused(self, store: Store, topic: str) -> None:
        with pytest.raises(ConfigError, match="topic"):
            store.registry.deploy(replace(SCORE, topic=topic))

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
        failure = Failure(
            Slice(lane(0), "t", place_at(0), place_at(1), 0), SliceError(False, "X", "bad"), 0.0
        )
        changes: list[Callable[[], object]] = [
            lambda: store.registry.deploy(SCORE),
            lambda: store.registry.add_tenant(Tenant("acme")),
            lambda: store.registry.set_weight("acme", 2.0),
            lambda: store.registry.set_throttle("acme", Throttle(1.0)),
            lambda: store.registry.set_stream_state(ACME, State.REMOVED),
            lambda: store.registry.add_stream(ACME),
            lambda: store.progress.seek(ACME, by_lane({0: 0})),
            lambda: store.failures.keep([failure])[0],
            lambda: store.registry.set_tenant_state("acme", State.SUSPENDED),
        ]
        for change in changes:
            before = store.revision()
            change()
            assert store.revision() > before
        before = store.revision()
        store.progress.start_lanes([LaneStart(ACME, "id", by_lane({1: 0}))])
        epoch = store.membership.hold([ACME])[ACME]
        store.progress.record_intent(Wave("w", "score", (), 1.0))
        store.progress.finish_intent("w", [Move(lane(0), place_at(0), place_at(1), epoch)])
        assert store.positions.advance([Move(lane(0), place_at(1), place_at(2), epoch)]) == [True]
        assert store.revision() == before
