"""Whether a stream's positions can be, for people who ask about it or want to send it elsewhere.

Of a lane of a log there is one division at a time, or one that follows another, and of each all
lanes (`model/second_division.py`, `model/missing_buckets.py`). A driver plans nothing of a stream
of which that is not so; here the store is asked, with no driver. Whether a place is in its log is
looked at elsewhere (`lags.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from headrace.errors import ConfigError
from headrace.model import missing_buckets as missing
from headrace.model import second_division as second
from headrace.model.buckets import by_whole_lane, unreplaced
from headrace.model.lane_names import in_order
from headrace.model.lineage import Lineage, ends_in
from headrace.model.places import Place
from headrace.model.streams import Position, Stream, StreamId, lineage_of, places_of
from headrace.ports import TopicInfo


def odd(
    stream: Stream,
    topic: TopicInfo,
    places: Mapping[str, Place],
    lineage: Lineage,
    until: Collection[str] | None = None,
) -> list[str]:
    """What cannot be of where a stream is: each a sentence with what to do about it.

    Args:
        stream: which it is.
        topic: as its log or the stream divides it.
        places: where its lanes are.
        lineage: what they follow.
        until: lanes that a rerun has to read; None: it is none.
    """
    twice = second.divided_twice(places, lineage)
    lacking = missing.missing_buckets(places, lineage, by_whole_lane(topic.lanes), until)
    told = (
        second.told(stream.id, twice, places),
        missing.told(stream.id, stream.topic, lacking, lineage, places),
    )
    return [reason for reason in told if reason is not None]


def placeless(
    positions: Collection[Position], topic: TopicInfo, until: Collection[str] | None
) -> list[str]:
    """Buckets that have no place, and can be sent to one alone; arguments as for `odd`."""
    lineage = lineage_of(positions)
    names, followed = {one.lane.name for one in positions}, ends_in(lineage)
    lacking = missing.missing_buckets(names, lineage, by_whole_lane(topic.lanes), until)
    return [name for name in lacking if name not in followed]


def check_complete(stream: Stream, topic: TopicInfo, positions: Collection[Position]) -> None:
    """See that a range of a stream can be read once more, with nothing left out.

    Raises:
        ConfigError: some of its buckets have no place; says what to do.
    """
    lineage = lineage_of(positions)
    places = places_of(positions)
    for reason in odd(stream, topic, places, lineage):
        raise ConfigError(reason)


def check_divided(stream: StreamId, positions: Collection[Position]) -> None:
    """See that no partition is read up to where it is divided otherwise, or in two ways at once.

    Raises:
        ConfigError: one is; says what to do.
    """
    lineage = lineage_of(positions)
    places = places_of(positions)
    if reason := second.told(stream, second.divided_twice(places, lineage), places):
        raise ConfigError(reason)
    ends = unreplaced(lineage, places)
    if left := in_order(places.keys() & ends.keys()):
        raise ConfigError(
            f"{stream} gets other buckets as soon as {left[0]} is read up to {ends[left[0]]}; wait "
            "for that, decide about its open failures, or seek the whole stream"
        )
