"""How an answer is written: JSON from plain values, versions, and pages of long lists.

A list of 1,000 tenants is asked for by every page that is open, and it must not be checked field by
field on its way out. So routes answer with values that orjson writes as they are, and the models in
`shapes` are what the OpenAPI document promises of them; the tests hold the one to the other.

What a failure says may quote a record of a tenant, which can hold half a character (a surrogate
alone). JSON has none such, so it is written as its code.

A cursor names the last row that was shown, not a count, so that rows which come or go between two
pages shift nothing. It is opaque: only who made it reads it.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Annotated, Any, TypeVar

import orjson
from fastapi import Depends, Header, Query
from fastapi.responses import Response

from headrace.doors.problems import Problem

Row = Mapping[str, Any]
T = TypeVar("T")

IfMatch = Annotated[
    str | None,
    Header(max_length=512, description="Change it only if its `ETag` is still one of these."),
]
IfNoneMatch = Annotated[
    str | None, Header(max_length=512, description="`*`: change it only if it is not there.")
]


def answer(value: Any, status: int = 200, *, etag: str | None = None) -> Response:
    """The value as JSON."""
    headers = {"Cache-Control": "no-store"}
    if etag is not None:
        headers["ETag"] = etag
    try:
        written = orjson.dumps(value)
    except orjson.JSONEncodeError:
        written = orjson.dumps(_whole(value))
    return Response(written, status, headers, media_type="application/json")


def _whole(value: Any) -> Any:
    """The same, every text of it in whole characters."""
    if isinstance(value, str):
        return value.encode(errors="backslashreplace").decode()
    if isinstance(value, Mapping):
        return {name: _whole(inner) for name, inner in value.items()}
    return [_whole(item) for item in value] if isinstance(value, list | tuple) else value


def etag_of(value: Any) -> str:
    """The version of a representation: the same for the same value."""
    written = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    return f'"{hashlib.sha256(written).hexdigest()[:32]}"'


def check_match(current: str | None, if_match: str | None, if_none_match: str | None) -> None:
    """Refuse a change that was meant for another version.

    Args:
        current: ETag of what is there; None if nothing is.
        if_match: ETags, or ``*`` for anything that is there.
        if_none_match: the opposite.

    Raises:
        Problem: 412.
    """
    if if_match is not None and not _names(if_match, current):
        raise Problem(412, "moved-on", "it was changed since it was read; read it again")
    if if_none_match is not None and _names(if_none_match, current):
        raise Problem(412, "moved-on", "it is there already, and was to be made only if it is not")


def _names(tags: str, current: str | None) -> bool:
    given = [part.strip() for part in tags.split(",")]
    return current is not None and ("*" in given or current in given)


@dataclass(frozen=True)
class Paging:
    """Which part of a list is asked for."""

    limit: Annotated[int, Query(ge=1, le=1000, description="The most rows of one page.")] = 100
    cursor: Annotated[
        str | None,
        Query(max_length=512, description="`next` of the page before; none: the first page."),
    ] = None

    def after(self, *kinds: type) -> tuple[Any, ...] | None:
        """The key of the last row that was shown, with parts of these kinds; None: no row was.

        Raises:
            Problem: 422, the cursor is none of this list.
        """
        if self.cursor is None:
            return None
        try:
            padded = self.cursor.encode() + b"=" * (-len(self.cursor) % 4)
            key = orjson.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
        except (ValueError, binascii.Error):
            key = None
        fits = isinstance(key, list) and len(key) == len(kinds)
        if not fits or not all(map(_fits, key, kinds)):
            raise Problem(422, "invalid", "cursor: this is not the `next` of a page of this list")
        return tuple(key)

    def page(
        self, rows: Iterable[T], key: Callable[[T], Sequence[Any]], show: Callable[[T], Any]
    ) -> Response:
        """The first rows, and the cursor behind them if there are more.

        Args:
            rows: those behind the cursor, in order.
            key: what the order goes by.
            show: a row as it is answered.
        """
        taken = list(islice(rows, self.limit + 1))
        shown = taken[: self.limit]
        more = _cursor(key(shown[-1])) if len(taken) > self.limit else None
        return answer({"items": [show(type_) for type_ in shown], "next": more})


PageAsked = Annotated[Paging, Depends()]


def _fits(part: object, kind: type) -> bool:
    """Whether a part of a cursor is of its kind; a number also one that a database has."""
    return type(part) is kind and (not isinstance(part, int) or -(2**63) <= part < 2**63)


def _cursor(key: Sequence[Any]) -> str:
    return base64.urlsafe_b64encode(orjson.dumps(list(key))).decode().rstrip("=")
