"""The client of DynamoDB, and what the service says in the words of sinks.

It is imported when it is used, so that who has no such table need not have it. The service tells
errors by a code. What is not known to be for ever is tried again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, Final

from headrace.connectors.client_libraries import REFUSES_LOGIN, not_here
from headrace.errors import HeadraceError, SinkRefused, SinkUnavailable, TargetMissing

MISSING: Final = "ResourceNotFoundException"
#: somebody else makes it, or changes it
IN_USE: Final = "ResourceInUseException"
_NEWER: Final = "ConditionalCheckFailedException"
#: nothing was done, and it may be in a moment
_THROTTLED: Final = frozenset(
    {
        "ProvisionedThroughputExceededException",
        "ThrottlingException",
        "RequestLimitExceeded",
        "TransactionConflictException",
        "ReplicatedWriteConflictException",
    }
)
_INVALID: Final = "ValidationException"
_NOT_WELL: Final = 300
#: who speaks this protocol sends one of these headers, or this kind of content
_ITS_HEADERS: Final = ("x-amzn-requestid", "x-amz-crc32")
_ITS_JSON: Final = "application/x-amz-json"
#: what is said of a row, and is its table's
_OF_THE_TABLE: Final = ("does not match the schema", "Missing the key")


def library() -> Any:
    """What the client is made of, which only who writes to such a table needs.

    Raises:
        CodeNotLoaded: it is not installed on this machine.
    """
    try:
        import boto3  # noqa: PLC0415 - only who writes to DynamoDB needs it
        import botocore.config  # noqa: PLC0415
        import botocore.exceptions  # noqa: PLC0415
        import botocore.session  # noqa: PLC0415
    except ImportError as error:
        raise not_here("DynamoTable needs boto3", "dynamodb", error) from error
    return SimpleNamespace(
        Config=botocore.config.Config,
        errors=botocore.exceptions,
        settings=botocore.session.Session,
        Session=boto3.Session,
    )


def code_of(error: BaseException) -> str:
    """What the service calls an error; empty where it is none of the service's own."""
    answer = getattr(error, "response", None)
    told = answer.get("Error") if isinstance(answer, Mapping) else None
    return str(told.get("Code", "")) if isinstance(told, Mapping) else ""


def is_done(error: BaseException) -> bool:
    """Whether what is there is newer, so that nothing is left to do."""
    return code_of(error) == _NEWER


def is_throttled(error: BaseException) -> bool:
    """Whether nothing was done, since it was too much for now."""
    return code_of(error) in _THROTTLED


def is_answered(error: BaseException) -> bool:
    """Whether the service itself said it; else nobody answers, or nobody can ask."""
    return bool(code_of(error))


def demand_its_own(answer: Mapping[str, Any], where: str) -> None:
    """See that what was answered well is the service's: the client takes any text for an answer.

    Args:
        answer: its ``status_code``, ``headers`` and ``body``, before the client reads them.
        where: what messages call the service.

    Raises:
        SinkUnavailable: a proxy's page, say, so nobody knows what was done.
    """
    if answer["status_code"] >= _NOT_WELL:
        return
    headers = {name.lower(): value for name, value in answer["headers"].items()}
    is_signed = any(name in headers for name in _ITS_HEADERS)
    if not is_signed and not headers.get("content-type", "").startswith(_ITS_JSON):
        raise not_its_own(where, "it has none of its headers")
    try:
        is_object = isinstance(json.loads(answer["body"]), dict)
    except (ValueError, RecursionError):
        is_object = False
    if not is_object:
        raise not_its_own(where, "it is no JSON of its kind")


def not_its_own(where: str, why: str) -> SinkUnavailable:
    """What is told of an answer that is none."""
    return SinkUnavailable(
        f"{where}: an answer that is not DynamoDB's; it may be written or not ({why})"
    )


def translated(error: BaseException, where: str) -> HeadraceError:
    """What the client raised, in the words of sinks; nothing of what was written is quoted."""
    if isinstance(error, HeadraceError):
        return error
    code = code_of(error)
    if not code:
        return _unanswered(error, where)
    return _BY_CODE.get(code, _not_now)(where, code, _said(error))


def _unanswered(error: BaseException, where: str) -> HeadraceError:
    known, kind = library().errors, type(error).__name__
    if isinstance(error, known.ReadTimeoutError | known.ConnectionClosedError | TimeoutError):
        return SinkUnavailable(f"{where}: no answer in time; it may be written or not ({kind})")
    if isinstance(error, known.NoCredentialsError | known.CredentialRetrievalError):
        return SinkUnavailable(
            f"{where}: there are no credentials here: say user and password_file under "
            "'connections:', or give executors a role"
        )
    if isinstance(error, known.BotoCoreError | OSError | MemoryError | RuntimeError):
        return SinkUnavailable(f"{where}: not now: {_short(str(error)) or kind}")
    if isinstance(error, UnicodeEncodeError):
        return SinkRefused(f"{where}: a value cannot be written ({kind})")
    # What the client raises of an answer that is none of the service's.
    return not_its_own(where, kind)


def _invalid(where: str, code: str, said: str) -> HeadraceError:
    if any(words in said for words in _OF_THE_TABLE):
        return TargetMissing(f"{where}: the table has another key: {said}")
    return SinkRefused(f"{where}: DynamoDB refuses it: {code}: {said}")


def _missing(where: str, code: str, said: str) -> HeadraceError:
    del code, said
    return TargetMissing(f"{where}: there is no such table; 'headrace use-cases deploy' makes it")


def _full(where: str, code: str, said: str) -> HeadraceError:
    return TargetMissing(
        f"{where}: a local index has no room for more of this tenant ({code}: {said})"
    )


def _lacks_a_right(where: str, code: str, said: str) -> HeadraceError:
    del code
    return TargetMissing(f"{where}: its user lacks a right: {said}")


def _unknown_user(where: str, code: str, said: str) -> HeadraceError:
    # What is said behind these words has what was signed.
    words = said.partition(":")[0]
    if words.startswith(("Signature expired", "Signature not yet current")):
        return SinkUnavailable(f"{where}: this machine's clock is wrong ({words})")
    return TargetMissing(f"{where}: DynamoDB {REFUSES_LOGIN} ({code})")


def _not_now(where: str, code: str, said: str) -> HeadraceError:
    return SinkUnavailable(f"{where}: not now: {code}: {said}")


def _said(error: BaseException) -> str:
    response: Any = getattr(error, "response", {})
    return _short(str(response["Error"].get("Message", "")))


def _short(text: str) -> str:
    return " ".join(text.split())[:500]


_BY_CODE: Final[Mapping[str, Callable[[str, str, str], HeadraceError]]] = {
    MISSING: _missing,
    _INVALID: _invalid,
    "ItemCollectionSizeLimitExceededException": _full,
    "AccessDeniedException": _lacks_a_right,
    **dict.fromkeys(
        (
            "UnrecognizedClientException",
            "InvalidSignatureException",
            "IncompleteSignatureException",
            "InvalidClientTokenId",
            "MissingAuthenticationTokenException",
            "MissingAuthenticationToken",
        ),
        _unknown_user,
    ),
}
