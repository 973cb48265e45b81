"""What the demo must come to, computed from the file alone.

A check that shares code with what it checks agrees with every mistake. So this is the job written
once more, in the plainest Python, with its own watch list and points, no Arrow, no SQL, no Kafka.
The only thing it is told is how far a removed tenant had come, since nobody can know that before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from headrace.demo.visits import Visit

_WATCHED = (
    "/articles/dynamic-dns-with-dhcp/",
    "/articles/ssh-security/",
    "/blog/geekery/ssl-latency.html",
    "/files/logstash/logstash-1.3.2-monolithic.jar",
    "/presentations/puppet-at-loggly/puppet-at-loggly.pdf.html",
    "/projects/keynav/",
)


_BY_GATEWAY = ("presentations", "projects")
_FIRST_LINE_WITH_METHOD = 5_001


@dataclass(slots=True)
class Expected:
    """Results by tenant."""

    #: visits by (tenant, partition), in order: what each lane of Kafka must hold
    lanes: dict[tuple[str, int], list[Visit]] = field(default_factory=dict)
    #: (tenant, lead) -> (score, visits)
    scores: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict)
    #: (tenant, subject) of each mail -> how many
    mails: dict[tuple[str, str], int] = field(default_factory=dict)


def expected(
    visits: Iterable[Visit],
    reached: Mapping[str, Mapping[tuple[str, int], int]],
) -> Expected:
    """Work through the visits.

    Args:
        visits: all of the file, in its order.
        reached: by use case, how many visits of a lane count; a lane not named counts whole.
    """
    result = Expected()
    for visit in visits:
        lane = (visit.tenant, visit.partition)
        before = result.lanes.setdefault(lane, [])
        if len(before) < reached.get("score", {}).get(lane, len(before) + 1):
            _score(result, visit)
        if len(before) < reached.get("react", {}).get(lane, len(before) + 1):
            _mail(result, visit)
        before.append(visit)
    return result


def _score(result: Expected, visit: Visit) -> None:
    key = (visit.tenant, visit.lead)
    points, count = result.scores.get(key, (0, 0))
    result.scores[key] = (points - points // 10 + points_of(visit.path), count + 1)


def came_by(visit: Visit) -> str:
    """The version of the schema that a visit came into Kafka by."""
    newest = visit.tenant in _BY_GATEWAY or visit.line >= _FIRST_LINE_WITH_METHOD
    return "version 2" if newest else "version 1"


def points_of(path: str) -> int:
    """What a page is worth."""
    page = path.split("?", 1)[0]
    if page.endswith((".png", ".gif", ".jpg")):
        return 1
    if page.endswith((".css", ".js", ".ico")):
        return 0
    if page.endswith(".pdf"):
        return 25
    return 40 if page.endswith(".jar") else 10


def _mail(result: Expected, visit: Visit) -> None:
    if visit.path.split("?", 1)[0] in _WATCHED:
        key = (visit.tenant, f"{visit.lead} opened {visit.path}")
        result.mails[key] = result.mails.get(key, 0) + 1
