"""What is asked of Kinesis, as Amazon's client is called, and what its refusals mean.

The service tells errors by a code, whoever plays it. A shard that gave all that it gives in a
second is no trouble: whoever reads it comes back. All that a person has to mend (a right, a key, a
clock) is trouble that waits, so that nothing is lost meanwhile; it says what is wrong, and never
with what anybody signed.
"""

# The client's own names.
# ruff: noqa: N803

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final, Protocol

from headrace.errors import BrokerUnavailable, HeadraceError, Temporary, TopicMissing

#: there is no such stream, or no such shard of it
MISSING: Final = "ResourceNotFoundException"
#: a sequence number that the shard did not give, say
INVALID: Final = "InvalidArgumentException"
EXPIRED: Final = "ExpiredIteratorException"
_SPENT: Final = frozenset(
    {
        "ProvisionedThroughputExceededException",
        "LimitExceededException",
        "ThrottlingException",
        "RequestLimitExceeded",
        "KMSThrottlingException",
    }
)
#: what is signed with is of nobody
UNKNOWN_USER: Final = frozenset(
    {
        "UnrecognizedClientException",
        "IncompleteSignatureException",
        "InvalidClientTokenId",
        "ExpiredTokenException",
        "MissingAuthenticationTokenException",
    }
)
#: what was signed does not fit, or was signed at another time
SIGNATURE: Final = "InvalidSignatureException"
#: how far a clock may be off where the service does not say what time it is
ODD_CLOCK_MS: Final = 300_000
#: seconds after which a shard gives more
SPENT_S: Final = 1.0

Answer = Mapping[str, Any]


class Kinesis(Protocol):
    """What is called of Amazon's client; ``headrace.testing.kinesis`` has one in memory."""

    def describe_stream_summary(self, *, StreamName: str) -> Answer:
        """When a stream was made, and how long it keeps records."""

    def list_shards(
        self,
        *,
        StreamName: str = ...,
        NextToken: str = ...,
        ShardFilter: Mapping[str, Any] = ...,
    ) -> Answer:
        """Its shards, a page at a time."""

    def get_shard_iterator(
        self,
        *,
        StreamName: str,
        ShardId: str,
        ShardIteratorType: str,
        StartingSequenceNumber: str = ...,
        Timestamp: datetime = ...,
    ) -> Answer:
        """Where to read a shard from."""

    def get_records(self, *, ShardIterator: str, Limit: int) -> Answer:
        """Records from there."""


class Spent(Temporary):
    """A shard gave all that it gives in a second."""


def code_of(error: BaseException) -> str:
    """What the service calls an error; empty where it is none of the service's own."""
    answer = getattr(error, "response", None)
    told = answer.get("Error") if isinstance(answer, Mapping) else None
    return str(told.get("Code", "")) if isinstance(told, Mapping) else ""


def translated(error: Exception, where: str) -> HeadraceError:
    """What the client raised, in our words."""
    if isinstance(error, HeadraceError):
        return error
    code = code_of(error)
    if not code:
        # Its text can have an address, and no more; a key is never in it.
        return BrokerUnavailable(f"{where}: Kinesis does not answer: {short(str(error))}")
    if code in _SPENT:
        return Spent(f"{where}: read as much as may be for now ({code})", retry_after_s=SPENT_S)
    if code == MISSING:
        return TopicMissing(f"{where} is not there; create the stream or remove who reads it")
    said = short(str(getattr(error, "response", {})["Error"].get("Message", "")))
    return _to_mend(code, said, where) or Temporary(f"{where}: not now: {code}: {said}")


def _to_mend(code: str, said: str, where: str) -> HeadraceError | None:
    """What a person has to do something about."""
    if code == SIGNATURE and (clock := wrong_clock(said)):
        return BrokerUnavailable(f"{where}: {clock}")
    if code in UNKNOWN_USER or code == SIGNATURE:
        return BrokerUnavailable(f"{where}: Kinesis does not take these credentials ({code})")
    if code.startswith("AccessDenied"):
        return BrokerUnavailable(f"{where}: a right is missing: {said}")
    return None


def told_at_ms(answer: Answer, now_s: float) -> int:
    """When the service gave an answer, by its own clock, in milliseconds since 1970; never later.

    Args:
        answer: which may say so to the second.
        now_s: by the clock of this machine, which may be off by as much as the service allows.
    """
    metadata = answer.get("ResponseMetadata") or {}
    said = (metadata.get("HTTPHeaders") or {}).get("date")
    try:
        return round(parsedate_to_datetime(str(said)).timestamp() * 1000)
    except (TypeError, ValueError):
        return round(now_s * 1000) - ODD_CLOCK_MS


def moment(ms: int) -> datetime:
    """A moment as the client takes it."""
    return datetime.fromtimestamp(max(0, ms) / 1000, UTC)


def wrong_clock(said: str) -> str | None:
    """What is told where a signature is not of this time; None where it is not for that."""
    if not said.startswith(("Signature expired", "Signature not yet current")):
        return None
    # What is said behind these words has what was signed.
    return f"this machine's clock is wrong: {said.split(':', maxsplit=1)[0]}"


def is_spent(code: str) -> bool:
    """Whether nothing was done, since it was too much for this second."""
    return code in _SPENT


def short(text: str) -> str:
    """A text in one line, no longer than a message bears."""
    return " ".join(text.split())[:500]
