"""What PostgreSQL shows to a transaction that waited for another one.

Under READ COMMITTED a statement that waits for a row sees that row as it is then, but no row that
was added meanwhile. So each test holds one transaction open, lets another one run into it, and asks
whether that one has acted on all there is.

An heir waits for nobody: who is dead may be asleep in a transaction.
"""

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import pytest

from headrace.model.receipts import SliceError
from headrace.model.records import Answer, Deployment, Failure, FailureState, LaneStart, Move
from headrace.model.state import StateChanges, StateKey, StateSize
from headrace.model.streams import LaneId, Slice, State, StreamId, Tenant
from headrace.model.waves import Bin, Wave
from headrace.policies import keeping
from headrace.store import answers, drivers, failures, intents, open_store, streams
from headrace.store.revision import changing

STREAMS = [StreamId("score", name) for name in "ab"]
A, B = STREAMS


@pytest.fixture
def store(postgres_url):
    store = open_store(postgres_url)
    store.registry.deploy(Deployment("score", "m.py", "00", "{tenant}.visits"))
    for stream in STREAMS:
        store.registry.add_tenant(Tenant(stream.tenant))
        store.progress.start_lanes([LaneStart(stream, "id", {f"{stream.tenant}.visits[0]": 0})])
    yield store
    store.close()


@pytest.fixture
def number(store):
    """That of the driver ``d1``."""
    return store.membership.join("d1", ["score"])


@pytest.fixture
def whole(store, number):
    """A wave of both streams, which ``d1`` holds; not yet written down."""
    return wave("w", store.membership.hold(STREAMS, "d1", number))


def wave(name, epochs):
    slices = (
        Slice(LaneId(*stream, f"{stream.tenant}.visits[0]"), "v", 0, 5, epoch)
        for stream, epoch in epochs.items()
    )
    return Wave(name, "score", (Bin(tuple(slices), 1.0),), 1.0)


def parts_of(whole):
    slices = list(whole.slices)
    return [
        replace(whole, id=f"{whole.id}.{piece.lane.tenant}", bins=(Bin((piece,), 1.0),))
        for piece in slices
    ]


@contextmanager
def meanwhile(store, act, *given):
    """The block is one transaction; ``act`` runs into it and goes on when it is over."""
    done = []
    with ThreadPoolExecutor(1) as pool:
        with store._database.write() as connection:
            yield connection, done
            waiting = pool.submit(act, *given)
            with pytest.raises(TimeoutError):
                waiting.result(0.5)
        done.append(waiting.result(30))


def holders(store):
    return [stream.holder for stream in store.registry.streams()]


def names_of(waves):
    return [wave.id for wave in waves]


@pytest.fixture
def inherit(store, number):
    """What ``d2`` does to inherit from ``d1``; whether it is done."""
    heir = store.membership.join("d2", ["score"])
    (dead,) = [driver for driver in store.membership.drivers() if driver.name == "d1"]
    return partial(store.membership.adopt, "d2", heir, dead)


def test_an_heir_has_the_parts_of_what_was_divided_when_it_first_tried(store, whole, inherit):
    store.progress.record_intent(whole, "d1")
    with store._database.write() as connection:
        intents.finish(connection, "w", [], "d1", parts=parts_of(whole))
        assert not inherit(), "nor does it wait"
    assert names_of(store.progress.pending_intents("d1")) == ["w.a", "w.b"]
    assert inherit()
    assert store.progress.pending_intents("d1") == []
    assert names_of(store.progress.pending_intents("d2")) == ["w.a", "w.b"]


def test_an_heir_has_what_was_written_down_when_it_first_tried(store, whole, inherit):
    with store._database.write() as connection:
        intents.record(connection, whole, "d1")
        assert not inherit()
    assert inherit()
    assert names_of(store.progress.pending_intents("d2")) == ["w"]


def test_an_heir_has_the_streams_that_were_taken_when_it_first_tried(store, number, inherit):
    with store._database.write() as connection:
        assert drivers.is_still(connection, "d1", number)
        streams.hold(connection, STREAMS, "d1")
        assert not inherit()
    assert inherit()
    assert holders(store) == ["d2", "d2"]


def test_an_heir_does_not_wait_for_a_change_that_sleeps(store, inherit):
    with changing(store._database):
        assert not inherit()
    assert inherit()


def test_whoever_comes_under_a_name_finds_the_parts_of_what_is_divided_at_that_moment(store, whole):
    store.progress.record_intent(whole, "d1")
    with meanwhile(store, store.progress.pending_intents, "d1") as (connection, found):
        intents.finish(connection, "w", [], "d1", parts=parts_of(whole))
        number = store.membership.join("d1", ["score"])
        store.membership.hold(STREAMS, "d1", number)
    assert [names_of(waves) for waves in found] == [["w.a", "w.b"]]


