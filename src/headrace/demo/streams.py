"""Streams of Kinesis as the log of the first act, each split and merged while visits flow.

The Kinesis here has everything in memory and ends with the demo. Visits are sent many in a request,
and no request has two of a lead, since it promises no order among its records. Its answer says
which shard a record went into, and under which number: so it is known which visits a shard has, in
which order, and how many of them are before any place, whoever reads them.
"""

from __future__ import annotations

import time
from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from pydantic import SecretStr

from headrace.connectors.kinesis.clients import address_of, client_of
from headrace.connectors.kinesis.shards import ShardOf
from headrace.connectors.kinesis.spots import before
from headrace.cycle.driver import Driver
from headrace.demo.in_streams import CONNECTION
from headrace.demo.logs import Acknowledged, active
from headrace.demo.scenario import KINESIS
from headrace.demo.shards import MOST_PUT, STREAMS, At, DemoStreams
from headrace.demo.visits import Lane, Visit, lane_of
from headrace.embedded import EmbeddedKinesis
from headrace.model.places import FIRST, Place
from headrace.ports import Server
from headrace.settings import Settings
from headrace.settings.connections import ConnectionSettings

#: shares of the visits after which a shard of each stream is split, and two are merged
SPLIT_AT, MERGED_AT = 0.45, 0.65
#: visits wait for each other for so long
_EVERY_S = 0.25
#: it takes any credentials, and Amazon's client wants some
_ANYBODY = "local"

_Waiting = tuple[Visit, bytes, Acknowledged]


@dataclass(slots=True)
class KinesisVisits:
    """A stream of each tenant, of two shards to begin with."""

    streams: DemoStreams
    #: hears when shards are changed
    tell: Callable[[str], None]
    name: str = KINESIS
    posted: Collection[str] = ()
    #: by stream, what is not sent yet; how many were given; and when something was sent
    _waiting: dict[str, list[_Waiting]] = field(default_factory=dict)
    _given: int = 0
    _sent_s: float = 0.0
    #: visits after which all streams are changed, and how
    _changes: list[tuple[int, Callable[[], None], str]] = field(default_factory=list)
    #: where visits are: by line of the file; and those of a lead, as they were sent
    _at: dict[int, At] = field(default_factory=dict)
    _leads: dict[tuple[str, str], list[At]] = field(default_factory=dict)
    #: the places of a shard's visits, in order
    _places: dict[Lane, list[Place]] = field(default_factory=dict)

    def unsent(self, visits: list[Visit]) -> list[Visit]:
        """All: what a demo sent that was stopped went with it."""
        split, merge = round(SPLIT_AT * len(visits)), round(MERGED_AT * len(visits))
        splits = f"at {SPLIT_AT:.0%} of the visits: a shard of each stream is split"
        merges = f"at {MERGED_AT:.0%} of the visits: two shards of each stream are merged"
        self._changes = [(split, self.streams.split, splits), (merge, self.streams.merge, merges)]
        return visits

    def send(self, visit: Visit, value: bytes, acknowledged: Acknowledged) -> None:
        """It waits a moment for others; before it, shards are changed if it is time for that."""
        if self._changes and self._given >= self._changes[0][0]:
            self.flush()
            _, change, told = self._changes.pop(0)
            change()
            self.tell(told)
        self._given += 1
        self._waiting.setdefault(visit.topic, []).append((visit, value, acknowledged))
        if time.monotonic() - self._sent_s >= _EVERY_S:
            self.flush()

    def flush(self) -> None:
        """Send what waits, the visits of a lead one after the other."""
        waiting, self._waiting, self._sent_s = self._waiting, {}, time.monotonic()
        for stream, entries in waiting.items():
            left = entries
            while left:
                now = _one_of_each_lead(left)[:MOST_PUT]
                self._put(stream, now)
                gone = {id(entry) for entry in now}
                left = [entry for entry in left if id(entry) not in gone]

    def poster(self, url: str | None, keys: Mapping[str, str]) -> None:
        """Nobody: the gateway sends to Kafka alone."""

    def is_read(self, driver: Driver) -> bool:
        """By what the service answered: where a shard is at its end, only reading it tells."""
        return all(
            self.reached(lane, known.get(lane, FIRST)) == len(places)
            for tenant, lanes in active(driver)
            for known in [{lane_of(name): place for name, place in lanes.items()}]
            for lane, places in self._places.items()
            if lane[0] == tenant
        )

    def placed(self, visits: Iterable[Visit]) -> list[Visit]:
        """Each with its shard; those of a stream as it has them, parents before their children."""
        found = [replace(visit, shard=self._at[visit.line].shard) for visit in visits]
        return sorted(found, key=lambda visit: self._at[visit.line])

    def counts(self) -> dict[Lane, int]:
        """What each shard hands out; closed ones too."""
        return {
            lane_of(f"{stream}[{shard.number}]"): self.streams.held(ShardOf(stream, shard.number))
            for stream, shard in self.streams.shards()
        }

    def reached(self, lane: Lane, place: Place) -> int:
        """Those whose own places are before it."""
        return bisect_left(self._places.get(lane, ()), place)

    def told(self) -> list[tuple[str, str, str]]:
        """Whether shards were split and merged as they had to, and leads have their order there."""
        children = [len(shard.parents) for _, shard in self.streams.shards()]
        # Two shards follow one that was split, and one follows two that were merged.
        changed = f"{children.count(1) // 2} and {children.count(2)}"
        leads = sum(places == sorted(places) for places in self._leads.values())
        return [
            ("shards split and merged", f"{len(STREAMS)} and {len(STREAMS)}", changed),
            ("leads in order over splits and merges", str(len(self._leads)), str(leads)),
        ]

    def close(self) -> None:
        """Give up connections."""
        self.streams.client.close()

    def _put(self, stream: str, entries: list[_Waiting]) -> None:
        places = self.streams.put(stream, [(visit.lead, value) for visit, value, _ in entries])
        for (visit, _, acknowledged), at in zip(entries, places, strict=True):
            self._at[visit.line] = at
            self._leads.setdefault((visit.tenant, visit.lead), []).append(at)
            lane = visit.tenant, at.shard
            insort(self._places.setdefault(lane, []), before(at.sequence_number))
            acknowledged(None)


def _one_of_each_lead(entries: list[_Waiting]) -> list[_Waiting]:
    """The first one of each."""
    firsts: dict[str, _Waiting] = {}
    for entry in entries:
        firsts.setdefault(entry[0].lead, entry)
    return [*firsts.values()]


def with_streams(
    settings: Settings, folder: Path, stack: ExitStack, tell: Callable[[str], None]
) -> tuple[Settings, KinesisVisits]:
    """Start a Kinesis and make its streams; returns the settings with the connection, and these.

    Args:
        settings: of the demo.
        folder: of the demo.
        stack: ends what is started.
        tell: hears when shards are changed.

    Raises:
        HeadraceError: it does not start, or does not answer.
    """
    started = stack.enter_context(EmbeddedKinesis(folder / CONNECTION, durable=False))
    server = Server(started.url, _ANYBODY, _ANYBODY)
    streams = DemoStreams(client_of(address_of(server, CONNECTION), "the demo"))
    found = KinesisVisits(streams, tell)
    stack.callback(found.close)
    streams.make()
    who = SecretStr(_ANYBODY)
    connection = ConnectionSettings(url=SecretStr(started.url), user=who, password=who)
    return settings.model_copy(update={"connections": {CONNECTION: connection}}), found
