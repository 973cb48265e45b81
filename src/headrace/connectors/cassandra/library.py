"""The client of Cassandra, and what it raises in the words of sinks.

It is imported when it is used, so that who has no such table need not have it. A cluster has many
words for "not now", and a few for "never": what is not known to be for ever is tried again.
"""

from __future__ import annotations

import re
import struct
from typing import Any, Final

from headrace.connectors.client_libraries import REFUSES_LOGIN, not_here
from headrace.errors import (
    HeadraceError,
    SinkRefused,
    SinkUnavailable,
    TargetMissing,
    words_of,
)

#: what an operator has to mend, among what the server calls invalid
_OF_THE_TABLE: Final = re.compile(
    r"(table|keyspace) \S+ does not exist|unconfigured table|undefined column|unknown identifier"
    r"|keyspace '\S+' does not exist|was concurrently dropped",
    re.IGNORECASE,
)
_OF_THE_CLOCK: Final = re.compile(r"allowable timestamp", re.IGNORECASE)


def library() -> Any:
    """The client, which only who uses such a table needs.

    Raises:
        CodeNotLoaded: it is not installed on this machine, or finds no event loop.
    """
    try:
        import cassandra.auth  # noqa: PLC0415 - only who writes to Cassandra needs it
        import cassandra.cluster  # noqa: PLC0415
        import cassandra.concurrent  # noqa: PLC0415
        import cassandra.policies  # noqa: PLC0415
        import cassandra.query  # noqa: PLC0415
    except Exception as error:  # it raises its own where it has no event loop
        raise not_here("CassandraTable needs cassandra-driver", "cassandra", error) from error
    return cassandra


def is_silence(error: BaseException) -> bool:
    """Whether nobody answered, so that nothing else needs to be asked now."""
    lib = library()
    return isinstance(error, lib.OperationTimedOut | lib.cluster.NoHostAvailable)


def translated(error: BaseException, where: str) -> HeadraceError:
    """What the client raised, in the words of sinks; nothing of what was written is quoted."""
    if isinstance(error, HeadraceError):
        return error
    lib = library()
    for kinds, told in (
        (lib.cluster.NoHostAvailable, _of_hosts),
        (lib.AuthenticationFailed, _unknown_user),
        (lib.Unauthorized, _lacks_a_right),
        (lib.InvalidRequest, _invalid),
        ((lib.WriteTimeout, lib.WriteFailure, lib.OperationTimedOut), _in_doubt),
        ((lib.DriverException, lib.protocol.ErrorMessage), _not_now),
    ):
        if isinstance(error, kinds):
            return told(error, where)
    return _of_a_value(error, where)


def _unknown_user(_: BaseException, where: str) -> HeadraceError:
    return TargetMissing(f"{where}: the cluster {REFUSES_LOGIN}")


def _lacks_a_right(error: BaseException, where: str) -> HeadraceError:
    return TargetMissing(f"{where}: its user lacks a right: {_said(error)}")


def _in_doubt(error: BaseException, where: str) -> HeadraceError:
    return SinkUnavailable(f"{where}: it may be written or not: {_said(error)}")


def _not_now(error: BaseException, where: str) -> HeadraceError:
    return SinkUnavailable(f"{where}: not now: {_said(error)}")


def _of_hosts(error: Any, where: str) -> HeadraceError:
    lib = library()
    each = error.errors.values() if isinstance(error.errors, dict) else []
    for found in each:
        if isinstance(found, lib.AuthenticationFailed | lib.InvalidRequest | lib.Unauthorized):
            told = translated(found, where)
            # Nobody took a row, so none of them is to blame.
            if not isinstance(told, SinkRefused):
                return told
    said = "; ".join(sorted({_said(found) for found in each}))
    return SinkUnavailable(f"{where}: no node answers: {said or 'all of them are down'}")


def _invalid(error: BaseException, where: str) -> HeadraceError:
    said = _said(error)
    if _OF_THE_CLOCK.search(said):
        return TargetMissing(
            f"{where}: the cluster takes no timestamps that are this far from its clock, and "
            "versions are small numbers: switch the guardrail off, or give newest_by a column of "
            f"the kind timestamp ({said})"
        )
    if _OF_THE_TABLE.search(said):
        return TargetMissing(f"{where}: {said}; 'headrace use-cases deploy' makes the table")
    return SinkRefused(f"{where}: the cluster refuses it: {said}")


def _of_a_value(error: BaseException, where: str) -> HeadraceError:
    """What the client raises of a value that it cannot send has no class of its own."""
    if isinstance(error, TypeError | ValueError | ArithmeticError | AttributeError | struct.error):
        return SinkRefused(f"{where}: a value cannot be written ({type(error).__name__})")
    return SinkUnavailable(f"{where}: not now: {words_of(error)}")


def _said(error: BaseException) -> str:
    return " ".join(str(error).split())[:500] or type(error).__name__
