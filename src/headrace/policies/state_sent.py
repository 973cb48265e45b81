"""What becomes of the state of keys when a stream is sent elsewhere.

State is of exactly the records before the position, and no state of an earlier place is kept. So a
lane that would handle records again that are in its state is not sent back, unless a person says
that it begins there with none. A lane that goes forward, or stays, keeps what it has.

Buckets of one lane of the log share its state, so they begin anew together.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from headrace.errors import ConfigError
from headrace.model.buckets import whole_lane
from headrace.model.places import Place
from headrace.model.some_names import some_of
from headrace.model.streams import StreamId
from headrace.model.topic_lists import is_of


def forgotten(
    stream: StreamId,
    parts: Collection[str],
    before: Mapping[str, Place],
    offsets: Mapping[str, Place],
    other: Collection[str],
    *,
    forget: bool,
) -> set[str]:
    """The parts whose state is gone when lanes go on elsewhere.

    Args:
        stream: whose lanes they are.
        parts: lanes of the log that ever had state.
        before: where all of its lanes stood that it still has.
        offsets: where some go on.
        other: topics that are others now, as `topic_lists.others` has them.
        forget: begin with no state in the lanes that are sent somewhere.

    Raises:
        ConfigError: a lane is sent back, and nobody has its state of then; or others that keep
            their places have state in the same part as one that is forgotten.
    """
    if forget:
        gone = {whole_lane(name) for name in offsets}.intersection(parts)
        stay = sorted(name for name in before.keys() - set(offsets) if whole_lane(name) in gone)
        if stay:
            raise ConfigError(
                f"stream {stream}: state is forgotten for all buckets of a lane, and "
                f"{some_of(stay, 3)} would keep its place; seek all of them together"
            )
        return gone
    back = sorted(
        name
        for name, offset in offsets.items()
        if whole_lane(name) in parts
        and (name not in before or offset < before[name] or is_of(name, other))
    )
    if back:
        raise ConfigError(
            f"stream {stream} keeps state, which is that of the records before {some_of(back, 3)} "
            "as they stand, and there is none of an earlier place: seek with --forget-state "
            "(forget_state) to begin there without any, or to where they stand or later, which "
            "keeps it"
        )
    return set()
