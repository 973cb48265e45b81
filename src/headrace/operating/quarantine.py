"""Going on after a failure: retry it, skip it, or send back what was set aside.

A record that cannot be handled stops its lane, and nothing but a person knows whether the handler
is to be mended or the record to be left out. What a person then asks for must be refused before
anything is done if it cannot be, and a record is never skipped before it is safe in the dead
letters.

What stops a lane, and what moves it, is the store's to keep (`store/stops.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from headrace.errors import ConfigError, no_stream
from headrace.model.places import Place
from headrace.model.records import Failure, FailureState
from headrace.model.streams import State, Stream, StreamId
from headrace.model.topic_names import dead_letters_topic
from headrace.ports import DeadLetter, DeadLetters, Failures, Progress, Registry, Store


def retry(failures: Failures, failure: Failure) -> None:
    """Let the lane go on at the record.

    Raises:
        ConfigError: the failure is not open any more.
    """
    failures.retry(number_of(failure))


def check_skip(store: Store, failure: Failure, *, whole_slice: bool) -> None:
    """Look before a letter is kept: a refused skip should leave nothing behind.

    A stream that was removed is no reason: what is recorded of it may wait for this record.

    Args:
        store: knows the stream, and where the lane is.
        failure: the one to skip.
        whole_slice: also a slice in which no single record is to blame.

    Raises:
        ConfigError: it cannot be skipped; the message says why.
        UnknownName: its stream is not there.
    """
    piece = failure.slice
    if failure.state is not FailureState.OPEN:
        raise ConfigError(
            f"failure {failure.id} of lane {piece.lane} is not open any more: "
            f"it was {failure.state}"
        )
    if failure.error.offset is None and piece.is_open:
        raise ConfigError(
            f"failure {failure.id} names no record, and only reading tells where {piece} ends; "
            "retry it, or use 'headrace streams seek'"
        )
    if needs_whole_slice(failure) and not whole_slice:
        raise ConfigError(
            f"failure {failure.id} names no record: to skip it passes over all {piece.records} "
            f"offsets of {piece}; add --whole-slice if you mean that"
        )
    _check_kept(failure)
    at = next_offset(store.progress, failure)
    if at not in failure.skipped_from:
        raise ConfigError(
            f"failure {failure.id}: lane {piece.lane} reads next at {at}, "
            f"from where offset {offsets(failure)} cannot be skipped; retry it, or use "
            "'headrace streams seek'"
        )


def needs_whole_slice(failure: Failure) -> bool:
    """Whether to skip it passes over records of which none is to blame, and none is kept."""
    return failure.error.offset is None and not failure.slice.is_empty


def skip(failures: Failures, letters: DeadLetters, failure: Failure) -> None:
    """Keep the record in the dead letters as it came, then let its lane go on behind it.

    Raises:
        BrokerUnavailable: the record is not safe, and the lane stays where it is.
        ConfigError: the brokers refuse the record, or the store refuses the skip; or the record is
            not kept with the failure.
    """
    _check_kept(failure)
    if failure.error.offset is not None:
        letters.keep([DeadLetter(failure.slice, failure.error, failure.attempts)])
    failures.skip(number_of(failure))


def _check_kept(failure: Failure) -> None:
    """Of a record that nobody has there would be no letter."""
    if not failure.record_kept:
        raise ConfigError(
            f"failure {failure.id} was kept without its record, as its tenant had no room left; "
            "decide about older failures of the tenant, retry this one, and skip it when it has "
            "failed again; or use 'headrace streams seek'"
        )


def consequence(failure: Failure) -> str:
    """What it means to skip it, in one sentence."""
    piece = failure.slice
    if failure.error.offset is None and piece.is_empty:
        return (
            f"failure {failure.id}: passes over nothing more; what was claimed of "
            f"{piece.lane.name} before offset {piece.from_offset} is lost"
        )
    if failure.error.offset is None:
        return f"failure {failure.id}: passes over {piece.records} offsets, {piece}, kept nowhere"
    return (
        f"failure {failure.id}: passes over offset {failure.error.offset} of "
        f"{piece.lane.name}, which is kept in {dead_letters_topic(piece.lane_topic)}"
    )


def live_stream(registry: Registry, wanted: StreamId) -> Stream:
    """The stream, if anything of it can go on.

    Raises:
        UnknownName: nobody added it.
        ConfigError: it was removed.
    """
    found = next((stream for stream in registry.streams() if stream.id == wanted), None)
    if found is None:
        raise no_stream(str(wanted))
    if found.state is State.REMOVED:
        raise ConfigError(f"stream {wanted} was removed; nothing of it can go on or be sent back")
    return found


def generation_of(registry: Registry, tenant: str) -> int:
    """The epoch below which letters and failures are of an earlier tenant of this name."""
    return next((known.generation for known in registry.tenants() if known.name == tenant), 0)


def suspended(registry: Registry, failures: Collection[Failure]) -> Iterator[Stream]:
    """The streams of these failures that stand still, whatever was decided about a failure."""
    wanted = {failure.slice.lane.stream for failure in failures}
    for stream in registry.streams():
        if stream.id in wanted and stream.state is State.SUSPENDED:
            yield stream


def next_offset(progress: Progress, failure: Failure) -> Place | None:
    """Where the lane of a failure reads next; None if it has no position."""
    lane = failure.slice.lane
    found = (
        position for position in progress.load_positions([lane.stream]) if position.lane == lane
    )
    return next((position.next_offset for position in found), None)


def offsets(failure: Failure) -> str:
    """The record's offset, or the range of the slice if no record is named."""
    if failure.error.offset is not None:
        return str(failure.error.offset)
    if failure.slice.is_empty or failure.slice.is_open:
        return f"{failure.slice.from_offset}.."  # nobody knows how much
    return f"{failure.slice.from_offset}..{failure.slice.until_offset}"


def number_of(failure: Failure) -> int:
    """Its id; it came from the store."""
    assert failure.id is not None, "it came from the store"
    return failure.id
