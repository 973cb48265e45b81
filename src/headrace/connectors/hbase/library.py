"""The client of HBase's Thrift server, and what it raises in the words of sinks.

It is imported when it is used, so that who has no such table need not have it. The server tells
errors as what Java threw, with pages of where: only the names of what was thrown are taken of it,
since its words quote rows. What is not known to be for ever is tried again.
"""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any, Final

from headrace.connectors.client_libraries import not_here
from headrace.errors import HeadraceError, SinkRefused, SinkUnavailable, TargetMissing

_THROWN: Final = re.compile(r"\b[A-Z]\w*(?:Exception|Error)\b")
_TOO_LARGE: Final = re.compile(r"KeyValue size too large|exceeds limit of \d+ bytes")
#: what was thrown -> what it says, of things that only a person mends
_MISSING: Final = {
    "TableNotFoundException": "there is no such table",
    "NoSuchColumnFamilyException": "the table has no such column family",
    "AccessDeniedException": "the user of the Thrift server lacks a right",
    "NamespaceNotFoundException": "there is no such namespace",
    "FailedSanityCheckException": (
        "a setting forbids it; of a write that is hbase.hregion.keyvalue.timestamp.slop.millisecs, "
        "which does not go with versions"
    ),
}


class HungUp(SinkUnavailable):
    """The connection broke; what was asked on it may be done or not."""


def library() -> SimpleNamespace:
    """The client, and what it speaks by; only who writes to such a table needs it.

    Raises:
        CodeNotLoaded: it is not installed on this machine.
    """
    try:
        import happybase  # noqa: PLC0415 - only who writes to HBase needs it
        import Hbase_thrift  # noqa: PLC0415 - made by happybase when it is imported
        from happybase import connection  # noqa: PLC0415
        from thriftpy2.thrift import TApplicationException, TClient, TException  # noqa: PLC0415
        from thriftpy2.transport import TSocket  # noqa: PLC0415
    except ImportError as error:
        raise not_here("HBaseTable needs happybase", "hbase", error) from error
    return SimpleNamespace(
        Connection=happybase.Connection,
        transports=connection.THRIFT_TRANSPORTS,
        protocols=connection.THRIFT_PROTOCOLS,
        hbase=Hbase_thrift,
        TSocket=TSocket,
        TClient=TClient,
        TException=TException,
        #: what the server says of a request, upon which the connection goes on
        answers=(
            Hbase_thrift.IOError,
            Hbase_thrift.IllegalArgument,
            Hbase_thrift.AlreadyExists,
            TApplicationException,
        ),
    )


def translated(error: BaseException, where: str) -> HeadraceError:
    """What the client raised, in the words of sinks; nothing of what was written is quoted."""
    if isinstance(error, HeadraceError):
        return error
    lib = library()
    if isinstance(error, lib.answers):
        return _of_answer(_said(error), where, never=isinstance(error, lib.hbase.IllegalArgument))
    if isinstance(error, TimeoutError):
        return SinkUnavailable(f"{where}: no answer in time; it may be written or not")
    if isinstance(error, OSError | lib.TException):
        said = type(error).__name__ if isinstance(error, lib.TException) else str(error)
        return HungUp(f"{where}: not now: {said or type(error).__name__}")
    # What the client raises of an answer that the protocol does not know.
    return SinkUnavailable(
        f"{where}: an answer that cannot be read; it may be written or not ({type(error).__name__})"
    )


def _of_answer(said: str, where: str, *, never: bool) -> HeadraceError:
    if _TOO_LARGE.search(said):
        return SinkRefused(f"{where}: the row has a value that is larger than HBase takes")
    # Where it was thrown follows, which names classes as well.
    thrown = list(dict.fromkeys(_THROWN.findall(said.partition("\n\tat ")[0])))
    for name, problem in _MISSING.items():
        if name in thrown:
            return TargetMissing(f"{where}: {problem} ({name})")
    names = ", ".join(thrown[:5]) or "it does not say why"
    if never:
        return SinkRefused(f"{where}: HBase takes no such row: {names}")
    return SinkUnavailable(f"{where}: not now: {names}")


def _said(error: Any) -> str:
    message = getattr(error, "message", None) or b""
    return message.decode("utf-8", "replace") if isinstance(message, bytes) else str(message)
