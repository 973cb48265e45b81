"""The client of Redis, and what it raises in the words of sinks.

It is imported when it is used, so that who has no such cache need not have it. Servers tell errors
by a first word. What is not known to be for ever is tried again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from headrace.connectors.client_libraries import REFUSES_LOGIN, not_here
from headrace.errors import HeadraceError, SinkRefused, SinkUnavailable, TargetMissing

_NO_SCRIPTS: Final = re.compile(r"unknown command|unknown subcommand", re.IGNORECASE)

#: why a node of a cluster is none for this sink
OF_A_CLUSTER: Final = (
    "it is a node of a cluster that divides keys among its nodes, which this sink does not speak "
    "to: name a server that has all keys, or a proxy before the cluster"
)


def library() -> Any:
    """The client, which only who uses such a cache needs.

    Raises:
        CodeNotLoaded: it is not installed on this machine.
    """
    try:
        import redis  # noqa: PLC0415 - only who writes to Redis needs it
    except ImportError as error:
        raise not_here("RedisHashes needs redis", "redis", error) from error
    return redis


def translated(error: BaseException, where: str) -> HeadraceError:
    """What the client raised, in the words of sinks; nothing of what was written is quoted."""
    if isinstance(error, HeadraceError):
        return error
    lib = library()
    for kinds, told in (
        (lib.AuthenticationError, _unknown_user),
        ((lib.exceptions.NoPermissionError, lib.exceptions.AuthorizationError), _lacks_a_right),
        (lib.exceptions.MovedError, _of_a_cluster),
        (lib.TimeoutError, _in_doubt),
        (lib.ResponseError, _of_answer),
        ((lib.RedisError, OSError), _not_now),
    ):
        if isinstance(error, kinds):
            return told(error, where)
    # What the client raises of an answer that the protocol does not know.
    return SinkUnavailable(
        f"{where}: an answer that cannot be read; it may be written or not ({type(error).__name__})"
    )


def _of_answer(error: object, where: str) -> HeadraceError:
    """An answer that says no: to a key that is something else, or to all that is asked."""
    said = _said(error)
    found = _WORD.search(said)
    if found is not None:
        return _BY_WORD[found[0]](error, where)
    if _NO_SCRIPTS.search(said):
        return TargetMissing(f"{where}: the server takes no scripts: {said}")
    return _not_now(error, where)


def _of_another_kind(_: object, where: str) -> HeadraceError:
    return SinkRefused(f"{where}: what is there under the key of the row is no hash")


def _of_a_cluster(_: object, where: str) -> HeadraceError:
    return TargetMissing(f"{where}: {OF_A_CLUSTER}")


def _in_doubt(error: object, where: str) -> HeadraceError:
    return SinkUnavailable(f"{where}: it may be written or not: {_said(error)}")


def _not_now(error: object, where: str) -> HeadraceError:
    return SinkUnavailable(f"{where}: not now: {_said(error)}")


def _unknown_user(_: object, where: str) -> HeadraceError:
    return TargetMissing(f"{where}: the server {REFUSES_LOGIN}")


def _lacks_a_right(error: object, where: str) -> HeadraceError:
    return TargetMissing(f"{where}: its user lacks a right: {_said(error)}")


def _said(error: object) -> str:
    """What a server said, with the word that the client takes for a class; no data."""
    word = getattr(error, "status_code", None)
    said = " ".join(str(error).split()).partition(", with args beginning with")[0]
    return f"{word} {said}"[:500] if word else said[:500] or type(error).__name__


_BY_WORD: Final[Mapping[str, Callable[[object, str], HeadraceError]]] = {
    "WRONGTYPE": _of_another_kind,
    "MOVED": _of_a_cluster,
    "CROSSSLOT": _of_a_cluster,
    "NOPERM": _lacks_a_right,
    "NOAUTH": _unknown_user,
    "WRONGPASS": _unknown_user,
}
#: scripts quote what a command in them met, in servers before 7 behind words of their own
_WORD: Final = re.compile(rf"\b({'|'.join(_BY_WORD)})\b")
