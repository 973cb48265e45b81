"""Streams: one tenant's topic in one use case, its lanes, and what a person does to it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Annotated

from fastapi import APIRouter, Body, Query, Response

from headrace.console.access import Entered, GuardedRoute, sees, stopper_of
from headrace.console.answers import (
    IfMatch,
    PageAsked,
    answer,
    check_match,
    etag_of,
)
from headrace.console.desk import AtDesk, Desk
from headrace.console.problems import not_there, refusals
from headrace.console.requests import (
    PositionsRequest,
    RedriveRequest,
    StreamRequest,
    TenantName,
    UseCaseName,
)
from headrace.console.rows import Values, partition_in, plain
from headrace.console.shapes import Listed, Positions, Redriven, StreamRow, StreamWhole
from headrace.console.watcher import StoreView
from headrace.model.credentials import Caller
from headrace.model.lane_names import in_order, said
from headrace.model.lineage import closed
from headrace.model.places import UNKNOWN, text_of
from headrace.model.statistics import LagIs, LaneFigures
from headrace.model.streams import State, Stream, StreamId, lineage_of, places_of
from headrace.model.topic_lists import topics_read
from headrace.model.topic_names import dead_letters_topic
from headrace.operating.again import consequences, of_forgetting
from headrace.operating.quarantine import generation_of, live_stream
from headrace.operating.schemas_seen import known_versions, named_after, schemas_seen
from headrace.operating.seeking import Seek, carry_out, check_state, planned

router = APIRouter(route_class=GuardedRoute, tags=["streams"])

_STREAM = "/v1/streams/{tenant}/{use_case}"


@router.get("/v1/streams", response_model=Listed[StreamRow], responses=refusals())
def list_streams(
    desk: AtDesk,
    caller: Entered,
    paging: PageAsked,
    tenant: Annotated[str | None, Query(max_length=63)] = None,
    use_case: Annotated[str | None, Query(max_length=73)] = None,
    state: Annotated[State | None, Query(description="None: all but the removed ones.")] = None,
) -> Response:
    """Streams by tenant and use case; a tenant sees its own."""
    after = paging.after(str, str)
    snapshot = desk.watcher.view()

    def wanted() -> Iterator[Stream]:
        for stream in snapshot.streams:
            if after is not None and (stream.id.tenant, stream.id.use_case) <= after:
                continue
            named = tenant in (None, stream.id.tenant) and use_case in (None, stream.id.use_case)
            if not named or not sees(caller, stream.id.tenant):
                continue
            shown = snapshot.state_of(stream)
            if shown is state or (state is None and shown is not State.REMOVED):
                yield stream

    return paging.page(
        wanted(), lambda stream: [stream.id.tenant, stream.id.use_case], snapshot.stream_row
    )


@router.get(_STREAM, response_model=StreamWhole, responses=refusals(404))
def show_stream(desk: AtDesk, tenant: TenantName, use_case: UseCaseName) -> Response:
    """One stream, with where each lane is, and by which schemas its records were written."""
    return _shown(desk, desk.watcher.view(), StreamId(use_case, tenant))


@router.put(_STREAM, response_model=StreamWhole, responses=refusals(404, 409, 412))
def put_stream(
    desk: AtDesk,
    caller: Entered,
    tenant: TenantName,
    use_case: UseCaseName,
    asked: StreamRequest,
    if_match: IfMatch = None,
) -> Response:
    """Suspend or resume it; to resume also retries what failed. The same again changes nothing.

    A tenant resumes what it has suspended itself, and nothing else: 403 says who else has.
    """
    stream, by = StreamId(use_case, tenant), stopper_of(caller)
    state = State(asked.state)
    current = _known(desk, stream)
    check_match(etag_of(_changeable(current)), if_match, None)
    if current.state is not state or (current.stopped_by and by not in current.stopped_by):
        desk.store.registry.set_stream_state(stream, state, by=by)
    return _shown(desk, desk.watcher.changed(), stream)


@router.post(f"{_STREAM}/suspend", response_model=StreamWhole, responses=refusals(404, 409))
def suspend_stream(
    desk: AtDesk, caller: Entered, tenant: TenantName, use_case: UseCaseName
) -> Response:
    """Plan nothing more of a stream; what runs may end, and positions are kept."""
    return _set_state(desk, caller, StreamId(use_case, tenant), State.SUSPENDED)


@router.post(f"{_STREAM}/resume", response_model=StreamWhole, responses=refusals(404, 409))
def resume_stream(
    desk: AtDesk, caller: Entered, tenant: TenantName, use_case: UseCaseName
) -> Response:
    """Go on with a suspended stream where it stopped; what failed in it is retried.

    A tenant resumes what it has suspended itself, and nothing else: 403 says who else has.
    """
    return _set_state(desk, caller, StreamId(use_case, tenant), State.ACTIVE)


@router.put(f"{_STREAM}/positions", response_model=Positions, responses=refusals(404, 409))
async def put_positions(
    desk: AtDesk,
    caller: Entered,
    tenant: TenantName,
    use_case: UseCaseName,
    asked: PositionsRequest,
) -> Response:
    """Set where lanes read next, also while they run; lanes that a failure stopped go on.

    Lanes that are not named stay where they are; `to` is for all of them. An offset that the topic
    does not hold is refused, and then nothing is done. What is read again has its effects again,
    under every guarantee, exactly-once too: `dry_run` counts first. What runs of the stream is not
    committed. A lane that keeps state goes back only with `forget_state`, and begins there without.
    """
    stream = StreamId(use_case, tenant)

    def decide() -> Response:
        found = live_stream(desk.store.registry, _known(desk, stream).id)
        with desk.tools.log() as log:
            # Only what is done waits until the log has been asked for long enough.
            wait = None if asked.dry_run else time.sleep
            plan = planned(desk.store, log, stream, asked.target(), wait)
        if asked.dry_run:
            check_state(desk.store, plan, forget_state=asked.forget_state)
        else:
            carry_out(desk.store.progress, plan, forget_state=asked.forget_state)
            desk.watcher.changed()
        gone = [of_forgetting(stream)] if asked.forget_state else []
        return answer(_sought(plan, found.topic, gone))

    return await desk.at_kafka.decide(caller, decide)


@router.post(f"{_STREAM}/redrive", response_model=Redriven, responses=refusals(404, 409))
async def redrive_stream(
    desk: AtDesk,
    caller: Entered,
    tenant: TenantName,
    use_case: UseCaseName,
    asked: Annotated[RedriveRequest | None, Body()] = None,
) -> Response:
    """Send dead letters back to the end of their partitions, each once, for this use case only.

    What is left beyond the limit waits for the next time; the same request again goes on there.
    """
    how = asked or RedriveRequest()

    def decide() -> Response:
        found = live_stream(desk.store.registry, _known(desk, StreamId(use_case, tenant)).id)
        topics = topics_read(found.topic, found.topic_id)
        done = desk.tools.send_back(
            found.id,
            ",".join(topics),
            generation=generation_of(desk.store.registry, tenant),
            limit=how.limit,
            dry_run=how.dry_run,
        )
        told = {"sent": done.sent, "refused": list(done.refused), "left": done.left}
        of = {"topics": list(topics), "dead_letters": list(map(dead_letters_topic, topics))}
        return answer({**told, **of})

    return await desk.at_kafka.decide(caller, decide)


def _set_state(desk: Desk, caller: Caller, stream: StreamId, state: State) -> Response:
    _known(desk, stream)
    desk.store.registry.set_stream_state(stream, state, by=stopper_of(caller))
    return _shown(desk, desk.watcher.changed(), stream)


def _end(told: LaneFigures | None) -> Values:
    """Where the log of a lane ends, and how much waits, as far as a driver told."""
    if told is None or (told.end == UNKNOWN and told.lag_is is LagIs.EXACT):
        return {"end": None, "lag_records": None, "lag_is": LagIs.UNKNOWN.value}
    end = None if told.end == UNKNOWN else text_of(told.end)
    lag = None if told.lag_is is LagIs.UNKNOWN else told.lag_records
    return {"end": end, "lag_records": lag, "lag_is": told.lag_is.value}


def _sought(plan: Seek, topic: str, more: list[str]) -> Values:
    return {
        "offsets": {said(name, topic): text_of(at) for name, at in plan.offsets.items()},
        "again": plan.again,
        "passed": plan.passed,
        "consequences": consequences([plan]) + more,
    }


def _known(desk: Desk, stream: StreamId) -> Stream:
    found = next((known for known in desk.store.registry.streams() if known.id == stream), None)
    if found is None:
        raise not_there("stream", stream)
    return found


def _changeable(stream: Stream) -> Values:
    return {
        "id": str(stream.id),
        "state": stream.state.value,
        "reason": stream.reason,
        "stopped_by": sorted(stream.stopped_by),
    }


def _schemas(desk: Desk, snapshot: StoreView, stream: Stream) -> list[Values]:
    figures = snapshot.figures.get(stream.id)
    if figures is None or not figures.writers:
        return []
    if not desk.own_registry:
        return [plain(schema) for schema in schemas_seen({}, (), figures.writers, snapshot.at_s)]
    every = (topics_read(other.topic, other.topic_id) for other in snapshot.streams)
    topics = {topic for read in every for topic in read}
    read = topics_read(stream.topic, stream.topic_id)
    names = named_after(read, stream.id.tenant, topics)
    known = known_versions(desk.store.schema_subjects, names)
    return [plain(schema) for schema in schemas_seen(known, names, figures.writers, snapshot.at_s)]


def _shown(desk: Desk, snapshot: StoreView, wanted: StreamId) -> Response:
    stream = snapshot.stream_of.get(wanted)
    if stream is None:
        raise not_there("stream", wanted)
    figures = snapshot.figures.get(wanted)
    told = {} if figures is None else {lane.name: lane for lane in figures.lanes}
    still = desk.store.failures.every(wanted, only_open=True, with_records=False)
    stopped = {failure.slice.lane.name: failure.id for failure in still}
    positions = desk.store.progress.load_positions([wanted])
    at = places_of(positions)
    waits = closed(lineage_of(positions), at)
    lanes = [
        {
            "lane": name,
            "partition": partition_in(name),
            "next_offset": text_of(at[name]),
            **_end(told.get(name)),
            "failure": stopped.get(name),
            "waits_for": in_order(parent.lane for parent in waits.get(name, ())),
        }
        for name in in_order(at)
    ]
    row = {
        **snapshot.stream_row(stream),
        "lanes": lanes,
        "schemas": _schemas(desk, snapshot, stream),
    }
    return answer(row, etag=etag_of(_changeable(stream)))
