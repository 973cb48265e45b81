"""What decisions need besides the store: the logs, reached only when one is made."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from typing import Protocol

from headrace.connectors.by_topic import open_log
from headrace.connectors.kafka import KafkaDeadLettersFactory
from headrace.connectors.kafka.redrive import Redriven, redrive
from headrace.model.streams import StreamId
from headrace.ports import Connections, DeadLetters, Log


class DecisionTools(Protocol):
    """Opens what a decision needs, for one decision. Safe in several threads."""

    def log(self) -> AbstractContextManager[Log]:
        """What is in the logs that are read."""

    def letters(self) -> AbstractContextManager[DeadLetters]:
        """Where records are set aside."""

    def send_back(
        self, stream: StreamId, topic: str, *, generation: int, limit: int | None, dry_run: bool
    ) -> Redriven:
        """Send dead letters back, as ``headrace.connectors.kafka.redrive.redrive``."""


@dataclass(frozen=True, slots=True)
class KafkaTools:
    """``DecisionTools`` on a real cluster."""

    connections: Connections

    @contextmanager
    def log(self) -> Iterator[Log]:
        """What is in the logs that are read."""
        with closing(open_log(self.connections, asks_once=True)) as log:
            yield log

    @contextmanager
    def letters(self) -> Iterator[DeadLetters]:
        """Where records are set aside."""
        with closing(KafkaDeadLettersFactory().open(self.connections)) as letters:
            yield letters

    def send_back(
        self, stream: StreamId, topic: str, *, generation: int, limit: int | None, dry_run: bool
    ) -> Redriven:
        """Send dead letters back, each once."""
        return redrive(
            self.connections, stream, topic, generation=generation, limit=limit, dry_run=dry_run
        )
