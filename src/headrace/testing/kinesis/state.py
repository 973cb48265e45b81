"""What the fake keeps: streams, their shards, and records until retention takes them."""

from __future__ import annotations

import base64
import json
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from headrace.testing.kinesis.numbers import Parts, first_of, last_of, number_of, parts_of

#: what a shard gives in a second: so many answers, so many bytes
READS_PER_S, BYTES_PER_S = 5, 2 * 1024 * 1024


class ServiceError(Exception):
    """What the service refuses, as its client raises it: told by the code in ``response``."""

    def __init__(self, code: str, message: str) -> None:
        """Take what the service calls it, and says."""
        super().__init__(f"{code}: {message}")
        self.response = {"Error": {"Code": code, "Message": message}}

    def __reduce__(self) -> tuple[Any, ...]:
        """Survive a pickle."""
        told = self.response["Error"]
        return type(self), (told["Code"], told["Message"])


class Kept(NamedTuple):
    """A record."""

    number: int
    came_s: float
    key: str
    data: bytes

    @property
    def size(self) -> int:
        """Bytes that count against what a shard gives."""
        return len(self.data) + len(self.key.encode())


@dataclass(slots=True)
class FakeShard:
    """A shard."""

    number: int
    first_key: int
    last_key: int
    made_s: float
    parents: tuple[int, ...] = ()
    #: when it came into lists, which may be later than that it took records
    listed_s: float = 0.0
    closed_s: float | None = None
    #: oldest first; retention takes them from the front
    records: deque[Kept] = field(default_factory=deque)
    #: how many there ever were
    given: int = 0
    #: answers of the last second: when, and how many bytes
    answers: deque[tuple[float, int]] = field(default_factory=deque)
    iterators: deque[float] = field(default_factory=deque)
    #: nothing is given before that, after an answer of more than a second's bytes
    spent_until_s: float = 0.0

    @property
    def shard_id(self) -> str:
        """What the service calls it."""
        return f"shardId-{self.number:012}"

    @property
    def starting(self) -> int:
        """Below the numbers of all its records."""
        return first_of(int(self.made_s), self.number)

    @property
    def ending(self) -> int | None:
        """Above them, once it takes no more."""
        if self.closed_s is None:
            return None
        return last_of(int(self.made_s), self.number, int(self.closed_s))

    def take(self, now_s: float, key: str, data: bytes) -> Kept:
        """Keep a record."""
        self.given += 1
        parts = Parts(int(self.made_s), self.given, int(now_s), self.number)
        kept = Kept(number_of(parts), round(now_s, 3), key, data)
        self.records.append(kept)
        return kept

    def expire(self, horizon_s: float) -> None:
        """Let retention take what came before."""
        while self.records and self.records[0].came_s < horizon_s:
            self.records.popleft()

    def is_its(self, number: int) -> bool:
        """Whether it gave this number to a record, or starts with it."""
        parts = parts_of(number)
        if parts is None or parts.shard != self.number or parts.made_s != int(self.made_s):
            return False
        return parts.record <= self.given

    def took_records(self, at_s: float) -> bool:
        """Whether it was there at a moment, and not closed yet."""
        return self.made_s <= at_s and (self.closed_s is None or self.closed_s >= at_s)

    def is_spent(self, now_s: float) -> bool:
        """Whether it gave all that it gives in a second."""
        while self.answers and self.answers[0][0] <= now_s - 1.0:
            self.answers.popleft()
        many = len(self.answers) >= READS_PER_S
        much = sum(size for _, size in self.answers) > BYTES_PER_S
        return many or much or now_s < self.spent_until_s

    def spend(self, now_s: float, size: int) -> None:
        """Count an answer."""
        self.answers.append((now_s, size))
        if size > BYTES_PER_S:
            self.spent_until_s = now_s + size / BYTES_PER_S

    def told(self) -> dict[str, Any]:
        """What lists say of it."""
        numbers = {"StartingSequenceNumber": str(self.starting)}
        if self.ending is not None:
            numbers["EndingSequenceNumber"] = str(self.ending)
        found: dict[str, Any] = {
            "ShardId": self.shard_id,
            "HashKeyRange": {
                "StartingHashKey": str(self.first_key),
                "EndingHashKey": str(self.last_key),
            },
            "SequenceNumberRange": numbers,
        }
        names = ("ParentShardId", "AdjacentParentShardId")
        for name, parent in zip(names, self.parents, strict=False):
            found[name] = f"shardId-{parent:012}"
        return found


@dataclass(slots=True)
class FakeStream:
    """A stream."""

    name: str
    made_s: float
    #: of all streams that were made, also of one name
    incarnation: int
    retention_s: float
    shards: dict[int, FakeShard] = field(default_factory=dict)
    #: numbers of shards that there ever were
    numbers: int = 0

    def add(self, made_s: float, first_key: int, last_key: int, *parents: FakeShard) -> FakeShard:
        """Open a shard."""
        # Numbers of what follows have to be above those before it.
        made_s = max([made_s, *(int(parent.made_s) + 1 for parent in parents)])
        numbers = tuple(parent.number for parent in parents)
        made = FakeShard(self.numbers, first_key, last_key, made_s, numbers)
        self.shards[self.numbers] = made
        self.numbers += 1
        return made

    def shard(self, shard_id: str) -> FakeShard:
        """The shard of this id.

        Raises:
            ServiceError: it is not there.
        """
        for shard in self.shards.values():
            if shard.shard_id == shard_id:
                return shard
        raise ServiceError(
            "ResourceNotFoundException", f"Shard {shard_id} in stream {self.name} does not exist"
        )

    def open_shard(self, hash_key: int) -> FakeShard:
        """The shard that takes records of a hash key."""
        return next(
            shard
            for shard in self.shards.values()
            if shard.closed_s is None and shard.first_key <= hash_key <= shard.last_key
        )

    def children(self, shard: FakeShard) -> Iterator[FakeShard]:
        """What follows a shard."""
        return (one for one in self.shards.values() if shard.number in one.parents)

    def expire(self, now_s: float) -> None:
        """Let retention take records, and shards that were closed for as long."""
        horizon_s = now_s - self.retention_s
        for number, shard in list(self.shards.items()):
            shard.expire(horizon_s)
            if shard.closed_s is not None and shard.closed_s < horizon_s:
                del self.shards[number]


class Cursor(NamedTuple):
    """Where an iterator is; to whoever holds it, a text."""

    stream: str
    incarnation: int
    shard: int
    #: the next record has a number above it
    after: int
    #: and is looked for from this moment on
    from_s: float
    #: records before it are passed over
    since_s: float
    issued_s: float

    @property
    def text(self) -> str:
        """What a client is given."""
        return base64.b64encode(json.dumps(self).encode()).decode()


def cursor_of(text: str) -> Cursor:
    """Where an iterator is.

    Raises:
        ServiceError: it is none.
    """
    try:
        return Cursor(*json.loads(base64.b64decode(text)))
    except (ValueError, TypeError):
        raise ServiceError("InvalidArgumentException", "Invalid ShardIterator") from None


def answer(**told: Any) -> dict[str, Any]:
    """What a call returns; ``ResponseMetadata`` is to be added."""
    return {name: value for name, value in told.items() if value is not None}


Answer = Mapping[str, Any]
