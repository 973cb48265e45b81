"""What every store must do with failures, as tests; a part of ``store_contract``.

A failure stops a lane, and a decision about it moves the lane: the two must never come apart, not
between two operators who decide at once and not against a commit that is still on its way. So
besides the plain rules there are races, and a search for any sequence of failures, commits and
decisions that a dict would answer otherwise.
"""

# A test's name is its sentence.
# ruff: noqa: D102

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from headrace.errors import ConfigError, UnknownName
from headrace.model.receipts import SliceError
from headrace.model.records import Failure, FailureState, Move
from headrace.model.streams import Slice, State, StreamId, Tenant
from headrace.policies import keeping
from headrace.ports import Store
from headrace.testing.store_contract_decisions import Decisions, failed
from headrace.testing.store_contract_positions import (
    ACME,
    BOLT,
    SCORE,
    lane,
    offsets,
    started,
)


def _open(store: Store, stream: StreamId | None = None) -> list[int | None]:
    return [each.id for each in store.failures(stream, only_open=True)]


def _state(store: Store, number: int) -> FailureState:
    return store.failure(number).state


class FailuresContract:
    """The promises of failures; ``StoreContract`` has them all."""

    def test_a_failure_is_kept_whole_and_its_stream_stays_active(
        self, store: Store, open_again: Callable[[], Store]
    ) -> None:
        started(store, 0)
        error = SliceError(
            temporary=False,
            code="HandlerError",
            message="no JSON:\n\0\udcff",
            traceback="Traceback\n  \0",
            offset=3,
            raw_key=b"",
            raw_value=b"\0\xff{",
            raw_headers=(("trace", b"\xfe"), ("trace", None), ("", b"")),
            timestamp_ms=1_700_000_000_123,
            retry_after_s=0.1,
        )
        piece = Slice(lane(0), "acme.visits", 0, 9, 1, more=True)
        failure = Failure(piece, error, 12.5, attempts=4)
        number = store.keep_failure(failure)
        again = open_again()
        assert again.failures() == [replace(failure, id=number)]
        assert again.failure(number) == replace(failure, id=number)
        assert again.failure(number, "acme") == again.failure(number)
        with pytest.raises(UnknownName):
            again.failure(number, "bolt")
        bare = replace(error, traceback="", raw_key=None, raw_value=None, raw_headers=())
        listed = again.failures(with_records=False)
        assert listed == [replace(failure, error=bare, id=number)]
        again.close()
        assert {each.state for each in store.streams()} == {State.ACTIVE}

    def test_failures_come_oldest_first_and_of_one_stream_if_asked(self, store: Store) -> None:
        started(store, 0)
        error = SliceError(True, "SinkUnavailable", "down", raw_headers=(("a", b"1"),))
        kept = []
        for at_s, place in ((9.0, lane(0)), (5.0, lane(0, BOLT)), (7.0, lane(1))):
            failure = Failure(Slice(place, "t", 0, 1, 1), error, at_s)
            kept.append(replace(failure, id=store.keep_failure(failure)))
        assert store.failures() == kept
        assert store.failures(ACME) == [kept[0], kept[2]]
        assert store.failures(most=2) == kept[:2]
        assert store.failures(after=kept[0].id or 0, most=1) == kept[1:2]
        assert store.failures(ACME, after=kept[0].id or 0) == kept[2:]
        store.retry_failure(kept[0].id or 0)
        assert store.failures(only_open=True) == kept[1:]
        assert store.failures(ACME, only_open=True) == [kept[2]]

    def test_a_lane_keeps_the_failure_that_is_open(self, store: Store) -> None:
        started(store, 0, 0)
        first = store.keep_failure(failed(at=3))
        assert store.keep_failure(failed(at=7)) == first
        other_lanes = [store.keep_failure(failed(1)), store.keep_failure(failed(stream=BOLT))]
        assert _open(store) == [first, *other_lanes]
        assert store.failure(first).error.offset == 3
        store.retry_failure(first)
        assert store.keep_failure(failed(at=7)) not in (first, *other_lanes)

    def test_a_failure_that_comes_again_is_the_same_one_and_counted_up(self, store: Store) -> None:
        started(store, 3, 3)
        first = store.keep_failure(failed(at=3))
        other = store.keep_failure(failed(1, at=3))
        for times in range(2, 5):
            store.retry_failure(first)
            error = SliceError(False, "BadRecord", f"time {times}", offset=3, raw_value=b"v")
            error = replace(error, raw_headers=(("time", b"%d" % times),))
            again = replace(failed(at=3), error=error, at_s=float(times), attempts=times)
            assert store.keep_failure(again) == first
            assert store.failure(first) == replace(again, id=first, times=times)
        assert [each.id for each in store.failures()] == [first, other]
        store.skip_failure(first)
        store.seek(ACME, {0: 3})
        assert store.keep_failure(failed(at=3)) not in (first, other)

    def test_another_record_at_the_same_offset_is_another_failure(self, store: Store) -> None:
        """A topic that was made again has other records there, and the old one is only here."""
        started(store, 0)
        numbers = []
        records = [(1, b"k", b"v"), (2, b"k", b"v"), (2, b"k", b"w"), (2, None, b"")]
        for at_ms, key, value in records:
            error = replace(failed(at=0).error, raw_key=key, raw_value=value, timestamp_ms=at_ms)
            numbers.append(store.keep_failure(replace(failed(at=0), error=error)))
            store.seek(ACME, {0: 0}, f"id {at_ms}")
        again = replace(error, message="once more")
        assert store.keep_failure(replace(failed(at=0), error=again)) == numbers[-1]
        found = [store.failure(number) for number in numbers]
        assert [each.error.raw_value for each in found] == [b"v", b"v", b"w", b""]
        assert [each.times for each in found] == [1, 1, 1, 2]

    def test_what_failed_elsewhere_is_another_failure(self, store: Store) -> None:
        started(store, 0)
        numbers = set()
        for other in (failed(at=3), failed(at=4), failed(at=3, names_record=False)):
            numbers.add(store.keep_failure(other))
            store.set_stream_state(ACME, State.ACTIVE)
        assert len(numbers) == 3

    def test_room_for_a_failure_is_made_by_the_oldest_of_its_tenant_that_are_over(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(keeping, "MOST_ROWS", 3)
        started(store, 0, 0)
        still = store.keep_failure(failed(1, at=0))
        other = store.keep_failure(failed(stream=BOLT))
        numbers = []
        for at in range(5):
            store.seek(ACME, {0: at})
            numbers.append(store.keep_failure(failed(at=at)))
        assert [each.id for each in store.failures(ACME)] == [still, *numbers[-2:]]
        assert [each.id for each in store.failures(BOLT)] == [other]
        assert _open(store, ACME) == [still, numbers[-1]]

    def test_where_open_failures_fill_the_room_a_lane_stops_without_its_record(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(keeping, "MOST_BYTES", 2500)
        started(store, 3, 3)
        whole, bare = (
            store.failure(store.keep_failure(_with_record(failed(partition, at=3), bytes(2000))))
            for partition in (0, 1)
        )
        assert (whole.record_kept, whole.error.raw_value) == (True, bytes(2000))
        assert (bare.record_kept, bare.error.raw_value, bare.error.raw_headers) == (False, None, ())
        assert "kept without its record" in bare.error.message
        assert "t[1] offset 3" in bare.error.message
        assert len(_open(store)) == 2
        store.skip_failure(whole.id or 0)
        store.retry_failure(bare.id or 0)
        store.keep_failure(_with_record(failed(1, at=3), b"now there is room"))
        kept = store.failure(bare.id or 0)
        assert (kept.record_kept, kept.error.raw_value) == (True, b"now there is room")

    def test_a_driver_is_told_of_its_own_stopped_lanes_alone(self, store: Store) -> None:
        started(store, 0, 0)
        store.hold([ACME], "one")
        store.hold([BOLT], "two")
        first, over = (store.keep_failure(failed(partition)) for partition in (0, 1))
        other = store.keep_failure(failed(stream=BOLT))
        store.retry_failure(over)
        assert store.stopped_lanes("one") == {lane(0): first}
        assert store.stopped_lanes("two") == {lane(0, BOLT): other}
        assert store.stopped_lanes("nobody") == {}

    def test_a_failure_may_stop_its_use_case_with_a_reason(self, store: Store) -> None:
        started(store, 0)
        for name in ("coda", "dart"):
            store.add_tenant(Tenant(name))
        store.deploy(replace(SCORE, use_case="other", topic="{tenant}.clicks"))
        store.set_stream_state(StreamId("score", "coda"), State.SUSPENDED, "by phone")
        store.set_stream_state(StreamId("score", "dart"), State.REMOVED)
        number = store.keep_failure(failed(), stop_use_case=True)
        of_score = {each.id.tenant: each for each in store.streams() if each.id.use_case == "score"}
        why = "use case stopped by acme/score, partition 0 at offset 3: HandlerError: no JSON"
        assert (of_score["acme"].state, of_score["acme"].reason) == (State.SUSPENDED, why)
        assert of_score["bolt"].state is State.SUSPENDED
        assert of_score["bolt"].reason == "use case stopped by a failure of another tenant"
        assert of_score["coda"].reason == "by phone"
        assert of_score["dart"].state is State.REMOVED
        others = {each.state for each in store.streams() if each.id.use_case == "other"}
        assert others == {State.ACTIVE}
        assert _open(store) == [number]

    def test_a_failure_already_open_does_not_keep_its_use_case_from_being_stopped(
        self, store: Store
    ) -> None:
        started(store, 0)
        first = store.keep_failure(failed())
        assert store.keep_failure(failed(), stop_use_case=True) == first
        assert {each.state for each in store.streams()} == {State.SUSPENDED}

    def test_a_failure_does_not_bring_a_removed_stream_back(self, store: Store) -> None:
        started(store, 0)
        store.set_stream_state(ACME, State.REMOVED)
        store.keep_failure(failed(), stop_use_case=True)
        assert len(store.failures()) == 1
        assert store.streams()[0].state is State.REMOVED

    def test_a_retried_failure_leaves_the_position_where_it_is(self, store: Store) -> None:
        epoch = started(store, 3)
        number = store.keep_failure(failed(at=3))
        store.retry_failure(number)
        assert _state(store, number) is FailureState.RETRIED
        assert store.positions.advance([Move(lane(0), 3, 4, epoch)]) == [True]

    @pytest.mark.parametrize(("names_record", "behind"), [(True, 4), (False, 9)])
    def test_to_skip_moves_behind_the_record_or_the_slice_and_keeps_the_epoch(
        self, store: Store, names_record: bool, behind: int
    ) -> None:
        epoch = started(store, 3, 3)
        number = store.keep_failure(failed(at=3, until=9, names_record=names_record))
        store.skip_failure(number)
        assert _state(store, number) is FailureState.SKIPPED
        assert offsets(store) == {0: behind, 1: 3}
        assert store.positions.advance([Move(lane(0), behind, 11, epoch)]) == [True]

    def test_to_skip_also_passes_a_gap_before_the_record(self, store: Store) -> None:
        started(store, 2)
        failure = failed(at=5)
        store.skip_failure(
            store.keep_failure(replace(failure, slice=replace(failure.slice, from_offset=2)))
        )
        assert offsets(store) == {0: 6}

    def test_a_record_outside_the_slice_is_not_skipped(self, store: Store) -> None:
        started(store, 3)
        number = store.keep_failure(failed(at=9, until=9))
        with pytest.raises(ConfigError, match="the record at offset 9 cannot be skipped"):
            store.skip_failure(number)
        assert (offsets(store), _open(store)) == ({0: 3}, [number])

    @pytest.mark.parametrize("names_record", [True, False])
    @pytest.mark.parametrize("position", [1, 4])
    def test_a_failure_that_the_lane_does_not_stand_at_is_not_skipped(
        self, store: Store, position: int, names_record: bool
    ) -> None:
        started(store, position)
        number = store.keep_failure(failed(at=3, names_record=names_record))
        with pytest.raises(ConfigError, match=f"reads next at {position}, from where"):
            store.skip_failure(number)
        assert _state(store, number) is FailureState.OPEN
        assert offsets(store) == {0: position}

    def test_what_a_removed_stream_owes_and_cannot_do_is_skipped(self, store: Store) -> None:
        started(store, 3)
        number = store.keep_failure(failed(at=3))
        store.set_stream_state(ACME, State.REMOVED)
        store.skip_failure(number)
        assert (offsets(store), _open(store)) == ({0: 4}, [])

    def test_what_is_decided_is_decided(self, store: Store) -> None:
        started(store, 3, 3)
        retried, skipped = (store.keep_failure(failed(p, at=3)) for p in (0, 1))
        store.retry_failure(retried)
        store.skip_failure(skipped)
        for number, said in ((retried, "retried"), (skipped, "skipped")):
            for decide in (store.retry_failure, store.skip_failure):
                with pytest.raises(ConfigError, match=f"not open any more: it was {said}"):
                    decide(number)
        assert offsets(store) == {0: 3, 1: 4}

    def test_a_number_that_nobody_gave_is_told(self, store: Store) -> None:
        started(store, 3)
        for ask in (store.failure, store.retry_failure, store.skip_failure):
            with pytest.raises(UnknownName, match="no failure 7"):
                ask(7)

    def test_a_resumed_stream_retries_whatfailed(self, store: Store) -> None:
        started(store, 3, 3)
        ours = [store.keep_failure(failed(p)) for p in (0, 1)]
        other = store.keep_failure(failed(stream=BOLT))
        store.set_stream_state(ACME, State.SUSPENDED)
        assert _open(store) == [*ours, other]
        store.set_stream_state(ACME, State.ACTIVE)
        assert _open(store) == [other]
        assert {_state(store, each) for each in ours} == {FailureState.RETRIED}
        assert offsets(store) == {0: 3, 1: 3}

    def test_a_seek_retries_what_failed_in_the_lanes_sought(self, store: Store) -> None:
        started(store, 3, 3)
        sought, left = (store.keep_failure(failed(p)) for p in (0, 1))
        other = store.keep_failure(failed(stream=BOLT))
        store.seek(ACME, {0: 8})
        assert _open(store) == [left, other]
        assert _state(store, sought) is FailureState.RETRIED

    def test_a_skipped_failure_stays_skipped_when_its_stream_is_resumed_or_sought(
        self, store: Store
    ) -> None:
        started(store, 3)
        number = store.keep_failure(failed())
        store.skip_failure(number)
        store.seek(ACME, {0: 3})
        store.set_stream_state(ACME, State.ACTIVE)
        assert _state(store, number) is FailureState.SKIPPED

    @pytest.mark.parametrize("tenant_too", [False, True])
    def test_a_stream_added_anew_has_no_open_failure_left(
        self, store: Store, tenant_too: bool
    ) -> None:
        started(store, 3)
        number = store.keep_failure(failed())
        if tenant_too:
            store.set_tenant_state("acme", State.REMOVED)
            store.add_tenant(Tenant("acme"))
        else:
            store.set_stream_state(ACME, State.REMOVED)
            store.add_stream(ACME)
        assert _open(store) == []
        assert _state(store, number) is FailureState.RETRIED

    def test_each_decision_raises_the_revision(self, store: Store) -> None:
        started(store, 3)
        for decide in (
            lambda: store.keep_failure(failed()),
            lambda: store.retry_failure(store.failures(only_open=True)[0].id or 0),
            lambda: store.keep_failure(failed(), stop_use_case=True),
            lambda: store.skip_failure(store.failures(only_open=True)[0].id or 0),
        ):
            before = store.revision()
            decide()
            assert store.revision() > before

    def test_of_many_who_decide_at_once_exactly_one_does(
        self, store: Store, open_again: Callable[[], Store]
    ) -> None:
        started(store, 0)
        rivals = [open_again() for _ in range(3)]
        for at in range(8):
            number = store.keep_failure(failed(at=at))
            decided = _raced([partial(rival.skip_failure, number) for rival in rivals])
            assert sorted(decided) == [False, False, True]
            assert offsets(store) == {0: at + 1}
        for rival in rivals:
            rival.close()

    def test_of_many_who_keep_a_failure_of_a_lane_at_once_exactly_one_does(
        self, store: Store, open_again: Callable[[], Store]
    ) -> None:
        started(store, 0)
        rivals = [open_again() for _ in range(3)]
        assert all(_raced([partial(rival.keep_failure, failed()) for rival in rivals]))
        assert len(store.failures()) == 1
        for rival in rivals:
            rival.close()

    def test_a_commit_and_a_skip_at_once_move_the_lane_once(
        self, store: Store, open_again: Callable[[], Store]
    ) -> None:
        epoch = started(store, 0)
        other = open_again()
        for at in range(8):
            number = store.keep_failure(failed(at=at))
            commit = partial(other.positions.advance, [Move(lane(0), at, at + 1, epoch)])
            skipped, committed = _raced([partial(store.skip_failure, number), commit])
            assert skipped is not committed
            assert offsets(store) == {0: at + 1}
            assert _open(store) == ([] if skipped else [number])
            store.set_stream_state(ACME, State.ACTIVE)
        other.close()

    def test_failures_and_positions_never_come_apart(self, store: Store) -> None:
        store.deploy(SCORE)
        run_state_machine_as_test(
            lambda: Decisions(store),  # type: ignore[arg-type]
            settings=settings(
                max_examples=25,
                stateful_step_count=20,
                deadline=None,
                derandomize=True,
                database=None,
                suppress_health_check=list(HealthCheck),
            ),
        )


def _with_record(failure: Failure, value: bytes) -> Failure:
    error = replace(failure.error, raw_value=value, raw_headers=(("trace", b"1"),))
    return replace(failure, error=error)


def _raced(calls: list[Callable[[], object]]) -> list[bool]:
    """Make the calls at once; whether each did its work."""
    answers = [False] * len(calls)
    gate = threading.Barrier(len(calls))

    def run(place: int, call: Callable[[], object]) -> None:
        gate.wait()
        with suppress(ConfigError):
            answers[place] = call() != [False]

    threads = [threading.Thread(target=run, args=each) for each in enumerate(calls)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    return answers
