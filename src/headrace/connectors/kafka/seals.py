"""The seal on a record that was sent back: for whom it is, in words that a tenant cannot forge.

A record sent back for one use case is kept from the others that read its topic. If a plain header
said so, whoever may write to the topic could hide records from a use case, and a handler that
passes headers on would do it unawares. So a redrive seals what it says with an HMAC-SHA256 under a
key of the store, over all that makes the record this one: use case, count, topic, partition, key,
value and its other headers. Not its time, which a topic may stamp by itself, and not its offset,
which nobody knows before it is written.

So an exact copy in the same partition has the same seal. It hides no more than itself, which its
use case is given. This module talks to nobody.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from headrace.connectors.kafka.dead_letter_headers import Header
from headrace.connectors.kafka.partitions import TopicPartition
from headrace.ports import REDRIVE_HEADERS

#: names the use case that a record was sent back for; nobody else is given it again
USE_CASE_HEADER = f"{REDRIVE_HEADERS}use-case"
#: how often a record was sent back
COUNT_HEADER = f"{REDRIVE_HEADERS}count"
#: shows that a redrive of this store wrote the two
SEAL_HEADER = f"{REDRIVE_HEADERS}seal"
_NAMES = [USE_CASE_HEADER, COUNT_HEADER, SEAL_HEADER]


class Message(NamedTuple):
    """A message as Kafka has it."""

    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]


class SentBack(NamedTuple):
    """What a seal says."""

    use_case: str
    times: int


def sealed(
    message: Message, at: TopicPartition, use_case: str, count: int, seal_key: bytes
) -> Message:
    """The message with the headers that send it back; any of their names that it had are gone.

    Args:
        message: the record as it came.
        at: where it is sent to.
        use_case: for whom.
        count: the times it was sent back, this one among them.
        seal_key: of the store.
    """
    assert seal_key, "the key of the store comes with the connections"
    plain, said = _plain(message), (use_case.encode(), b"%d" % count)
    own = zip(_NAMES, (*said, _seal(plain, at, said, seal_key)), strict=True)
    return plain._replace(headers=(*plain.headers, *own))


def sent_back(message: Message, at: TopicPartition, seal_key: bytes) -> SentBack | None:
    """For whom a redrive of this store sent this message here; None if none did, whatever it says.

    Args:
        message: the record as it was read.
        at: where.
        seal_key: of the store; empty: nothing is believed.
    """
    own = [header for header in message.headers if header[0].startswith(REDRIVE_HEADERS)]
    if not seal_key or [name for name, _ in own] != _NAMES:
        return None
    use_case, count, seal = (text or b"" for _, text in own)
    if not hmac.compare_digest(seal, _seal(_plain(message), at, (use_case, count), seal_key)):
        return None
    return SentBack(use_case.decode(), int(count))


def bytes_of(message: Message) -> Iterator[bytes | None]:
    """All that a message is made of, in order."""
    yield from (message.key, message.value)
    for name, text in message.headers:
        yield from (name.encode(), text)


def with_length(part: bytes | None) -> bytes:
    """A part as it is hashed: with its length, or two messages could come to the same bytes."""
    return b"-" if part is None else b"%d:%b" % (len(part), part)


def _plain(message: Message) -> Message:
    kept = (header for header in message.headers if not header[0].startswith(REDRIVE_HEADERS))
    return message._replace(headers=tuple(kept))


def _seal(plain: Message, at: TopicPartition, said: Iterable[bytes], seal_key: bytes) -> bytes:
    made = hmac.new(seal_key, digestmod="sha256")
    for part in (*said, at.topic.encode(), b"%d" % at.partition, *bytes_of(plain)):
        made.update(with_length(part))
    return made.hexdigest().encode()
