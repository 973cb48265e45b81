"""The input: 10,000 real visits of one site in May 2015, as Apache wrote them down.

Reading a line, and deciding whose it is. A tenant is a section of the site; what is in no large
section belongs to ``home``. A lead is a visitor's address; all its visits to a tenant go to one
partition, so that they keep their order.
"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from importlib import resources

from headrace.errors import BrokerUnavailable
from headrace.model.lane_names import named, number_of
from headrace.model.places import FIRST
from headrace.model.topic_names import own_name
from headrace.ports import Log

SECTIONS = ("articles", "blog", "files", "images", "presentations", "projects")
TENANTS = (*SECTIONS, "home")
#: whoever looks at the demo and posts visits of their own, which no check asks for
GUEST = "guest"
PARTITIONS = 2
#: tenant, and number of a partition of its topic or of a shard of its stream
Lane = tuple[str, int]
LANES = tuple(
    named(f"{tenant}.visits", number) for tenant in TENANTS for number in range(PARTITIONS)
)

_LINE = re.compile(
    r'(?P<lead>\S+) \S+ \S+ \[(?P<at>[^\]]+)\] "(?P<method>\S+) (?P<path>\S+)[^"]*" '
    r"(?P<status>\d{3}) (?P<size>\d+|-)"
)


@dataclass(frozen=True, slots=True)
class Visit:
    """One line of the log."""

    line: int
    lead: str
    at: str
    method: str
    path: str
    status: int
    size_bytes: int
    #: that it went into; None: it goes to a partition of Kafka
    shard: int | None = None

    @property
    def tenant(self) -> str:
        """The section of the site it belongs to."""
        section = self.path.split("?")[0].split("/")[1] if self.path.startswith("/") else ""
        return section if section in SECTIONS else "home"

    @property
    def topic(self) -> str:
        """The topic of its tenant."""
        return f"{self.tenant}.visits"

    @property
    def partition(self) -> int:
        """The same for all visits of a lead, as long as no shard is split or merged."""
        if self.shard is not None:
            return self.shard
        return zlib.crc32(self.lead.encode()) % PARTITIONS

    def as_json(self) -> bytes:
        """What is posted to the gateway."""
        fields = {
            "line": self.line,
            "lead": self.lead,
            "at": self.at,
            "method": self.method,
            "path": self.path,
            "status": self.status,
            "bytes": self.size_bytes,
        }
        return json.dumps(fields, separators=(",", ":")).encode()


def parse(number: int, line: str) -> Visit:
    """One line of Apache's combined format.

    Raises:
        ValueError: it is not of that format.
    """
    match = _LINE.match(line)
    if match is None:
        raise ValueError(f"line {number} is not in Apache's combined format: {line[:80]!r}")
    at = datetime.strptime(match["at"], "%d/%b/%Y:%H:%M:%S %z")
    return Visit(
        line=number,
        lead=match["lead"],
        at=at.isoformat(),
        method=match["method"],
        path=match["path"],
        status=int(match["status"]),
        size_bytes=0 if match["size"] == "-" else int(match["size"]),
    )


def read_visits() -> Iterator[Visit]:
    """All visits, in the order of the file."""
    file = resources.files("headrace.demo") / "data" / "web-visits.log.gz"
    with file.open("rb") as packed, gzip.open(packed, "rt", encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            yield parse(number, line)


def lane_of(name: str) -> Lane:
    """Tenant and number of a lane, by its name."""
    tenant, _, _ = own_name(name).partition(".visits[")
    return tenant, number_of(name)


def counted(log: Log) -> dict[str, int]:
    """How many visits each lane has, where Kafka says it.

    Raises:
        BrokerUnavailable: it says nothing.
    """
    ends = log.end_offsets(LANES)
    return {lane: log.places.between(end, FIRST) or 0 for lane, end in ends.items()}


def unsent(visits: list[Visit], ends: Mapping[str, int]) -> list[Visit]:
    """The visits that are not in Kafka yet, in the order of the file.

    Raises:
        BrokerUnavailable: it is not known of each lane where it ends.
    """
    if any(lane not in ends for lane in LANES):
        raise BrokerUnavailable("Kafka does not say yet where each lane ends")
    seen = dict.fromkeys(LANES, 0)
    left = []
    for visit in visits:
        lane = named(visit.topic, visit.partition)
        if seen[lane] >= ends.get(lane, 0):
            left.append(visit)
        seen[lane] += 1
    return left
