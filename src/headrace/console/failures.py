"""Failures: what could not be handled, with its record, and going on after it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import merge
from typing import Annotated

from fastapi import APIRouter, Body, Depends, Query, Request, Response

from headrace.console.access import Entered, GuardedRoute, sees
from headrace.console.answers import PageAsked, answer
from headrace.console.desk import AtDesk, Desk
from headrace.console.problems import not_there, refusals
from headrace.console.requests import FailureNumber, SkipRequest
from headrace.console.rows import Values, failure_row, record_row
from headrace.console.shapes import Decided, FailureRow, FailureWhole, Listed
from headrace.console.watcher import StoreView
from headrace.errors import UnknownName
from headrace.model.credentials import Caller, Role
from headrace.model.places import text_of
from headrace.model.records import Failure, FailureState
from headrace.model.streams import StreamId
from headrace.operating.quarantine import (
    check_skip,
    next_offset,
    number_of,
    retry,
    skip,
    suspended,
)
from headrace.ports import Failures

router = APIRouter(route_class=GuardedRoute, tags=["failures"])

#: failures read at once
_AT_ONCE = 1001


@dataclass(frozen=True, slots=True)
class _Kind:
    """Which kinds of failures are wanted."""

    state: Annotated[FailureState | None, Query(description="None: in any state.")] = None
    unread: Annotated[
        bool | None,
        Query(
            description="true: ranges that nobody reads any more, as their log lost them or their "
            "stream passed them over; false: all others."
        ),
    ] = None

    def fits(self, failure: Failure) -> bool:
        """Whether a failure is of one of them."""
        return self.state in (None, failure.state) and self.unread in (None, failure.unread)


@router.get("/v1/failures", response_model=Listed[FailureRow], responses=refusals())
def list_failures(
    desk: AtDesk,
    caller: Entered,
    paging: PageAsked,
    kind: Annotated[_Kind, Depends()],
    tenant: Annotated[str | None, Query(max_length=63)] = None,
    use_case: Annotated[str | None, Query(max_length=73)] = None,
) -> Response:
    """Failures, oldest first; a tenant sees its own."""
    after = paging.after(int)
    of_tenant = caller.tenant or tenant
    seen = desk.watcher.view()
    streams = [
        stream
        for stream in seen.stream_of
        if stream.tenant == of_tenant and use_case in (None, stream.use_case)
    ]

    def wanted() -> Iterator[Failure]:
        only_open, first = kind.state is FailureState.OPEN, 0 if after is None else int(after[0])
        # What an earlier tenant of its name left is not for a tenant to see.
        part = _Part(first, only_open=only_open, current=caller.tenant is not None)
        # Of one tenant there are few, and those of all others need not be read to find them.
        found = (
            _every(desk.store.failures, None, part)
            if of_tenant is None
            else merge(
                *(_every(desk.store.failures, stream, part) for stream in streams), key=number_of
            )
        )
        for failure in found:
            lane = failure.slice.lane
            named = tenant in (None, lane.tenant) and use_case in (None, lane.use_case)
            if named and kind.fits(failure) and sees(caller, lane.tenant):
                yield failure

    return paging.page(wanted(), lambda failure: [failure.id], lambda failure: _row(seen, failure))


@dataclass(frozen=True, slots=True)
class _Part:
    """Which failures are wanted."""

    after: int
    only_open: bool
    #: no failures of earlier tenants
    current: bool


def _every(failures: Failures, stream: StreamId | None, part: _Part) -> Iterator[Failure]:
    """Failures behind an id, without records, as many at a time as anybody wants at once."""
    after = part.after
    while True:
        found = failures.every(
            stream,
            only_open=part.only_open,
            with_records=False,
            current=part.current,
            after=after,
            most=_AT_ONCE,
        )
        yield from found
        if len(found) < _AT_ONCE:
            return
        after = number_of(found[-1])


@router.get("/v1/failures/{number}", response_model=FailureWhole, responses=refusals(404))
def show_failure(
    request: Request, desk: AtDesk, caller: Entered, number: FailureNumber
) -> Response:
    """Everything about one failure: offsets, error, stack, and the record byte for byte."""
    failure = _own(request, desk, caller, number)
    seen = desk.watcher.view()
    record = None if caller.role is Role.VIEWER else record_row(failure)
    return answer({**_row(seen, failure), "traceback": failure.error.traceback, "record": record})


@router.post("/v1/failures/{number}/retry", response_model=Decided, responses=refusals(404, 409))
def retry_failure(
    request: Request, desk: AtDesk, caller: Entered, number: FailureNumber
) -> Response:
    """Let its lane go on at the record, once the cause is mended."""
    failure = _own(request, desk, caller, number)
    retry(desk.store.failures, failure)
    return _decided(desk, failure)


@router.post("/v1/failures/{number}/skip", response_model=Decided, responses=refusals(404, 409))
async def skip_failure(
    request: Request,
    desk: AtDesk,
    caller: Entered,
    number: FailureNumber,
    asked: Annotated[SkipRequest | None, Body()] = None,
) -> Response:
    """Let its lane go on behind the record, which is kept among the dead letters first."""
    whole_slice = asked is not None and asked.whole_slice

    def decide() -> Response:
        failure = _own(request, desk, caller, number)
        check_skip(desk.store, failure, whole_slice=whole_slice)
        with desk.tools.letters() as letters:
            skip(desk.store.failures, letters, failure)
        return _decided(desk, failure)

    return await desk.at_kafka.decide(caller, decide)


def _row(seen: StoreView, failure: Failure) -> Values:
    tenant = seen.tenant_of.get(failure.slice.lane.tenant)
    return failure_row(failure, 0 if tenant is None else tenant.generation)


def _own(request: Request, desk: Desk, caller: Caller, number: int) -> Failure:
    """The failure, if the caller may know that it is there."""
    try:
        # One of another tenant takes no longer to refuse than one that never was.
        failure = desk.store.failures.one(number, caller.tenant)
    except UnknownName:
        raise not_there("failure", number) from None
    if not sees(caller, failure.slice.lane.tenant):
        raise not_there("failure", number)
    request.state.concerns = failure.slice.lane.tenant
    return failure


def _decided(desk: Desk, before: Failure) -> Response:
    seen = desk.watcher.changed()
    failure = desk.store.failures.one(number_of(before))
    stopped = next(suspended(desk.store.registry, [failure]), None)
    why = None if stopped is None else stopped.reason or "it was suspended"
    at = next_offset(desk.store.progress, failure)
    return answer(
        {
            "failure": _row(seen, failure),
            "next_offset": None if at is None else text_of(at),
            "suspended": why,
        }
    )
