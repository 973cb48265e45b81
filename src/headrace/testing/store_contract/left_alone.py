"""What every store must do about streams that were left alone, as tests.

How long nobody committed is told by the store's clock, which no test waits for: a use case that
passes over after no time at all passes over always, and one that does after a day never.
"""

# A test's name is its sentence.
# ruff: noqa: D102

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from headrace.model.places import place_at
from headrace.model.receipts import SliceError
from headrace.model.records import Failure, FailureState, LaneStart, Move
from headrace.model.restarts import Restart
from headrace.model.streams import PassedRange, Slice, State, Stream
from headrace.model.waves import Bin, Wave
from headrace.ports import Store
from headrace.testing.store_contract.begun import ACME, BOLT, SCORE, by_lane, lane, offsets, started

AT_ONCE, IN_A_DAY = Restart(0.0, 30.0), Restart(86_400.0)


def _owing(store: Store) -> None:
    """Have d1 write down a wave of acme."""
    piece = Slice(lane(0), "acme.visits", place_at(3), place_at(4), _acme(store).epoch)
    wave = Wave("w1", "score", (Bin((piece,), 1.0),), 1.0)
    assert store.progress.record_intent(wave, "d1")


def _retried(store: Store) -> None:
    """Stop a lane at a record, and let it go on."""
    piece = Slice(lane(0), "acme.visits", place_at(3), place_at(9), _acme(store).epoch)
    store.failures.keep([Failure(piece, SliceError(False, "Bad", "bad"), 7.5, attempts=1)])
    (stopped,) = store.failures.every(ACME, only_open=True)
    store.failures.retry(stopped.id or 0)


def _acme(store: Store) -> Stream:
    return next(one for one in store.registry.streams() if one.id == ACME)


def _begun(store: Store, restart: Restart | None = AT_ONCE) -> int:
    """Acme at 3 and 5, held by d1 whose number is returned."""
    started(store, 3, 5)
    store.registry.deploy(replace(SCORE, restart=restart))
    number = store.membership.join("d1", ["score"])
    assert store.membership.hold([ACME], "d1", number)
    return number


def _adopted(store: Store) -> Stream:
    """Acme, after d1 died and d2 inherited from it."""
    heir = store.membership.join("d2", ["score"])
    (dead,) = [peer for peer in store.membership.beat("d2", heir) if peer.name == "d1"]
    assert store.membership.adopt("d2", heir, dead)
    return _acme(store)


def _silent_s(store: Store) -> float:
    """For how long nobody has committed acme, as another process of d1 is told."""
    store.membership.join("d1", ["score"])
    silent_s = _acme(store).silent_s
    assert silent_s is not None
    return silent_s


def _counts_from(store: Store, decided: Callable[[], object]) -> bool:
    """Whether it counts from a decision on for how long nobody commits."""
    while _silent_s(store) < 0.1:
        pass
    begun_s = time.monotonic()
    decided()
    silent_s = _silent_s(store)
    return silent_s < time.monotonic() - begun_s + 0.05


def _passed(store: Store, until: int) -> int:
    """The first lane is sent from 3 on; the new epoch."""
    epoch = _acme(store).epoch
    bounds = place_at(3), place_at(until)
    piece = Slice(lane(0), "acme.visits", *bounds, epoch)
    error = SliceError(False, "PassedOver", "too old")
    note = Failure(piece, error, 7.5, attempts=0, state=FailureState.SKIPPED)
    made = store.progress.pass_over(ACME, [Move(lane(0), *bounds, epoch)], [note])
    assert made is not None
    return made


def _passed_ranges(store: Store) -> list[PassedRange | None]:
    return [position.passed_range for position in store.progress.load_positions([ACME])]


