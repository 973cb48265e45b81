"""What every store must do with failures, as tests; for ``Failures``.

Which failure is which, what it stops, and how many are kept. What ends one is in ``decisions.py``.
"""

# A test's name is its sentence.
# ruff: noqa: D102

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest

from headrace.errors import ConfigError, UnknownName
from headrace.model.places import place_at
from headrace.model.receipts import SliceError
from headrace.model.records import Failure, FailureState
from headrace.model.streams import Slice, State, Stopper, StreamId, Tenant
from headrace.policies import keeping
from headrace.ports import Store
from headrace.testing.store_contract.begun import (
    ACME,
    BOLT,
    LATEST,
    SCORE,
    by_lane,
    failed,
    lane,
    started,
    still_open,
)


class TestFailures:
    """The promises of failures."""

    def test_a_failure_is_kept_whole_and_its_stream_stays_active(
        self, store: Store, open_again: Callable[[], Store]
    ) -> None:
        started(store, 0)
        error = SliceError(
            temporary=False,
            code="HandlerError",
            message="no JSON:\n\0\udcff",
            traceback="Traceback\n  \0",
            offset=place_at(3),
            raw_key=b"",
            raw_value=b"\0\xff{",
            raw_headers=(("trace", b"\xfe"), ("trace", None), ("", b"")),
            timestamp_ms=1_700_000_000_123,
            retry_after_s=0.1,
        )
        piece = Slice(lane(0), "acme.visits", place_at(0), place_at(9), 1, more=True)
        failure = Failure(piece, error, 12.5, attempts=4)
        number = store.failures.keep([failure])[0]
        again = open_again()
        assert again.failures.every() == [replace(failure, id=number)]
        assert again.failures.one(number) == replace(failure, id=number)
        assert again.failures.one(number, "acme") == again.failures.one(number)
        with pytest.raises(UnknownName):
            again.failures.one(number, "bolt")
        bare = replace(error, traceback="", raw_key=None, raw_value=None, raw_headers=())
        listed = again.failures.every(with_records=False)
        assert listed == [replace(failure, error=bare, id=number)]
        again.close()
        assert {stream.state for stream in store.registry.streams()} == {State.ACTIVE}

    def test_failures_come_oldest_first_and_of_one_stream_if_asked(self, store: Store) -> None:
        started(store, 0)
        error = SliceError(True, "SinkUnavailable", "down", raw_headers=(("a", b"1"),))
        kept = []
        for at_s, place in ((9.0, lane(0)), (5.0, lane(0, BOLT)), (7.0, lane(1))):
            failure = Failure(Slice(place, "t", place_at(0), place_at(1), 1), error, at_s)
            kept.append(replace(failure, id=store.failures.keep([failure])[0]))
        assert store.failures.every() == kept
        assert store.failures.every(ACME) == [kept[0], kept[2]]
        assert store.failures.every(most=2) == kept[:2]
        assert store.failures.every(after=kept[0].id or 0, most=1) == kept[1:2]
        assert store.failures.every(ACME, after=kept[0].id or 0) == kept[2:]
        store.failures.retry(kept[0].id or 0)
        assert store.failures.every(only_open=True) == kept[1:]
        assert store.failures.every(ACME, only_open=True) == [kept[2]]

    def test_a_lane_keeps_the_failure_that_is_open(self, store: Store) -> None:
        started(store, 0, 0)
        first = store.failures.keep([failed(at=3)])[0]
        assert store.failures.keep([failed(at=7)])[0] == first
        other_lanes = store.failures.keep([failed(1), failed(stream=BOLT)])
        assert still_open(store) == [first, *other_lanes]
        assert store.failures.one(first).error.offset == 3
        store.failures.retry(first)
        assert store.failures.keep([failed(at=7)])[0] not in (first, *other_lanes)

    def test_a_failure_that_comes_again_is_the_same_one_and_counted_up(self, store: Store) -> None:
        started(store, 3, 3)
        first = store.failures.keep([failed(at=3)])[0]
        other = store.failures.keep([failed(1, at=3)])[0]
        for times in range(2, 5):
            store.failures.retry(first)
            error = SliceError(
                False, "BadRecord", f"time {times}", offset=place_at(3), raw_value=b"v"
            )
            error = replace(error, raw_headers=(("time", b"%d" % times),))
            again = replace(failed(at=3), error=error, at_s=float(times), attempts=times)
            assert store.failures.keep([again])[0] == first
            assert store.failures.one(first) == replace(again, id=first, times=times)
        assert [failure.id for failure in store.failures.every()] == [first, other]
        store.failures.skip(first)
        store.progress.seek(ACME, by_lane({0: 3}))
        assert store.failures.keep([failed(at=3)])[0] not in (first, other)

    def test_another_record_at_the_same_offset_is_another_failure(self, store: Store) -> None:
        """A topic that was made again has other records there, and the old one is only here."""
        started(store, 0)
        numbers = []
        records = [(1, b"k", b"v"), (2, b"k", b"v"), (2, b"k", b"w"), (2, None, b"")]
        for at_ms, key, value in records:
            error = replace(
                failed(at=0, epoch=LATEST).error, raw_key=key, raw_value=value, timestamp_ms=at_ms
            )
            numbers.append(
                store.failures.keep([replace(failed(at=0, epoch=LATEST), error=error)])[0]
            )
            store.progress.seek(ACME, by_lane({0: 0}), f"id {at_ms}")
        again = replace(error, message="once more")
        assert (
            store.failures.keep([replace(failed(at=0, epoch=LATEST), error=again)])[0]
            == numbers[-1]
        )
        found = [store.failures.one(number) for number in numbers]
        assert [failure.error.raw_value for failure in found] == [b"v", b"v", b"w", b""]
        assert [failure.times for failure in found] == [1, 1, 1, 2]

    def test_failures_kept_together_are_each_what_they_would_be_alone(self, store: Store) -> None:
        started(store, 0, 0, 0)
        still, again = store.failures.keep([failed(0), failed(1, at=5)])
        store.failures.retry(again)
        new = [failed(2), failed(1, at=5), failed(0, at=7), failed(stream=BOLT), failed(2, at=8)]
        new = [_with_record(failure, b"%d" % at) for at, failure in enumerate(new)]
        numbers = store.failures.keep(new)
        assert numbers == [numbers[0], again, still, numbers[3], numbers[0]]
        assert [failure.id for failure in store.failures.every()] == sorted(set(numbers))
        assert still_open(store) == sorted(set(numbers))
        assert store.failures.one(still) == replace(failed(0), id=still)
        assert store.failures.one(again) == replace(new[1], id=again, times=2)
        assert store.failures.one(numbers[0]) == replace(new[0], id=numbers[0])
        assert store.failures.one(numbers[3]) == replace(new[3], id=numbers[3])

    def test_of_failures_kept_together_all_are_kept_or_none(self, store: Store) -> None:
        started(store, 0)
        with pytest.raises(UnknownName):
            store.failures.keep([failed(0), failed(stream=StreamId("score", "nobody"))])
        assert store.failures.every() == []

    def test_more_failures_at_once_than_a_statement_may_name(self, store: Store) -> None:
        many = 600
        started(store, *[0] * many)
        for times in (1, 2):
            numbers = store.failures.keep([failed(partition) for partition in range(many)])
            kept = store.failures.every(ACME)
            assert [failure.id for failure in kept] == numbers
            assert {failure.times for failure in kept} == {times}
            store.registry.set_stream_state(ACME, State.SUSPENDED)
            store.registry.set_stream_state(ACME, State.ACTIVE)

    def test_what_a_lane_is_stopped_at_that_its_log_lost_is_over_when_its_stream_is_suspended(
        self, store: Store
    ) -> None:
        epoch = started(store, 0, 0)
        gone, stays = store.failures.keep([failed(0, epoch=epoch), failed(1, epoch=epoch)])
        stop = partial(store.registry.set_stream_state, ACME, State.SUSPENDED, "it was cut")
        assert not stop(by=Stopper.FAILURE, epoch=epoch - 1, gone=[lane(0).name])
        assert still_open(store) == [gone, stays]
        assert stop(by=Stopper.FAILURE, epoch=epoch, gone=[lane(0).name])
        assert still_open(store) == [stays]
        with pytest.raises(ConfigError, match="not open any more: it was skipped"):
            store.failures.skip(gone)

    def test_what_failed_elsewhere_is_another_failure(self, store: Store) -> None:
        started(store, 0)
        numbers = set()
        for other in (failed(at=3), failed(at=4), failed(at=3, names_record=False)):
            numbers.add(store.failures.keep([other])[0])
            store.registry.set_stream_state(ACME, State.ACTIVE)
        assert len(numbers) == 3

    def test_room_for_a_failure_is_made_by_the_oldest_of_its_tenant_that_are_over(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(keeping, "MOST_ROWS", 3)
        started(store, 0, 0)
        still = store.failures.keep([failed(1, at=0)])[0]
        other = store.failures.keep([failed(stream=BOLT)])[0]
        numbers = []
        for at in range(5):
            store.progress.seek(ACME, by_lane({0: at}))
            numbers.append(store.failures.keep([failed(at=at, epoch=LATEST)])[0])
        assert [failure.id for failure in store.failures.every(ACME)] == [still, *numbers[-2:]]
        assert [failure.id for failure in store.failures.every(BOLT)] == [other]
        assert still_open(store, ACME) == [still, numbers[-1]]

    def test_where_open_failures_fill_the_room_a_lane_stops_without_its_record(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(keeping, "MOST_BYTES", 2500)
        started(store, 3, 3)
        whole, bare = (
            store.failures.one(
                store.failures.keep([_with_record(failed(partition, at=3), bytes(2000))])[0]
            )
            for partition in (0, 1)
        )
        assert (whole.record_kept, whole.error.raw_value) == (True, bytes(2000))
        assert (bare.record_kept, bare.error.raw_value, bare.error.raw_headers) == (False, None, ())
        assert "kept without its record" in bare.error.message
        assert "acme.visits[1] offset 3" in bare.error.message
        assert len(still_open(store)) == 2
        store.failures.skip(whole.id or 0)
        store.failures.retry(bare.id or 0)
        store.failures.keep([_with_record(failed(1, at=3), b"now there is room")])[0]
        kept = store.failures.one(bare.id or 0)
        assert (kept.record_kept, kept.error.raw_value) == (True, b"now there is room")

    def test_a_driver_is_told_of_its_own_stopped_lanes_alone(self, store: Store) -> None:
        started(store, 0, 0)
        store.membership.hold([ACME], "one")
        store.membership.hold([BOLT], "two")
        first, over = (
            store.failures.keep([failed(partition, epoch=LATEST)])[0] for partition in (0, 1)
        )
        other = store.failures.keep([failed(stream=BOLT, epoch=LATEST)])[0]
        store.failures.retry(over)
        assert store.failures.stopped_lanes("one") == {lane(0): first}
        assert store.failures.stopped_lanes("two") == {lane(0, BOLT): other}
        assert store.failures.stopped_lanes("nobody") == {}

    def test_a_failure_may_stop_its_use_case_with_a_reason(self, store: Store) -> None:
        started(store, 0)
        for name in ("coda", "dart"):
            store.registry.add_tenant(Tenant(name))
        store.registry.deploy(replace(SCORE, use_case="other", topic="{tenant}.clicks"))
        store.registry.set_stream_state(StreamId("score", "coda"), State.SUSPENDED, "by phone")
        store.registry.set_stream_state(StreamId("score", "dart"), State.REMOVED)
        number = store.failures.keep([failed()], stop_use_case=True)[0]
        of_score = {
            stream.id.tenant: stream
            for stream in store.registry.streams()
            if stream.id.use_case == "score"
        }
        why = "use case stopped by acme/score, partition 0 at offset 3: HandlerError: no JSON"
        assert (of_score["acme"].state, of_score["acme"].reason) == (State.SUSPENDED, why)
        assert of_score["bolt"].state is State.SUSPENDED
        assert of_score["bolt"].reason == "use case stopped by a failure of another tenant"
        assert of_score["coda"].reason == "by phone"
        assert of_score["dart"].state is State.REMOVED
        others = {
            stream.state for stream in store.registry.streams() if stream.id.use_case == "other"
        }
        assert others == {State.ACTIVE}
        assert still_open(store) == [number]

    def test_a_failure_already_open_does_not_keep_its_use_case_from_being_stopped(
        self, store: Store
    ) -> None:
        started(store, 0)
        first = store.failures.keep([failed()])[0]
        assert store.failures.keep([failed()], stop_use_case=True)[0] == first
        assert {stream.state for stream in store.registry.streams()} == {State.SUSPENDED}

    def test_a_failure_does_not_bring_a_removed_stream_back(self, store: Store) -> None:
        started(store, 0)
        store.registry.set_stream_state(ACME, State.REMOVED)
        store.failures.keep([failed()], stop_use_case=True)[0]
        assert len(store.failures.every()) == 1
        assert store.registry.streams()[0].state is State.REMOVED

    @pytest.mark.parametrize("stop_use_case", [False, True])
    def test_what_was_judged_under_an_earlier_epoch_is_noted_and_stops_nothing(
        self, store: Store, stop_use_case: bool
    ) -> None:
        before = started(store, 0)
        store.progress.seek(ACME, by_lane({0: 5}))
        now = next(one.epoch for one in store.progress.load_positions([ACME]))
        late = failed()
        late = replace(late, slice=replace(late.slice, epoch=before))
        (number,) = store.failures.keep([late], stop_use_case=stop_use_case)
        assert store.failures.one(number).state is FailureState.RETRIED
        assert {stream.state for stream in store.registry.streams()} == {State.ACTIVE}
        ours = replace(late, slice=replace(late.slice, epoch=now))
        numbers = store.failures.keep([late, ours])
        assert [failure.id for failure in store.failures.every(only_open=True)] == numbers[1:]


def _with_record(failure: Failure, value: bytes) -> Failure:
    error = replace(failure.error, raw_value=value, raw_headers=(("trace", b"1"),))
    return replace(failure, error=error)
