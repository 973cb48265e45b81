"""Telling of topics that are not there, once for many.

Three hundred customers are added before their topics are: that is a usual morning, and six hundred
warnings would hide the one that matters. So the first is told at once, by its name, and what else
is found missing within the next seconds in one line, with how many they are. Each stream shows for
itself what it waits for; nothing is decided here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import structlog

from headrace.model.lane_names import spoken, taken_apart
from headrace.model.parked import NOTHING_PARKED, is_of_parked
from headrace.model.some_names import some_of
from headrace.model.streams import Stream, StreamId, original
from headrace.model.topic_names import connection_of
from headrace.model.topic_patterns import is_pattern, matched_by
from headrace.telemetry.log_fields import of_stream

log = structlog.get_logger(__name__)

#: between two lines
EVERY_S = 10.0
_NAMED = 3
_NEVER = (
    "internal topics (__*), dead letters (*.dlq) and parked records (*.parked) are never matched"
)
_HIDDEN = "topics that drivers may not describe are not told"
_BEGUN = (
    "It has begun with nothing, as startingOffsets say, so all of a topic is read that comes or is "
    "told later"
)


@dataclass(slots=True)
class MissingTopics:
    """Streams whose topic is not there, and that nobody was told of yet."""

    _untold: dict[StreamId, str] = field(default_factory=dict)
    _next_s: float = float("-inf")

    def note(self, stream: StreamId, topic: str) -> None:
        """Its topic is not there."""
        self._untold[stream] = topic

    def forget(self, stream: StreamId) -> None:
        """Its topic came, or nobody asks for it any more."""
        self._untold.pop(stream, None)

    def tell(self, now_s: float) -> None:
        """Write a line, if there is something to say and the last one is some seconds old."""
        if self._untold and now_s >= self._next_s:
            self._next_s = now_s + EVERY_S
            _write(self._untold)
            self._untold.clear()


def not_there(topic: str) -> str:
    """How a stream says for itself that its topic is missing; lists know it again by this."""
    return f"topic {topic} is not there yet"


def without_its_topic(stream: Stream) -> str:
    """What a stream shows for itself as long as its topic is missing."""
    if is_of_parked(stream.topic, original(stream.id.use_case)):
        return NOTHING_PARKED
    if is_pattern(stream.topic):
        return _nothing_matches(stream)
    return f"{not_there(stream.topic)}; {_how(stream, 'it')}"


def _nothing_matches(stream: Stream) -> str:
    """No log tells of a topic that nobody may describe, so that may be all there is to it."""
    told = f"no topic is told yet that matches {matched_by(stream.topic)}; {_NEVER}, and {_HIDDEN}"
    if not stream.begun_without_topic:
        return told
    return (
        f"{told}. {_BEGUN}; headrace streams seek {stream.id} --to latest passes over what is old"
    )


def without_topics(stream: Stream, missing: Sequence[str]) -> str:
    """What a stream shows while some of its list are missing, and the others are read."""
    if is_pattern(stream.topic):
        return f"{_some(missing)} not there any more"
    gone = [part for part in missing if taken_apart(part) is None]
    told = [not_there(topic) for topic in gone]
    told += [
        f"{spoken(part, stream.topic)} is not there yet" for part in missing if part not in gone
    ]
    make = f"; {_how(stream, 'topics')}" if gone else ""
    return f"{', '.join(told)}{make}"


def _how(stream: Stream, what: str) -> str:
    """How it comes; nobody here makes topics of a log that is not Kafka's."""
    if connection_of(stream.topic) is not None:
        return "make the stream where its connection leads, or it is told a moment later"
    use_case = original(stream.id.use_case)
    return f"'headrace topics create {use_case} --inputs --tenant {stream.id.tenant}' makes {what}"


def _write(untold: Mapping[StreamId, str]) -> None:
    if len(untold) == 1:
        ((stream, topic),) = untold.items()
        log.warning("topic is not there; waiting for it", **of_stream(stream), topic=topic)
        return
    topics = sorted(set(untold.values()))
    log.warning(
        "topics are not there; waiting for them; 'headrace streams list --state waiting' names all",
        streams=len(untold),
        topics=some_of(topics, _NAMED),
    )


def _some(topics: Sequence[str]) -> str:
    return f"topic {topics[0]} is" if len(topics) == 1 else f"topics {some_of(topics, _NAMED)} are"
