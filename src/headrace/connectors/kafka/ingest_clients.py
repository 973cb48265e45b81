"""The clients of Kafka through which records of strangers go, and what becomes of one that broke.

A client numbers its records, and brokers know a record by its number however often it comes. When
one record of a client fails for good, such as one that its topic refuses, the client numbers all
that follow anew, those of other tenants too: what a broker that hangs has in hand already would
then be stored beside itself. So a client that keeps its promise breaks instead
(``enable.gapless.guarantee``). What it had under way ends by itself or is given up, with an unknown
outcome, and is sent by nobody again; another client goes on.

That one topic refuses must not cost the others twice. Whoever asks keeps topics that have refused a
record apart, on a client of their own, and of that kind there is one at a time: records wait for
nobody, they are refused while the last one ends. So there are never many.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum

import structlog
from confluent_kafka import KafkaError, Producer

from headrace.connectors.kafka.clients import BROKEN, opened
from headrace.connectors.kafka.faults import first_error

log = structlog.get_logger(__name__)


class ProducerKind(StrEnum):
    """What a client is for."""

    #: gives a record up when its sender is answered
    PROMPT = "prompt"
    #: gives nothing up
    PATIENT = "patient"
    #: gives nothing up, for topics that have refused a record
    APART = "apart"


@dataclass(slots=True)
class Health:
    """Whether a client is broken for good. Apart from it: it would hold itself in memory."""

    broken: bool = False

    def note(self, error: KafkaError) -> None:
        """Called by the client, and an exception would come out of its next poll."""
        self.broken = self.broken or error.fatal()
        with suppress(OSError, ValueError):
            log.warning("kafka client", error=error.str())


@dataclass(slots=True)
class IngestClient:
    """One of them."""

    kind: ProducerKind
    producer: Producer
    health: Health
    #: when what it has is given up; None: it is not broken
    give_up_s: float | None = None
    #: topics and partitions of which a broker knows its numbers, and so takes nothing out of turn
    numbered: set[tuple[str, int]] = field(default_factory=set)

    def poll(self) -> None:
        """Let it tell what became of records."""
        try:
            self.producer.poll(0)
        except BROKEN as exc:
            # Nothing that it raises is about one record; their reports come with the next poll.
            self.health.note(first_error(exc))


@dataclass(slots=True)
class IngestClients:
    """One of each kind, made when it is asked for first, and those that are ending."""

    settings: Callable[[ProducerKind], Mapping[str, str]]
    #: how long one that broke is waited for
    patience_s: float
    _by_kind: dict[ProducerKind, IngestClient] = field(default_factory=dict)
    _ending: list[IngestClient] = field(default_factory=list)

    def __iter__(self) -> Iterator[IngestClient]:
        yield from (*self._by_kind.values(), *self._ending)

    def of(self, kind: ProducerKind, now_s: float) -> IngestClient | None:
        """The client of a kind; None while the last one apart ends.

        Raises:
            ConfigError: a property is refused.
        """
        self.sort_out(now_s)
        found = self._by_kind.get(kind)
        if found is None and not (kind is ProducerKind.APART and _has(self._ending, kind)):
            found = self._by_kind[kind] = self._opened(kind)
        return found

    def sort_out(self, now_s: float) -> None:
        """Take broken ones out of use, and let go those that have nothing under way any more."""
        for client in [client for client in self._by_kind.values() if client.health.broken]:
            client.give_up_s = now_s + self.patience_s
            self._ending.append(self._by_kind.pop(client.kind))
        for client in self._ending:
            if client.give_up_s is not None and now_s >= client.give_up_s:
                client.producer.purge()
        if self._ending:
            self._ending = [client for client in self._ending if len(client.producer)]

    def _opened(self, kind: ProducerKind) -> IngestClient:
        health = Health()
        producer = opened(Producer, self.settings(kind), error_cb=health.note)
        return IngestClient(kind, producer, health)


def _has(clients: Iterable[IngestClient], kind: ProducerKind) -> bool:
    return any(client.kind is kind for client in clients)