def test_nobody_leaves_while_a_wave_is_written_down_in_his_name(store, number, whole):
    with meanwhile(store, store.membership.leave, "d1", number) as (connection, _):
        intents.record(connection, whole, "d1")
    assert holders(store) == ["d1", "d1"]
    assert [driver.name for driver in store.membership.drivers()] == ["d1"]


def test_no_stream_is_given_back_while_a_wave_of_it_is_written_down(store, number, whole):
    one = whole.only(lambda piece: piece.lane.stream == A)
    with meanwhile(store, store.membership.release, "d1", number, STREAMS) as (connection, _):
        intents.record(connection, one, "d1")
    assert holders(store) == ["d1", None]


def test_what_a_predecessor_says_at_that_moment_is_not_its_successors_word(store, number):
    said = Answer("d1", "score", 1, "00", 1.0)
    with meanwhile(store, store.membership.join, "d1", ["score"]) as (connection, _):
        assert drivers.is_still(connection, "d1", number)
        answers.replace(connection, "d1", [said])
    assert store.membership.answers() == []


@pytest.fixture
def before(store):
    """A failure of a stream that was retried: what it stopped goes on."""
    piece = Slice(LaneId(*A, "a.visits[0]"), "a.visits", 0, 9, 0, records=9)
    failure = Failure(piece, SliceError(False, "HandlerError", "no JSON", offset=0), 1.0)
    store.failures.retry(store.failures.keep([failure])[0])
    return failure


@pytest.fixture
def another(store, before, monkeypatch):
    """One more of the same tenant, for which the store has no room beside it."""
    store.registry.deploy(Deployment("mail", "m.py", "00", "{tenant}.visits"))
    monkeypatch.setattr(keeping, "MOST_ROWS", 1)
    lane = before.slice.lane._replace(use_case="mail")
    return replace(before, slice=replace(before.slice, lane=lane), state=FailureState.SKIPPED)


def stopped(store):
    return [failure.slice.lane.stream for failure in store.failures.every(only_open=True)]


def test_what_stops_its_lane_again_at_that_moment_is_not_dropped_for_room(store, before, another):
    with meanwhile(store, store.failures.note, [another]) as (connection, _):
        failures.keep(connection, [before], stop_use_case=False)
    assert stopped(store) == [A]


def test_what_comes_again_while_it_is_dropped_for_room_stops_its_lane(store, before, another):
    with meanwhile(store, store.failures.keep, [before]) as (connection, _):
        failures.note(connection, [another])
    assert stopped(store) == [A]


def test_a_note_and_a_failure_of_one_stream_do_not_wait_for_each_other(store, before, monkeypatch):
    late = replace(before, error=replace(before.error, offset=3))
    store.failures.retry(store.failures.keep([late])[0])
    monkeypatch.setattr(keeping, "MOST_ROWS", 1)
    over = replace(before, state=FailureState.SKIPPED)
    with ThreadPoolExecutor(1) as pool:
        with store._database.write() as connection:
            streams.locked(connection, A)
            failures._again(connection, [late], {})
            waiting = pool.submit(store.failures.note, [over])
            with pytest.raises(TimeoutError):
                waiting.result(0.5)
            failures.keep(connection, [late], stop_use_case=False)
        waiting.result(30)
    assert stopped(store) == [A]


def test_what_stops_a_use_case_and_notes_of_its_streams_do_not_wait_for_each_other(store):
    """Its own stream was locked first, and then all from the beginning."""
    piece = Slice(LaneId(*B, "b.visits[0]"), "b.visits", 0, 9, 0, records=9)
    failure = Failure(piece, SliceError(False, "HandlerError", "no JSON", offset=0), 1.0)
    stop = partial(store.failures.keep, [failure], stop_use_case=True)
    with ThreadPoolExecutor(1) as pool:
        with store._database.write() as connection:
            streams.lock_all(connection, [A])
            waiting = pool.submit(stop)
            with pytest.raises(TimeoutError):
                waiting.result(0.5)
            streams.lock_all(connection, [B])
        waiting.result(30)
    assert stopped(store) == [B]
    assert [stream.state for stream in store.registry.streams()] == [State.SUSPENDED] * 2


def test_the_first_state_of_a_lane_waits_for_nobody_who_holds_its_stream(store):
    epoch = store.membership.hold([A])[A]
    lane = LaneId(*A, "a.visits[0]")
    kept = StateChanges(lane, {StateKey("seen", b"k"): b"{}"}, StateSize(1, 3))
    with ThreadPoolExecutor(1) as pool, store._database.write() as connection:
        # So does who takes a stream over or seeks in it, before it comes to the positions.
        streams.locked(connection, A)
        commit = pool.submit(store.positions.advance_groups, [[Move(lane, 0, 5, epoch)]], [kept])
        assert commit.result(5) == [True]
