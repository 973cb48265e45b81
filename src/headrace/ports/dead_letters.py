"""Where records go that cannot be handled, so that their lane can go on without them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from headrace.model.receipts import SliceError
from headrace.model.streams import Slice
from headrace.ports.connections import Connections


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """One record as it came, and why it could not be handled."""

    slice: Slice
    #: names the record (``offset``) and holds its key, value and headers
    error: SliceError
    #: how often it was tried
    attempts: int = 1
    #: when the record was written, in milliseconds since 1970; None when nobody knows any more
    timestamp_ms: int | None = None


class DeadLetters(Protocol):
    """Keeps records aside. Used inside tasks and by operators; never by two threads at once."""

    def keep(self, letters: Sequence[DeadLetter]) -> None:
        """Keep every letter durably, in order; only then does its lane go on.

        A letter may be kept twice if the task dies after it: who reads them sees topic, partition
        and offset of each.

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
