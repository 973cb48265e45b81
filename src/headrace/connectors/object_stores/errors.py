"""What an object store answers, in the words of sinks.

The library has a few kinds of errors; what a store said stands in their text, as a status and a
code. A text may quote keys and what was signed, so none of it is repeated but these two, and what
the network said.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from headrace.connectors.client_libraries import not_here
from headrace.errors import HeadraceError, SinkRefused, SinkUnavailable, TargetMissing

#: codes after which nothing is wrong with the data: it has too much to do, or a key is exchanged
_PASSES = frozenset(
    {
        "SlowDown",
        "ServiceUnavailable",
        "InternalError",
        "OperationAborted",
        "RequestTimeout",
        "RequestTimeTooSkewed",
        "ConditionalRequestConflict",
        "InvalidAccessKeyId",
        "SignatureDoesNotMatch",
        "AuthenticationFailed",
        "ExpiredToken",
        "InvalidToken",
        "TokenRefreshRequired",
        "BadDigest",
        "IncompleteBody",
        "XAmzContentSHA256Mismatch",
    }
)
#: what is told of some of them besides
_HINTS = {
    "RequestTimeTooSkewed": "the clock of this machine is wrong, or that of the store",
    "InvalidAccessKeyId": "it lets nobody in with this key",
    "SignatureDoesNotMatch": "the secret is not that of the key",
    "AuthenticationFailed": "the key is not that of the account",
    "ExpiredToken": "the credentials have expired",
    "NoSuchBucket": "the bucket is not there",
    "AccessDenied": "the key lacks a right: PutObject, GetObject and ListBucket are needed",
    "NotImplemented": "it cannot write on a condition",
}
_REFUSES = frozenset({"EntityTooLarge", "KeyTooLongError", "MetadataTooLarge"})
_CODE = re.compile(r"<Code>\s*(\w{1,64})\s*</Code>")
_STATUS = re.compile(r"\bstatus(?: code:)? (\d{3})\b")
#: of the network and of certificates, by the library's own words
_SAID = re.compile(r'message: "([^"\n]{1,200})"')
_CERTIFICATE = re.compile(r"invalid peer certificate: ?(\w+)|InvalidCertificate\(\s*(\w+)")
#: the library's own sentence; a URL, in which names of tenants stand, has no spaces
_ELSEWHERE = "Received redirect without LOCATION"
_PASSING_STATUS = {401, 408, 409, 429}


class BeatenError(Exception):
    """There is a file of this name already, or another one than was seen; nothing was written."""


def library() -> Any:
    """The client library, which only who uses object stores needs.

    Raises:
        CodeNotLoaded: it is not installed on this machine.
    """
    try:
        import obstore  # noqa: PLC0415 - only who writes to an object store needs it
        import obstore.exceptions  # noqa: PLC0415
        import obstore.store  # noqa: PLC0415
    except ImportError as error:
        raise not_here("object stores need obstore", "s3", error) from error
    return obstore


@contextmanager
def told(where: str) -> Iterator[None]:
    """Tell what the library meets in the words of sinks.

    Raises:
        BeatenError: a condition was not met.
        SinkUnavailable: it may pass by itself.
        TargetMissing: a person has to mend it.
        SinkRefused: the store does not take such a file.
    """
    try:
        yield
    except (HeadraceError, BeatenError):
        raise
    except Exception as error:
        # The cause would show what was quoted.
        raise as_sinks(error, where) from None


def as_sinks(error: Exception, where: str) -> HeadraceError | BeatenError:
    """One error of the library."""
    kinds = library().exceptions
    if isinstance(error, kinds.AlreadyExistsError | kinds.PreconditionError):
        return BeatenError()
    kind = type(error).__name__.removesuffix("Error")
    return judged(str(error), where, kind="" if isinstance(error, kinds.GenericError) else kind)


def judged(text: str, where: str, *, kind: str = "") -> HeadraceError | BeatenError:
    """What a library of Rust's ``object_store`` says, by its text and, if it tells one, a kind."""
    code = found[1] if (found := _CODE.search(text)) else ""
    status = int(found[1]) if (found := _STATUS.search(text)) else 0
    if code == "NoSuchKey":
        return BeatenError()
    said = " ".join(filter(None, [str(status or ""), code])) or _of_network(text)
    said += f": {_HINTS[code]}" if code in _HINTS else ""
    if code in _REFUSES:
        return SinkRefused(f"{where}: it does not take this file: {said}")
    if code in _PASSES or status in _PASSING_STATUS or _passes_by(status, code):
        return SinkUnavailable(f"{where}: cannot be written now: {said}")
    if not kind and not status and _ELSEWHERE not in text:
        return SinkUnavailable(f"{where}: is not reached: {said}")
    if _ELSEWHERE in text:
        said = "the bucket is in another region: say region= in its URL"
    return TargetMissing(f"{where}: cannot be written: {said or kind}")


def _passes_by(status: int, code: str) -> bool:
    return status >= 500 and code != "NotImplemented" and status != 501


def _of_network(text: str) -> str:
    if found := _CERTIFICATE.search(text):
        kind = next(filter(None, found.groups()), "")
        return f"its certificate is not believed ({kind}); say ca= in its URL for an own authority"
    if "TimedOut" in text or "timed out" in text:
        return "it says nothing"
    messages = _SAID.findall(text)
    return messages[-1] if messages else "its answer is not understood"
