"""Every attempt to change something is noted, whatever came of it.

A route that notes for itself can be forgotten. So this stands around the app: whatever is not a
mere look is noted with who asked, what for, and how it was answered, before the answer goes out.
Attempts of nobody (401), and those beyond what one may try in a minute (429), are logged
instead, and seldom (`refused`): anybody can make them, and the log in the store keeps only so many
lines.

Bodies are noted without what is secret in them, and cut if they are long. What they do not say, a
route does: ``request.state.concerns`` is the tenant, ``request.state.noted`` goes beside the body.
Of a list each tenant has a line of its own, or its log would not show who removed it:
``request.state.listed`` is what was asked of each, by name. What a list may have bounds them.
What the end of the server cuts off is noted with 503, whatever becomes of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import orjson
import structlog
from fastapi import APIRouter, Query, Response
from starlette.concurrency import run_in_threadpool
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headrace.console.access import LOOKS, GuardedRoute
from headrace.console.answers import PageAsked
from headrace.console.desk import AtDesk, Desk
from headrace.console.problems import refusals
from headrace.console.refused import RefusedLog
from headrace.console.rows import plain
from headrace.console.shapes import ChangeRow, Listed
from headrace.errors import HeadraceError
from headrace.model.credentials import Caller, Change

log = structlog.get_logger(__name__)
router = APIRouter(route_class=GuardedRoute, tags=["audit"])

_SECRETS = frozenset({"key", "secret", "token", "password"})
#: of a body; those of this API are far shorter
_MOST_BYTES = 8_192
_MOST_PATH = 200


class Audited:
    """ASGI middleware that notes changes."""

    def __init__(self, app: ASGIApp) -> None:
        """Stand around ``app``."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the request through, and note it if it was to change something."""
        if scope["type"] != "http" or scope["method"] in LOOKS:
            await self._app(scope, receive, send)
            return
        body = bytearray()
        answered = False
        scope.setdefault("state", {})

        async def listening() -> Message:
            message = await receive()
            if len(body) <= _MOST_BYTES:
                body.extend(message.get("body", b""))
            return message

        async def noting(message: Message) -> None:
            nonlocal answered
            if message["type"] == "http.response.start" and not answered:
                answered = True
                await self._note(scope, message["status"], bytes(body))
            await send(message)

        try:
            await self._app(scope, listening, noting)
        except asyncio.CancelledError:
            # The server ends and waits for nothing more; what was begun may be done all the same.
            if not answered and (changes := _changes_of(scope, 503, bytes(body))):
                _keep(scope, changes)
            raise
        except Exception:
            if not answered:
                await self._note(scope, 500, bytes(body))
            raise

    async def _note(self, scope: Scope, status: int, body: bytes) -> None:
        changes = _changes_of(scope, status, body)
        if changes:
            await run_in_threadpool(_keep, scope, changes)


def _changes_of(scope: Scope, status: int, body: bytes) -> list[Change]:
    """The lines of an attempt, logged; none of one that is not for the store."""
    action = f"{scope['method']} {_short(scope['path'])}"
    state = scope["state"]
    caller = state.get("caller")
    if not isinstance(caller, Caller) or status == 429:
        refused: RefusedLog = scope["app"].state.refused
        refused.note(action, status, scope.get("client"))
        return []
    desk: Desk = scope["app"].state.desk
    tenant = state.get("concerns") or scope.get("path_params", {}).get("tenant")
    change = Change(
        at_s=desk.clock.now_s(),
        who=caller.name,
        action=action,
        tenant=tenant or caller.tenant,
        status=status,
        detail=_with(without_secrets(body), state.get("noted", {})),
    )
    listed: Mapping[str, Mapping[str, object]] = state.get("listed", {})
    changes = [
        *(
            replace(change, tenant=name, detail=orjson.dumps(asked).decode())
            for name, asked in listed.items()
        ),
        change,
    ]
    for line in changes:
        log.info("change", who=line.who, action=action, tenant=line.tenant, status=status)
    return changes


def _short(path: str) -> str:
    """A path as it is noted; those of this API are shorter."""
    return path if len(path) <= _MOST_PATH else f"{path[:_MOST_PATH]}… ({len(path)} characters)"


def _keep(scope: Scope, changes: Sequence[Change]) -> None:
    desk: Desk = scope["app"].state.desk
    try:
        desk.store.audit.note(*changes)
    except HeadraceError as error:
        # What was asked has been done or refused by now; to say otherwise would be a lie.
        log.error("change not noted in the store", action=changes[-1].action, error=str(error))


def _with(detail: str, noted: Mapping[str, object]) -> str:
    """What was asked, and what a route says came of it."""
    if not noted:
        return detail
    asked = orjson.loads(detail) if detail else None
    return orjson.dumps({**(asked or {}), **noted}).decode()


def without_secrets(body: bytes) -> str:
    """A body as it may be kept: JSON, nothing secret, else nothing."""
    if not body or len(body) > _MOST_BYTES:
        return ""
    try:
        return orjson.dumps(_masked(orjson.loads(body))).decode()
    except (orjson.JSONDecodeError, orjson.JSONEncodeError, RecursionError):
        return ""


def _masked(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {
            key: "…" if key.lower() in _SECRETS else _masked(inner) for key, inner in value.items()
        }
    return [_masked(item) for item in value] if isinstance(value, list) else value


@router.get("/v1/audit", response_model=Listed[ChangeRow], responses=refusals())
def list_changes(
    desk: AtDesk,
    paging: PageAsked,
    tenant: str | None = Query(default=None, max_length=63),
) -> Response:
    """Attempts to change something, newest first; the store keeps the last 100,000."""
    after = paging.after(int)
    before = None if after is None else after[0]
    found: Iterator[Change] = iter(
        desk.store.audit.changes(tenant=tenant, before=before, limit=paging.limit + 1)
    )
    return paging.page(found, lambda entry: [entry.id], plain)
