"""A record is never skipped before it is safe, and a refused skip leaves nothing behind."""

from dataclasses import replace

import pytest

from headrace.errors import BrokerUnavailable, ConfigError, UnknownName
from headrace.model.receipts import SliceError
from headrace.model.records import Deployment, Failure, FailureState, LaneStart
from headrace.model.streams import LaneId, Slice, State, StreamId, Tenant
from headrace.operating.quarantine import (
    check_skip,
    consequence,
    live_stream,
    next_offset,
    offsets,
    retry,
    skip,
    suspended,
)
from headrace.testing.dead_letters_fake import MemoryDeadLetters
from headrace.testing.memory_store import MemoryStore

ACME = StreamId("score", "acme")


@pytest.fixture
def store():
    store = MemoryStore()
    store.registry.deploy(Deployment("score", "score.py", "ab12", "{tenant}.visits"))
    store.registry.add_tenant(Tenant("acme"))
    store.progress.start_lanes([LaneStart(ACME, "id", {"acme.visits[0]": 3})])
    return store


@pytest.fixture
def fail(store):
    def keep(**error):
        given = {"temporary": False, "code": "HandlerError", "message": "no", "offset": 3}
        piece = Slice(LaneId("score", "acme", "acme.visits[0]"), "acme.visits", 3, 9, 1, records=6)
        failure = Failure(piece, SliceError(**given | error), 5.0, 4, behind=4)
        return store.failures.one(store.failures.keep([failure])[0])

    return keep


def test_a_skipped_record_is_kept_before_the_lane_moves(store, fail):
    failure, letters = fail(), MemoryDeadLetters()
    letters.fail_next(BrokerUnavailable("down"))
    with pytest.raises(BrokerUnavailable):
        skip(store.failures, letters, failure)
    assert next_offset(store.progress, failure) == 3
    skip(store.failures, letters, failure)
    assert [letter.error.offset for letter in letters.letters] == [3]
    assert next_offset(store.progress, failure) == 4


def test_a_skipped_record_is_kept_with_its_own_time(store, fail):
    letters = MemoryDeadLetters()
    skip(store.failures, letters, fail(timestamp_ms=1_700_000_000_123))
    (letter,) = letters.letters
    assert letter.error.timestamp_ms == 1_700_000_000_123


def test_a_retried_lane_stays_at_its_record(store, fail):
    failure = fail()
    retry(store.failures, failure)
    assert store.failures.one(failure.id).state is FailureState.RETRIED
    assert next_offset(store.progress, failure) == 3


def test_each_reason_not_to_skip_is_named_before_anything_is_done(store, fail):
    failure = fail()
    check_skip(store, failure, whole_slice=False)
    nameless = replace(failure, error=replace(failure.error, offset=None))
    with pytest.raises(ConfigError, match="names no record"):
        check_skip(store, nameless, whole_slice=False)
    check_skip(store, nameless, whole_slice=True)
    store.progress.seek(ACME, {"acme.visits[0]": 5})
    with pytest.raises(ConfigError, match="reads next at 5"):
        check_skip(store, failure, whole_slice=False)
    with pytest.raises(ConfigError, match="not open any more"):
        check_skip(store, store.failures.one(failure.id), whole_slice=False)


def test_what_stops_a_removed_stream_is_skipped_and_nothing_is_sent_back_to_it(store, fail):
    failure = fail()
    store.registry.set_stream_state(ACME, State.REMOVED)
    check_skip(store, failure, whole_slice=False)
    skip(store.failures, MemoryDeadLetters(), failure)
    assert next_offset(store.progress, failure) == 4
    with pytest.raises(ConfigError, match="was removed"):
        live_stream(store.registry, ACME)
    with pytest.raises(UnknownName):
        live_stream(store.registry, StreamId("score", "nobody"))


def test_what_an_earlier_stream_left_is_not_skipped_in_the_new_one(store, fail):
    failure = fail()
    store.registry.set_stream_state(ACME, State.REMOVED)
    store.registry.add_stream(ACME)
    with pytest.raises(ConfigError, match="not open any more"):
        check_skip(store, store.failures.one(failure.id), whole_slice=False)
    with pytest.raises(ConfigError, match="reads next at None"):
        check_skip(store, failure, whole_slice=False)


def test_what_a_skip_passes_over_is_said_in_a_sentence(fail):
    failure = fail()
    assert consequence(failure).endswith(
        "offset 3 of acme.visits[0], which is kept in acme.visits.dlq"
    )
    nameless = replace(failure, error=replace(failure.error, offset=None))
    assert "passes over 6 offsets" in consequence(nameless)
    assert (offsets(failure), offsets(nameless)) == ("3", "3..9")


def test_streams_that_stand_still_all_the_same_are_found(store, fail):
    failure = fail()
    assert list(suspended(store.registry, [failure])) == []
    store.registry.set_stream_state(ACME, State.SUSPENDED)
    assert [stream.id for stream in suspended(store.registry, [failure])] == [ACME]
