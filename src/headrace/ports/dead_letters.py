"""Where records go that cannot be handled, so that their lane can go on without them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Protocol

from headrace.model.places import Place
from headrace.model.receipts import SliceError
from headrace.model.streams import LaneId, Slice
from headrace.ports.connections import Connections


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """One record as it came, and why it could not be handled."""

    slice: Slice
    #: names the record (``offset``) and holds its key, value, headers and timestamp
    error: SliceError
    #: how often it was tried
    attempts: int = 1

    @property
    def named(self) -> tuple[LaneId, str, int, Place | None, bytes]:
        """What tells this record from every other: equal for two letters of one record.

        A lane passes a record once in an epoch, so a later epoch names it anew.
        """
        piece, error = self.slice, self.error
        record = (error.timestamp_ms, error.raw_key, error.raw_value, error.raw_headers)
        # Of a log that was cut and went on, another record may have the same offset.
        digest = blake2b(repr(record).encode(), digest_size=16).digest()
        return piece.lane, piece.topic, piece.epoch, error.offset, digest


class DeadLetters(Protocol):
    """Keeps records aside, inside tasks, beside a driver's turns, and for operators.

    Never called by two threads at once.
    """

    def keep(self, letters: Sequence[DeadLetter]) -> None:
        """Keep every letter durably, in order; only then does its lane go on.

        A slice is tried again and again while its sink is down, and its letters come anew each
        time. One that is named (``named``) like one that these dead letters kept is there already,
        and is not kept again; so it is for the last 10,000. Other processes do not know of it: a
        letter may be there once for each that tried the slice, and who reads them sees topic,
        partition, offset and timestamp of each record.

        Raises:
            BrokerUnavailable: some may not be kept; the lane must not go on.
            ConfigError: the same, until somebody changes a right or a limit.
        """

    def ready(self, topic: str) -> bool:
        """Whether the next letter of a source topic is kept at once.

        False if something would have to be made or asked about first, which can take a second.
        Contacts nobody.
        """

    def close(self) -> None:
        """Give up connections. Nothing is called after it."""


class DeadLettersFactory(Protocol):
    """Opens the dead letters inside a task. Travels to the tasks by pickle."""

    def open(self, connections: Connections) -> DeadLetters:
        """Called at most once per worker for equal connections; must not contact anybody yet."""
