"""The client of OpenSearch, and what it and a cluster say in the words of sinks.

It is imported when it is used, so that who has no such index need not have it. A cluster judges
each document, and the whole of a request: a class of errors, a status, a reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from headrace.connectors.client_libraries import REFUSES_LOGIN, not_here
from headrace.errors import (
    HeadraceError,
    SinkRefused,
    SinkUnavailable,
    TargetMissing,
    words_of,
)

CONFLICT: Final = 409
_OK: Final = 300
_UNKNOWN_USER, _FORBIDDEN, MISSING, TOO_LARGE = 401, 403, 404, 413
#: a client that is told to come later
_THROTTLED: Final = (408, 429)
_SERVER: Final = 500
_BLOCKED: Final = "cluster_block_exception"
#: which is told as if the request were wrong
_CLOSED: Final = "index_closed_exception"
_FOR_A_PERSON: Final[Mapping[int, str]] = {
    _UNKNOWN_USER: f"the cluster {REFUSES_LOGIN}",
    _FORBIDDEN: "its user lacks a right",
    MISSING: "there is no such alias; 'headrace use-cases deploy' makes it with its index",
}


def library() -> Any:
    """The client, which only who uses such an index needs.

    Raises:
        CodeNotLoaded: it is not installed on this machine.
    """
    try:
        import opensearchpy  # noqa: PLC0415 - only who writes to such an index needs it
    except ImportError as error:
        raise not_here("SearchIndex needs opensearch-py", "search", error) from error
    return opensearchpy


def translated(error: BaseException, where: str) -> HeadraceError:
    """What the client raised for a whole request; nothing of what was written is quoted."""
    if isinstance(error, HeadraceError):
        return error
    lib = library()
    if isinstance(error, lib.exceptions.ConnectionTimeout):
        return SinkUnavailable(f"{where}: no answer in time; it may be written or not")
    status = getattr(error, "status_code", None)
    if not isinstance(error, lib.TransportError) or not isinstance(status, int):
        return SinkUnavailable(f"{where}: not now: {_short(words_of(error))}")
    info = error.info if isinstance(error.info, Mapping) else {}
    told = judged(status, info.get("error"), where)
    # No record is to blame for a request that is refused as a whole.
    return TargetMissing(str(told)) if isinstance(told, SinkRefused) else told or odd(where)


def is_silence(error: BaseException | None) -> bool:
    """Whether the client raised it because nobody answered; an odd answer is one."""
    if isinstance(error, HeadraceError):
        return True
    if not isinstance(error, library().exceptions.ConnectionError):
        return False
    # That is what came back, and is no text.
    return not isinstance(error.info, UnicodeDecodeError)


def is_late(error: BaseException | None) -> bool:
    """Whether the client raised it because the time for an answer was over."""
    return isinstance(error, library().exceptions.ConnectionTimeout)


def judged(status: int, error: object, where: str) -> HeadraceError | None:
    """What a status means, and its error; None where it is done, or was done already."""
    if status < _OK or status == CONFLICT:
        return None
    kind, reason = _said(error)
    if status in _FOR_A_PERSON and kind != _BLOCKED:
        return TargetMissing(f"{where}: {_FOR_A_PERSON[status]} ({reason})")
    if kind == _CLOSED:
        return TargetMissing(f"{where}: its index is closed; open it ({reason})")
    # A disk that is full makes indexes read-only, and lets them go when it is not.
    if kind == _BLOCKED or status in _THROTTLED or status >= _SERVER:
        return SinkUnavailable(f"{where}: not now: {reason}")
    return SinkRefused(f"{where}: the cluster refuses it: {kind}: {reason}")


def _said(error: object) -> tuple[str, str]:
    if not isinstance(error, Mapping):
        return "", _short(str(error or "without a reason"))
    # The value that does not fit stands in the reason behind this.
    reason = str(error.get("reason", "")).partition(" Preview of field's value")[0]
    return str(error.get("type", "")), _short(reason)


def _short(text: str) -> str:
    return " ".join(text.split())[:500]


def odd(where: str) -> SinkUnavailable:
    """What is told of an answer that no cluster gives."""
    return SinkUnavailable(f"{where}: an answer that is none")
