"""What Kinesis says when it takes no records, in the words of sinks.

What passes by itself waits, what a person has to mend stops the lanes, and what no stream ever
takes is refused. Nothing of what was written is quoted.
"""

from __future__ import annotations

from typing import Any, Final

from headrace.connectors.client_libraries import REFUSES_LOGIN
from headrace.connectors.kinesis.client import (
    INVALID,
    MISSING,
    SIGNATURE,
    UNKNOWN_USER,
    code_of,
    is_spent,
    short,
    wrong_clock,
)
from headrace.errors import HeadraceError, SinkRefused, SinkUnavailable, TargetMissing

_EXPIRED: Final = "ExpiredTokenException"
_NEVER: Final = (INVALID, "ValidationException", "SerializationException")


class TooMuch(SinkUnavailable):
    """A shard takes no more in this second; nothing was written."""


def too_much(where: str) -> TooMuch:
    """What is told of a record that came too soon."""
    return TooMuch(f"{where}: its shards take no more for now; split some if it stays so")


def not_taken(error: BaseException, where: str) -> HeadraceError:
    """What the client raised."""
    if isinstance(error, HeadraceError):
        return error
    code = code_of(error)
    if not code:
        return SinkUnavailable(
            f"{where}: no answer; it may be written or not: {short(str(error)) or 'no reason told'}"
        )
    if is_spent(code):
        return too_much(where)
    if code == MISSING:
        return TargetMissing(f"{where}: there is no such stream; make it, and its shards")
    response: Any = getattr(error, "response", {})
    return _judged(code, short(str(response["Error"].get("Message", ""))), where)


def _judged(code: str, said: str, where: str) -> HeadraceError:
    if code in _NEVER:
        return SinkRefused(f"{where}: Kinesis refuses it: {code}: {said}")
    if code.startswith(("AccessDenied", "KMS")):
        return TargetMissing(f"{where}: its user lacks a right: {code}: {said}")
    if code == SIGNATURE and (clock := wrong_clock(said)):
        return SinkUnavailable(f"{where}: {clock}")
    if code == SIGNATURE or (code in UNKNOWN_USER and code != _EXPIRED):
        return TargetMissing(f"{where}: Kinesis {REFUSES_LOGIN} ({code})")
    return SinkUnavailable(f"{where}: not now: {code}: {said}")
