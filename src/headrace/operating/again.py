"""What it means that records are read again, or passed over, in plain words.

Guarantees count effects from one decision of a person to the next. Who sends a stream back asks for
its effects again, and no guarantee is against that. So it is said before it is done, by whoever
asks, at the terminal and in the console. Whether to go on is not decided here, and what a sink
makes of it is told in ``repeats.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headrace.model.streams import Guarantee, StreamId
from headrace.operating.seeking import Seek


def consequences(seeks: Sequence[Seek], guarantee: Guarantee | None = None) -> list[str]:
    """A sentence for each stream and kind of consequence; none if nothing comes of it.

    Args:
        seeks: what was planned.
        guarantee: that of the use case; None: not known here.
    """
    of = "every guarantee, also exactly-once," if guarantee is None else guarantee.value
    told = []
    for seek in seeks:
        if seek.again:
            told.append(
                f"effects of {_records(seek.again)} of {seek.stream} are made again; "
                f"{of} guards against kills, not against this"
            )
        if seek.passed:
            told.append(
                f"no effect is made of {_records(seek.passed)} of {seek.stream}: they are passed "
                "over, and kept nowhere but in Kafka"
            )
        if seek.runs and (seek.again or seek.passed):
            told.append(
                f"what runs of {seek.stream} now is not committed, though it may have had effects; "
                "to be sure, suspend it and wait first"
            )
    return told


def of_letters(letters: int, stream: StreamId) -> str:
    """What comes of sending letters back, of which some may be older than a seek."""
    return (
        f"effects of {_records(letters)} of {stream} are made; if one was read again and handled "
        "since it was set aside, as after a seek or since its tenant was added again, it is for "
        "the second time, and no guarantee is against that"
    )


def of_removal(tenant: str, unread: Mapping[StreamId, int] | None) -> list[str]:
    """What is lost and what is kept when a tenant is removed.

    Args:
        tenant: its name.
        unread: records that wait, by stream; None: Kafka does not tell.
    """
    if unread is None:
        waiting = ["how many records are not read yet, nobody knows: Kafka does not answer"]
    else:
        waiting = [
            f"{_exactly(amount)} of {stream} not read yet"
            for stream, amount in sorted(unread.items())
            if amount
        ]
    lost = f"the positions, weight, throttle and API keys of {tenant}"
    return [
        *waiting,
        f"lost: {lost}; added again, it is another customer and begins at startingOffsets",
        "kept: its topics, with what is not read, its dead letters and its results",
        f"to pause it instead: 'headrace tenants suspend {tenant}'",
    ]


def is_more(now: Seek, asked: Seek) -> bool:
    """Whether a seek that waited for its answer would do clearly more than what was asked about.

    A stream that runs reads on meanwhile, so a tenth more is no other question.
    """
    amounts = ((now.again, asked.again), (now.passed, asked.passed))
    return any(amount * 10 > before * 11 for amount, before in amounts)


def _exactly(records: int) -> str:
    return "1 record" if records == 1 else f"{records:,} records"


def _records(offsets: int) -> str:
    return "1 record" if offsets == 1 else f"up to {offsets:,} records"
