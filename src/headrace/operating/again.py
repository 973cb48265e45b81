"""What it means that records are read again, or passed over, in plain words.

Guarantees count effects from one decision of a person to the next. Who sends a stream back asks for
its effects again, and no guarantee is against that. So it is said before it is done, by whoever
asks, at the terminal and in the console. Whether to go on is not decided here, and what a sink
makes of it is told in ``repeats.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from headrace.model.lane_names import in_order
from headrace.model.streams import RERUN_MARK, Guarantee, StreamId, original
from headrace.operating.seeking import Seek

#: of streams that something waits of, those that are named
_SHOWN = 5


def consequences(seeks: Sequence[Seek], guarantee: Guarantee | None = None) -> list[str]:
    """A sentence for each stream and kind of consequence; none if nothing comes of it.

    Args:
        seeks: what was planned.
        guarantee: that of the use case; None: not known here.
    """
    of = "every guarantee, also exactly-once," if guarantee is None else guarantee.value
    told = []
    for seek in seeks:
        if seek.again != 0:
            told.append(
                f"effects of {_records(seek.again)} of {seek.stream} are made again; "
                f"{of} guards against kills, not against this; what was redriven is read at its "
                "own place and at the one it was sent to, as far as both are among them"
            )
        if seek.passed != 0:
            told.append(
                f"no effect is made of {_records(seek.passed)} of {seek.stream}: they are passed "
                "over, and kept nowhere but in Kafka"
            )
        if seek.gone:
            told.append(
                f"{', '.join(in_order(seek.gone))} of {seek.stream}: its topic has no such lane "
                "now, and where it was read to is forgotten, with what is recorded of it; should "
                "one come, it is read from its beginning"
            )
        if seek.given_up:
            told.append(
                f"{', '.join(seek.given_up)} is given up: what is not read of it never is, and an "
                "effect of what is recorded may be there or not; with order stream all that is "
                f"recorded of {seek.stream} goes, and is handled again without it"
            )
        if seek.runs and seek.does_something:
            told.append(
                f"what runs of {seek.stream} now is not committed, though it may have had effects; "
                "to be sure, suspend it and wait first"
            )
    return told


def of_forgetting(stream: StreamId) -> str:
    """What comes of a seek that forgets state, also where no lane moves."""
    return f"what {stream} remembers of the keys of these partitions is gone then"


def of_letters(letters: int, stream: StreamId) -> str:
    """What comes of sending letters back, of which some may be older than a seek."""
    return (
        f"effects of {_records(letters)} of {stream} are made; if one was read again and handled "
        "since it was set aside, as after a seek or since its tenant was added again, it is for "
        "the second time, and no guarantee is against that"
    )


class Unread(NamedTuple):
    """How many records of a stream wait."""

    #: None: Kafka does not tell of all its partitions
    records: int | None
    #: of what is between two places nobody knows what a bucket has
    is_guess: bool = False


def of_removal(tenants: Sequence[str], unread: Mapping[StreamId, Unread] | None) -> list[str]:
    """What is lost and what is kept when tenants are removed.

    Args:
        tenants: their names.
        unread: what waits, by stream; None: Kafka tells of none.
    """
    alone = len(tenants) == 1
    whom = tenants[0] if alone else f"{len(tenants)} tenants"
    again = "it is another customer and begins" if alone else "they are other customers and begin"
    lost = f"the positions, state of keys, weight, throttle and API keys of {whom}"
    whose = "its" if alone else "their"
    pause = f"{whom}'" if alone else "...' with the same names"
    return [
        *_not_read(unread),
        f"lost: {lost}; added again, {again} at startingOffsets",
        f"kept: {whose} topics, with what is not read, {whose} dead letters and {whose} results",
        f"to pause {'it' if alone else 'them'} instead: 'headrace tenants suspend {pause}",
    ]


def of_stream_removal(stream: StreamId, unread: Mapping[StreamId, Unread] | None) -> list[str]:
    """What is lost and what is kept when a stream is removed; ``unread`` as of tenants."""
    again = f"added again, {stream} begins at startingOffsets"
    if RERUN_MARK in stream.use_case:
        live = stream._replace(use_case=original(stream.use_case))
        again = f"another is begun with its range, as by 'headrace rerun {live} --from earliest'"
    return [
        *_not_read(unread),
        f"lost: the positions and state of keys of {stream}; {again}",
        "kept: its topic, with what is not read, its dead letters and its results",
        f"to pause it instead: 'headrace streams suspend {stream}'",
    ]


def _not_read(unread: Mapping[StreamId, Unread] | None) -> list[str]:
    """A sentence for each stream of which something waits, most first, and one for the rest.

    And one for those of which nobody knows.
    """
    if unread is None:
        return ["how many records are not read yet, nobody knows: Kafka does not answer"]
    waiting = sorted(
        (-found.records, stream, found.is_guess)
        for stream, found in unread.items()
        if found.records
    )
    told = [
        f"{_waiting(-less, is_guess)} of {stream} not read yet"
        for less, stream, is_guess in waiting[:_SHOWN]
    ]
    if rest := waiting[_SHOWN:]:
        amount = _waiting(-sum(less for less, *_ in rest), any(is_guess for *_, is_guess in rest))
        told.append(f"{amount} of {len(rest)} more streams not read yet")
    unknown = sorted(str(stream) for stream, found in unread.items() if found.records is None)
    if unknown:
        more = f" and {len(unknown) - _SHOWN} more streams" if len(unknown) > _SHOWN else ""
        told.append(
            f"how many records of {', '.join(unknown[:_SHOWN])}{more} are not read yet, nobody "
            "knows: partitions have no leader now"
        )
    return told


def is_more(now: Seek, asked: Seek) -> bool:
    """Whether a seek that waited for its answer would do clearly more than what was asked about.

    A stream that runs reads on meanwhile, so a tenth more is no other question.
    """
    if now.gone - asked.gone:
        return True
    amounts = ((now.again, asked.again), (now.passed, asked.passed))
    return any(_is_more(amount, before) for amount, before in amounts)


def _is_more(now: int | None, before: int | None) -> bool:
    """Whether an amount is; what nobody can count is no more than what nobody could."""
    if now is None or before is None:
        return now is None and before is not None
    return now * 10 > before * 11


def _waiting(records: int, is_guess: bool) -> str:
    told = "1 record" if records == 1 else f"{records:,} records"
    return f"about {told}" if is_guess else told


def _records(offsets: int | None) -> str:
    if offsets is None:
        return "records that nobody can count"
    return "1 record" if offsets == 1 else f"up to {offsets:,} records"
