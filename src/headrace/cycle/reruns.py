"""Reading a range of a stream once more, beside the stream itself.

A use case was wrong and has been mended, and what it did is to be done again, while fresh records
go on as ever. To seek the stream would make them wait. So a *rerun* is a stream of its own: the
same tenant and topic under the name ``<use case>~<number>``, with positions of its own, less
weight, and an end, which is where the live stream stood. The code is the use case's, and so are the
names of its effects: an upsert that was made before is met again and not made twice.

Everything that holds for a stream holds for it: it is planned, leased, suspended and removed like
any other. Here it is begun, by operators, and ended, by the driver that sees it at its end, or
removed by somebody: once nothing is recorded of it, by whatever driver, nobody is to run it any
more. To begin takes several steps, and what a kill leaves behind after some of them never runs:
drivers take a rerun up by the last one, which says where it ends.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from itertools import count

import structlog

from headrace.board import Board
from headrace.cycle.lags import untold
from headrace.cycle.seek_places import check_listed, seek_target, stream_log
from headrace.cycle.whole_positions import check_complete, check_divided
from headrace.errors import ConfigError, no_use_case
from headrace.model.buckets import most_of
from headrace.model.lane_names import in_order
from headrace.model.lineage import Lineage, bounded
from headrace.model.places import FIRST, Place
from headrace.model.records import Deployment
from headrace.model.streams import (
    RERUN_MARK,
    DataLossPolicy,
    State,
    Stream,
    StreamId,
    lineage_of,
    original,
    places_of,
)
from headrace.ports import Log, Registry, Store

log = structlog.get_logger(__name__)

_DONE = "the rerun has come to its end"


@dataclass(frozen=True, slots=True)
class RerunRange:
    """What is to be read again."""

    stream: StreamId
    #: what it reads: a topic, or several
    topic: str
    #: half-open, by lane; none is empty
    lanes: Mapping[str, tuple[Place, Place]]
    #: how many places each goes over, and so records at most
    places: Mapping[str, int]
    #: id of the topic that these offsets are of; None is not known yet
    topic_id: str | None = None
    #: what of them follows others, which end here where the range does
    parents: Lineage = field(default_factory=dict)

    @property
    def most(self) -> int:
        """How many records it has at most."""
        return most_of({name: (self.lanes[name][0], of) for name, of in self.places.items()})

    def is_of_same_lanes(self, other: RerunRange) -> bool:
        """Whether both are of the same lanes, which follow the same others, in the same topic.

        Versions of what a lane reads count on from those of what it follows: a range of lanes that
        became others since would be read as older than it was.
        """
        return self._shape == other._shape

    @property
    def _shape(self) -> tuple[object, ...]:
        follows = {name: [parent.lane for parent in of] for name, of in self.parents.items()}
        return self.topic_id, self.lanes.keys(), follows


def range_of(store: Store, log: Log, stream: StreamId, first: str, last: str | None) -> RerunRange:
    """What lies between two places and was read before.

    Args:
        store: knows the stream's positions.
        log: knows offsets and times.
        stream: the live stream.
        first: as for ``seek_target``.
        last: the same; None is where the stream stands now, which is also the most.

    Raises:
        UnknownName: there is no such stream.
        ConfigError: a place cannot be understood, nothing lies between the two, or the stream gets
            other buckets at this moment.
        Temporary: a broker listed the topic without a lane that was read.
    """
    if RERUN_MARK in stream.use_case:
        raise ConfigError(f"{stream} is a rerun itself; name the stream that it is of")
    positions = store.progress.load_positions([stream])
    check_divided(stream, positions)
    of = stream_log(store.registry, log, stream, positions)
    if hidden := untold(of.ends):
        raise ConfigError(
            f"only reading tells where {', '.join(hidden)} of {of.stream.topic} ends; a range of "
            "such a lane cannot be read once more, seek the stream instead"
        )
    starts = seek_target(log, of, first)
    here = places_of(positions)
    check_listed(of, positions)
    if of.topic is not None:
        check_complete(of.stream, of.topic, positions)
    ends = here if last is None else seek_target(log, of, last)
    found = {
        name: (starts[name], min(ends.get(name, FIRST), here[name]))
        for name in in_order(here)
        if name in starts
    }
    lanes = {name: bounds for name, bounds in found.items() if bounds[0] < bounds[1]}
    if not lanes:
        raise ConfigError(f"stream {stream} has read nothing between these places")
    followed = lineage_of(positions)
    parents = bounded(followed, {name: end for name, (_, end) in lanes.items()})
    between = log.of(of.stream.topic).places.between
    spans = {name: between(end, start) or 0 for name, (start, end) in lanes.items()}
    return RerunRange(stream, of.stream.topic, lanes, spans, of.stream.topic_id, parents)


def begin(store: Store, wanted: RerunRange, share: float) -> StreamId:
    """Let drivers read a range once more.

    Args:
        store: where drivers find it.
        wanted: what to read.
        share: above 0 and below 1: what it has of the task-seconds of itself and the live stream,
            when there are not enough for both.

    Returns:
        the stream that does it, which can be suspended and removed.
    """
    stream = wanted.stream
    deployments = {deployment.use_case: deployment for deployment in store.registry.deployments()}
    if stream.use_case not in deployments:
        raise no_use_case(stream.use_case)
    made = replace(
        deployments[stream.use_case],
        all_tenants=False,
        share=share / (1 - share),
        # In another topic or behind a gap its end means nothing.
        data_loss=DataLossPolicy.FAIL,
        restart=None,
        until={},
    )
    # Somebody else may begin one at the same time, and then each has a name of its own.
    for number in count(sum(original(name) == stream.use_case for name in deployments)):
        made = replace(made, use_case=f"{stream.use_case}{RERUN_MARK}{number}")
        if store.registry.deploy(made, anew=True):
            break
    rerun = StreamId(made.use_case, stream.tenant)
    store.registry.add_stream(rerun)
    starts = {name: start for name, (start, _) in wanted.lanes.items()}
    # Should the topic be made again before a driver looks, these offsets mean nothing in it.
    store.progress.seek(rerun, starts, wanted.topic_id, wanted.parents or None)
    store.registry.deploy(
        replace(made, until={name: end for name, (_, end) in wanted.lanes.items()})
    )
    # Whoever deployed since the first look did not see that it has begun.
    renew_reruns(store.registry, [stream.use_case])
    return rerun


def renew_reruns(registry: Registry, names: Collection[str]) -> None:
    """Let the reruns that go on of these use cases be of the version that is deployed now.

    Others may deploy at the same time. Whoever was last with the use case looks at its reruns after
    that, and looks again until all of them are as it is.
    """
    while True:
        deployed = {deployment.use_case: deployment for deployment in registry.deployments()}
        stale = [
            (renewed, rerun)
            for rerun in deployed.values()
            if rerun.until and original(rerun.use_case) in deployed.keys() & set(names)
            if (renewed := renewed_by(deployed[original(rerun.use_case)], rerun)) != rerun
        ]
        if not stale:
            return
        for renewed, rerun in stale:
            # One that has ended by then is not to begin again.
            registry.deploy(renewed, over=rerun)


def renewed_by(deployment: Deployment, rerun: Deployment) -> Deployment:
    """A rerun as it goes on with another version of its use case."""
    return replace(
        rerun,
        module=deployment.module,
        digest=deployment.digest,
        order=deployment.order,
        options=deployment.options,
        bad_record=deployment.bad_record,
        retries=deployment.retries,
        handler_timeout_s=deployment.handler_timeout_s,
        guarantee=deployment.guarantee,
        sink=deployment.sink,
    )


@dataclass(slots=True)
class Reruns:
    """Ends the reruns on a board."""

    store: Store
    board: Board
    _running: list[StreamId] = field(default_factory=list)
    #: those whose stream is removed, and that are still to be run: somebody removed it, or a kill
    #: came between, or the store was silent
    _half_ended: list[Deployment] = field(default_factory=list)

    def follow(self, deployed: Mapping[str, Deployment], streams: Collection[Stream]) -> None:
        """Look for them anew; the board has changed.

        Args:
            deployed: what the driver has loaded, by use case.
            streams: all of these, removed ones too.
        """
        self._running = [
            name
            for name, held in self.board.streams.items()
            if held.deployment.until and held.stream.state is not State.REMOVED
        ]
        left = {stream.id.use_case for stream in streams if stream.state is not State.REMOVED}
        self._half_ended = [
            deployment
            for name, deployment in deployed.items()
            if deployment.until and name not in left
        ]

    def poll(self) -> None:
        """End those that have nothing left to read.

        Raises:
            StoreUnavailable: they are ended in a later turn.
        """
        for name in list(self._running):
            held = self.board.streams.get(name)
            if held is None:
                self._running.remove(name)
            elif held.finished and self._remove(name, held.epoch):
                self._end(held.deployment)
                self._running.remove(name)
        if due := [one for one in self._half_ended if not self._is_owed(one.use_case)]:
            recorded = {wave.use_case for wave in self.store.progress.pending_intents()}
            for deployment in due:
                # What another driver has recorded it is to run again, and then ends it.
                if deployment.use_case not in recorded:
                    self._end(deployment)
                self._half_ended.remove(deployment)

    def _is_owed(self, use_case: str) -> bool:
        """Whether something of it runs here, or is to run again."""
        flying = (flight.wave.use_case for flight in self.board.flights.values())
        return use_case in {*flying, *(stream.use_case for stream in self.board.owed)}

    def _remove(self, stream: StreamId, epoch: int) -> bool:
        """End a stream that has read all, unless it was sent back just now; whether it ended."""
        set_state = self.store.registry.set_stream_state
        return set_state(stream, State.REMOVED, _DONE, epoch=epoch)

    def _end(self, deployment: Deployment) -> None:
        """Nobody is to run it any more; if it was renewed just now, that is seen and ended."""
        if self.store.registry.deploy(replace(deployment, until={}), over=deployment):
            log.info("rerun done", use_case=deployment.use_case)
