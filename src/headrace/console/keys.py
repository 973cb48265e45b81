"""API keys: seen, made, rotated and revoked by operators."""

from __future__ import annotations

from collections.abc import Iterator

from fastapi import APIRouter, Request, Response

from headrace.console.access import GuardedRoute
from headrace.console.answers import PageAsked, answer
from headrace.console.desk import AtDesk
from headrace.console.problems import not_there, refusals
from headrace.console.requests import KeyAsked, KeyOfSchemas, Prefix, RotateRequest, TenantAsked
from headrace.console.rows import key_row
from headrace.console.shapes import KeyRow, Listed, NewKey
from headrace.doors.keys import bound_to, new_key, rotate
from headrace.model.credentials import Key, Role

router = APIRouter(route_class=GuardedRoute, tags=["keys"])


@router.get("/v1/keys", response_model=Listed[KeyRow], responses=refusals())
def list_keys(
    desk: AtDesk,
    paging: PageAsked,
    tenant: TenantAsked = None,
) -> Response:
    """Keys by time of creation, those that do not work any more too; never the key itself."""
    after = paging.after(float, str)

    def wanted() -> Iterator[Key]:
        for key in desk.store.keys.every(tenant):
            if after is None or (key.created_at_s, key.prefix) > after:
                yield key

    return paging.page(wanted(), lambda key: [float(key.created_at_s), key.prefix], key_row)


@router.post(
    "/v1/keys",
    status_code=201,
    response_model=NewKey,
    responses=refusals(404, 409),
)
def create_key(request: Request, desk: AtDesk, asked: KeyAsked) -> Response:
    """Make a key; the answer is the only time it is shown."""
    request.state.concerns = asked.tenant
    now_s = desk.clock.now_s()
    expires_at_s = None if asked.expires_in_s is None else now_s + asked.expires_in_s
    text, key = new_key(
        Role(asked.role), asked.tenant, asked.label, desk.secret, now_s, expires_at_s=expires_at_s
    )
    key = bound_to(key, asked.subjects if isinstance(asked, KeyOfSchemas) else None)
    desk.store.keys.add(key)
    return _made(request, text, key)


@router.post(
    "/v1/keys/{prefix}/rotate",
    status_code=201,
    response_model=NewKey,
    responses=refusals(404, 409),
)
def rotate_key(
    request: Request, desk: AtDesk, prefix: Prefix, asked: RotateRequest | None = None
) -> Response:
    """Make a key for the same; the old one works on for `overlap_s` seconds."""
    request.state.concerns = _known(desk.store.keys.find(prefix), prefix).tenant
    overlap_s = (asked or RotateRequest()).overlap_s
    text, key = rotate(
        desk.store.keys, prefix, desk.secret, desk.clock.now_s(), overlap_s=overlap_s
    )
    return _made(request, text, key)


@router.delete("/v1/keys/{prefix}", status_code=204, responses=refusals(404, 409))
def revoke_key(request: Request, desk: AtDesk, prefix: Prefix) -> Response:
    """End a key at once. The last key of an operator that works is not revoked."""
    key = _known(desk.store.keys.find(prefix), prefix)
    request.state.concerns = key.tenant
    desk.store.keys.revoke(prefix, desk.clock.now_s(), spare=Role.OPERATOR)
    return Response(status_code=204)


def _made(request: Request, text: str, key: Key) -> Response:
    # The audit log has to tell which of the keys this one is.
    request.state.noted = {"prefix": key.prefix}
    return answer({"key": text, **key_row(key)}, 201)


def _known(key: Key | None, prefix: str) -> Key:
    if key is None:
        raise not_there("key", prefix)
    return key
