"""The client of HTTP, and what it and a Solr say in the words of sinks.

It is imported when it is used, so that who has no Solr need not have it. A Solr judges a request as
a whole: a status, and a reason. Where that is one document of many, those before it may be there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import orjson

from headrace.connectors.client_libraries import REFUSES_LOGIN, not_here
from headrace.errors import (
    HeadraceError,
    SinkRefused,
    SinkUnavailable,
    TargetMissing,
    words_of,
)

_OK: Final = 200
_WRONG, _UNKNOWN_USER, _FORBIDDEN, _MISSING, _TOO_LARGE = 400, 401, 403, 404, 413
_FOR_A_PERSON: Final[Mapping[int, str]] = {
    _UNKNOWN_USER: f"Solr {REFUSES_LOGIN}",
    _FORBIDDEN: "its user lacks a right",
    _MISSING: "there is no such collection; make it, and deploy again",
}
#: what is said of the collection, though a document met it
_OF_COLLECTION: Final[Mapping[str, str]] = {
    "unknown UpdateRequestProcessorChain": "the collection has lost its chain",
    "unknown field": "the collection has lost a field",
    "user version is not high enough": "its chain has to have ignoreOldUpdates",
}
#: where the value begins that does not fit, in what is said of it
_VALUE: Final = re.compile(
    r"(?<=')='|The prefix of the first immense term|For input string|(?<=Invalid Date String)"
)


class CollectionBlamed(TargetMissing):
    """Solr says what would be of the collection; a document's id may hold the same words."""


def library() -> Any:
    """The client, which only who uses such a collection needs.

    Raises:
        CodeNotLoaded: it is not installed on this machine.
    """
    try:
        import urllib3  # noqa: PLC0415 - only who writes to a Solr needs it
    except ImportError as error:
        raise not_here("SolrIndex needs urllib3", "solr", error) from error
    return urllib3


def unanswered(error: BaseException, where: str) -> HeadraceError:
    """What the client raised for a request."""
    if isinstance(error, HeadraceError):
        return error
    lib = library().exceptions
    is_late = isinstance(error, lib.TimeoutError | TimeoutError)
    # A connection that is refused is one of time there.
    if is_late and not isinstance(error, lib.NewConnectionError):
        return SinkUnavailable(f"{where}: no answer in time; it may be written or not")
    return SinkUnavailable(f"{where}: not now: {_short(words_of(error))}")


def demand_done(status: int, content: bytes, where: str) -> None:
    """See that a Solr has done what a request asked for.

    Raises:
        SinkRefused: it refuses what it was given.
        TargetMissing: a person has to do something; ``CollectionBlamed``, or so it sounds.
        SinkUnavailable: not now.
    """
    if status != _OK:
        raise _judged(status, _reason(_json(content)), where)


def answer_of(content: bytes, where: str) -> dict[str, Any]:
    """What a Solr says to what it has done.

    Raises:
        SinkUnavailable: it is no answer of a Solr.
    """
    told = _json(content)
    if not isinstance(told, dict):
        raise odd(where)
    return told


def odd(where: str) -> SinkUnavailable:
    """What is told of an answer that no Solr gives."""
    return SinkUnavailable(f"{where}: an answer that is none")


def _judged(status: int, reason: str, where: str) -> HeadraceError:
    for words, meaning in _OF_COLLECTION.items():
        if words in reason:
            told = f"{where}: {meaning}, as docs/sinks.md shows it ({reason})"
            return CollectionBlamed(told)
    if status in _FOR_A_PERSON:
        return TargetMissing(f"{where}: {_FOR_A_PERSON[status]} ({reason})")
    if status == _TOO_LARGE:
        return SinkRefused(f"{where}: a document is too large for the server")
    if status == _WRONG:
        return SinkRefused(f"{where}: Solr refuses it: {reason}")
    return SinkUnavailable(f"{where}: not now: HTTP {status}: {reason}")


def _json(content: bytes) -> object:
    try:
        return orjson.loads(content)
    except orjson.JSONDecodeError:
        return None


def _reason(told: object) -> str:
    error = told.get("error") if isinstance(told, dict) else None
    said = error.get("msg") if isinstance(error, dict) else None
    return _short(_VALUE.split(str(said or "without a reason"), maxsplit=1)[0])


def _short(text: str) -> str:
    return " ".join(text.split())[:500]
