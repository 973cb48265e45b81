"""What several drivers told, as one picture.

When streams change hands, two drivers tell of the same one for a while, and a driver that was
killed leaves its last report behind for good. So for each stream the newest word counts. A driver
counts as lost when it is silent while some of its streams are in nobody else's hands.

Nothing here reads a clock; the time to compare with comes in.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable
from typing import NamedTuple

from headrace.model.statistics import Report, StreamFigures
from headrace.model.streams import StreamId

#: a driver tells every other second; silence for so long is no hiccup
LOST_AFTER_S = 15.0


class LastFigures(NamedTuple):
    """The figures of a stream, and when they were told."""

    at_s: float
    figures: StreamFigures


def newest(reports: Iterable[Report]) -> dict[StreamId, LastFigures]:
    """What is known of each stream, from whichever driver told of it last."""
    found: dict[StreamId, LastFigures] = {}
    for report in sorted(reports, key=lambda report: report.at_s):
        found.update((stream.stream, LastFigures(report.at_s, stream)) for stream in report.streams)
    return found


def is_lost(
    report: Report,
    reports: Collection[Report],
    now_s: float,
    removed: Container[StreamId] = frozenset(),
) -> bool:
    """Whether a driver is silent and something that it held is in nobody else's hands.

    Nobody has to take over what was ``removed`` since.
    """
    if now_s - report.at_s <= LOST_AFTER_S or not report.streams:
        return False
    elsewhere = {
        stream.stream for other in reports if other.at_s > report.at_s for stream in other.streams
    }
    left = (stream.stream for stream in report.streams if stream.stream not in removed)
    return any(stream not in elsewhere for stream in left)