class TestLeftAlone:
    """The promises about streams that nobody gave back and nobody committed for long."""

    def test_a_deployment_comes_back_as_it_says_what_becomes_of_streams(self, store: Store) -> None:
        for restart in (AT_ONCE, IN_A_DAY, None):
            store.registry.deploy(replace(SCORE, restart=restart))
            (found,) = store.registry.deployments()
            assert found.restart == restart

    def test_what_a_dead_driver_left_alone_is_noted_for_its_heir(self, store: Store) -> None:
        _begun(store)
        assert _acme(store).silent_s is None
        silent_s = _adopted(store).silent_s
        assert silent_s is not None
        assert silent_s < 3600

    def test_what_another_process_of_a_name_left_alone_is_noted_for_the_next(
        self, store: Store
    ) -> None:
        _begun(store)
        store.membership.join("d1", ["score"], again=True)
        assert _acme(store).silent_s is None
        store.membership.join("d1", ["score"])
        assert _acme(store).silent_s is not None

    def test_what_was_given_back_was_not_left_alone(self, store: Store) -> None:
        number = _begun(store)
        store.membership.release("d1", number, [ACME])
        assert _adopted(store).silent_s is None
        heir = store.membership.join("d3", ["score"])
        assert store.membership.hold([ACME], "d3", heir)
        store.membership.leave("d3", heir)
        store.membership.join("d3", ["score"])
        assert _acme(store).silent_s is None

    @pytest.mark.parametrize("resumed", ["", "stream", "tenant", "lane", "sought"])
    def test_what_a_driver_owes_that_ended_in_good_order_was_not_left_alone(
        self, store: Store, resumed: str
    ) -> None:
        number = _begun(store)
        _owing(store)
        store.membership.leave("d1", number)
        assert _acme(store).holder == "d1"
        if resumed == "stream":
            store.registry.set_stream_state(ACME, State.ACTIVE)
        elif resumed == "tenant":
            store.registry.set_tenant_state("acme", State.SUSPENDED)
            store.registry.set_tenant_state("acme", State.ACTIVE)
        elif resumed == "lane":
            _retried(store)
        elif resumed:
            store.progress.seek(ACME, by_lane({0: 2}), "id-1")
        assert _adopted(store).silent_s is None

    def test_who_takes_up_what_was_owed_in_good_order_is_waited_for_again(
        self, store: Store
    ) -> None:
        number = _begun(store)
        _owing(store)
        store.membership.leave("d1", number)
        assert _adopted(store).silent_s is None
        (heir,) = store.membership.drivers()
        assert store.membership.hold([ACME], heir.name, heir.number)
        store.membership.join(heir.name, ["score"])
        assert _acme(store).silent_s is not None

    @pytest.mark.parametrize("is_recorded", [False, True])
    def test_what_still_ran_when_a_driver_left_was_left_alone_and_nothing_else(
        self, store: Store, *, is_recorded: bool
    ) -> None:
        number = _begun(store)
        store.progress.start_lanes([LaneStart(BOLT, "id-2", by_lane({0: 4}))])
        assert store.membership.hold([BOLT], "d1", number)
        if is_recorded:
            _owing(store)
        store.membership.leave("d1", number, [ACME])
        assert _adopted(store).silent_s is not None
        silent_s = {one.id: one.silent_s for one in store.registry.streams()}
        assert silent_s.pop(BOLT) is None

    def test_what_was_committed_lately_was_not_left_alone(self, store: Store) -> None:
        _begun(store, IN_A_DAY)
        assert _adopted(store).silent_s is None

    def test_nobody_was_to_commit_what_was_free(self, store: Store) -> None:
        def taken() -> None:
            (d1,) = store.membership.drivers()
            assert store.membership.hold([ACME], "d1", d1.number)

        def given_back() -> None:
            (d1,) = store.membership.drivers()
            store.membership.release("d1", d1.number, [ACME])
            taken()

        _begun(store)
        assert _counts_from(store, given_back)
        assert not _counts_from(store, taken)

    @pytest.mark.parametrize("what", ["stream", "tenant", "tenants"])
    def test_nobody_was_to_commit_what_a_person_had_stopped(self, store: Store, what: str) -> None:
        def resumed() -> None:
            for state in (State.SUSPENDED, State.ACTIVE):
                if what == "stream":
                    store.registry.set_stream_state(ACME, state)
                elif what == "tenant":
                    store.registry.set_tenant_state("acme", state)
                else:
                    store.registry.set_tenant_states(store.registry.tenants(), state)

        _begun(store)
        assert _counts_from(store, resumed)

    def test_nobody_was_to_commit_what_stopped_at_a_record(self, store: Store) -> None:
        _begun(store)
        assert _counts_from(store, lambda: _retried(store))

    def test_streams_of_use_cases_that_go_on_where_they_stopped_are_not_noted(
        self, store: Store
    ) -> None:
        _begun(store, None)
        assert _adopted(store).silent_s is None

    def test_what_somebody_stopped_was_not_left_alone(self, store: Store) -> None:
        _begun(store)
        store.registry.set_stream_state(ACME, State.SUSPENDED)
        store.membership.join("d1", ["score"])
        store.registry.set_stream_state(ACME, State.ACTIVE)
        assert _acme(store).silent_s is None
        store.registry.set_tenant_state("acme", State.SUSPENDED)
        store.membership.join("d1", ["score"])
        assert _acme(store).silent_s is None

    def test_a_stream_without_lanes_has_nothing_to_pass_over(self, store: Store) -> None:
        started(store)
        store.registry.deploy(replace(SCORE, restart=AT_ONCE))
        store.progress.start_lanes([LaneStart(ACME, "id-1", {})])
        number = store.membership.join("d1", ["score"])
        store.membership.hold([ACME], "d1", number)
        assert _adopted(store).silent_s is None

    def test_the_note_stays_until_it_is_decided_where_the_stream_goes_on(
        self, store: Store
    ) -> None:
        _begun(store)
        _adopted(store)
        (heir,) = [peer.number for peer in store.membership.drivers() if peer.name == "d2"]
        store.membership.hold([ACME], "d2", heir)
        store.membership.release("d2", heir, [ACME])
        assert _acme(store).silent_s is not None
        _passed(store, until=9)
        assert _acme(store).silent_s is None
        store.membership.hold([ACME], "d2", heir)
        store.membership.join("d2", ["score"])
        assert _acme(store).silent_s is not None
        store.progress.seek(ACME, by_lane({1: 4}))
        assert _acme(store).silent_s is None

    def test_what_a_lane_passed_over_is_known_until_it_goes_on(self, store: Store) -> None:
        _begun(store)
        epoch = _passed(store, until=9)
        passed = PassedRange(place_at(3), place_at(9))
        assert (_passed_ranges(store), offsets(store)) == ([passed, None], {0: 9, 1: 5})
        epoch = store.membership.hold([ACME], "d1")[ACME]
        assert _passed_ranges(store) == [passed, None]
        assert store.positions.advance([Move(lane(0), place_at(9), place_at(10), epoch)]) == [True]
        assert _passed_ranges(store) == [None, None]

    def test_a_move_to_where_a_lane_is_leaves_what_it_passed_over_to_be_told(
        self, store: Store
    ) -> None:
        _begun(store)
        epoch = _passed(store, until=9)
        assert store.positions.advance([Move(lane(0), place_at(9), place_at(9), epoch)]) == [True]
        assert _passed_ranges(store) == [PassedRange(place_at(3), place_at(9)), None]

    def test_what_is_passed_over_twice_before_anything_is_read_is_told_as_one(
        self, store: Store
    ) -> None:
        _begun(store)
        epoch = _passed(store, until=9)
        more = Move(lane(0), place_at(9), place_at(12), epoch)
        assert store.progress.pass_over(ACME, [more], []) == epoch + 1
        assert _passed_ranges(store) == [PassedRange(place_at(3), place_at(12)), None]
        read = Move(lane(0), place_at(12), place_at(13), epoch + 1)
        assert store.positions.advance([read]) == [True]
        lost = Move(lane(0), place_at(13), place_at(15), epoch + 1)
        assert store.progress.pass_over(ACME, [lost], []) == epoch + 2
        assert _passed_ranges(store) == [PassedRange(place_at(13), place_at(15)), None]

    def test_what_a_log_lost_does_not_decide_what_else_is_too_old(self, store: Store) -> None:
        _begun(store)
        epoch = _adopted(store).epoch
        lost = Move(lane(0), place_at(3), place_at(4), epoch)
        assert store.progress.skip_lost(ACME, [lost], [], "id-1") == epoch + 1
        assert _acme(store).silent_s is not None
        assert _passed_ranges(store) == [PassedRange(place_at(3), place_at(4)), None]
        again = replace(lost, from_offset=place_at(4), to_offset=place_at(4), epoch=epoch + 1)
        assert store.progress.skip_lost(ACME, [again], [], "id-2") == epoch + 2
        assert (_acme(store).silent_s is not None, _passed_ranges(store)) == (True, [None, None])

    def test_what_is_sought_passed_nothing_over(self, store: Store) -> None:
        _begun(store)
        _passed(store, until=9)
        store.progress.seek(ACME, by_lane({0: 9}))
        assert _passed_ranges(store) == [None, None]

    def test_what_stays_where_it_is_was_left_alone_no_longer(self, store: Store) -> None:
        _begun(store)
        epoch = _adopted(store).epoch
        assert not store.progress.stay(ACME, epoch - 1)
        assert _acme(store).silent_s is not None
        assert store.progress.stay(ACME, epoch)
        assert _acme(store).silent_s is None
        assert (_acme(store).epoch, offsets(store)) == (epoch, {0: 3, 1: 5})
        assert _passed_ranges(store) == [None, None]

    def test_a_wave_comes_back_with_what_was_passed_over_before_it(self, store: Store) -> None:
        _begun(store)
        epoch = _acme(store).epoch
        pieces = [
            Slice(
                lane(number), "acme.visits", place_at(at), place_at(9), epoch, passed_range=passed
            )
            for number, at, passed in ((0, 3, PassedRange(place_at(1), place_at(3))), (1, 5, None))
        ]
        wave = Wave("w1", "score", (Bin(tuple(pieces), 1.0),), 1.0)
        assert store.progress.record_intent(wave, "d1")
        assert store.progress.pending_intents("d1") == [wave]
