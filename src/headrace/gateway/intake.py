"""Events of one tenant taken in: read, counted, stored, remembered.

Nothing is acknowledged that Kafka has not acknowledged, and what is refused is refused as early as
it can be known: an unknown type before its body is read, a rate before its events are parsed, a
missing topic before a record is made. What is not known, because Kafka did not answer in time, is
told as such, and of a request with an Idempotency-Key nothing is stored beside it: a repeat waits
for what becomes of the first, and stores what that is known not to have stored.

Who the tenant is was settled before (`doors`); how it came over HTTP is `app`'s matter.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import structlog

from headrace.connectors.kafka.ingest import Outgoing, Result, Stored
from headrace.errors import (
    BrokerUnavailable,
    ConfigError,
    HeadraceError,
    SinkRefused,
    SinkUnavailable,
    TopicMissing,
)
from headrace.gateway.event_types import EventType
from headrace.gateway.events import Batch, Event, EventFault, EventLimits, Request, RequestRefused
from headrace.gateway.idempotency import (
    Answered,
    IdempotencyMemory,
    Scope,
    Sending,
    Settled,
    fingerprint_of,
)
from headrace.gateway.rates import Rates, RequestRoom
from headrace.gateway.readers import Readers
from headrace.gateway.subjects import Subject
from headrace.model.streams import TENANT_NAME

log = structlog.get_logger(__name__)

_IDEMPOTENCY_KEY = re.compile(r"[\x21-\x7e]{1,255}")
_NO_TOPIC = "unknown-topic"
_UNKNOWN = EventFault(
    503,
    "not-acknowledged",
    "Kafka has not acknowledged it yet, so it may be stored or not; send it again with the same "
    "Idempotency-Key",
)
_NO_SCHEMA = EventFault(
    503,
    "no-schema",
    "the schema of this type is not known yet; nothing is stored, send it again, "
    "and ask the operator for it if that stays so",
)


class Records(Protocol):
    """Where records go, such as ``connectors.kafka.ingest.Ingest``."""

    async def store(self, topic: str, records: Sequence[Outgoing]) -> list[Result]:
        """Store records in order; a result for each."""

    def begin(self, topic: str, records: Sequence[Outgoing]) -> Sending:
        """Store some records in order, and go on with each until its fate is known."""

    async def close(self) -> None:
        """Wait for what is under way."""


class Generations(Protocol):
    """Which of the tenants of a name there is now."""

    async def __call__(self, tenant: str, *, anew: bool = False) -> int:
        """Its number, as it was said some seconds ago, or ``anew``."""


class KnownTopics(Protocol):
    """Which topics there are, such as ``connectors.kafka.ingest_topics.IngestTopics``."""

    async def is_there(self, topic: str) -> bool:
        """Whether it is; ``BrokerUnavailable`` if nobody knows."""

    def forget(self, topic: str) -> None:
        """It is gone, as somebody found."""

    async def broker_answers(self) -> bool:
        """Whether anybody does."""

    def close(self) -> None:
        """Give up connections."""


@dataclass(frozen=True)
class IntakeRules:
    """What is taken, and how much of it."""

    types: Mapping[str, EventType]
    limits: EventLimits
    rates: Rates
    room: RequestRoom
    memory: IdempotencyMemory

    @property
    def subjects(self) -> dict[str, Subject]:
        """By type, those whose schemas events are written by."""
        return {name: kind.subject for name, kind in self.types.items() if kind.subject is not None}


class Taken(NamedTuple):
    """What became of a request."""

    batch: Batch
    topic: str
    #: by item
    outcomes: list[Stored | EventFault]
    #: some of it was stored by an earlier request with the same Idempotency-Key
    replayed: bool
    #: what it sent with an Idempotency-Key, which may go on after the answer
    sending: Sending | None = None


class Intake:
    """The whole way of a request. For one event loop."""

    def __init__(
        self,
        rules: IntakeRules,
        records: Records,
        topics: KnownTopics,
        generation: Generations,
    ) -> None:
        self._rules = rules
        self._generation = generation
        self._records = records
        self._topics = topics
        self._readers = Readers()

    def kind(self, name: str) -> EventType:
        """The type of this name; ``RequestRefused`` without one, or without its schema."""
        found = self._rules.types.get(name)
        if found is None:
            known = ", ".join(sorted(self._rules.types)) or "none"
            raise RequestRefused(
                EventFault(404, "unknown-type", f"there is no such type of event; known: {known}")
            )
        if found.subject is not None and found.subject.known is None:
            raise RequestRefused(_NO_SCHEMA)
        return found

    async def take(self, tenant: str, kind: EventType, request: Request) -> Taken:
        """Read the events of a request and store them.

        Raises:
            RequestRefused: nothing of it is taken.
            HeadraceError: nobody knows whether the topic is there.
        """
        if not TENANT_NAME.fullmatch(tenant):
            raise RequestRefused(EventFault(403, "no-tenant", "this credential names no tenant"))
        key = _idempotency_key(request)
        self._rules.rates.spend_bytes(tenant, len(request.body))
        batch = await self._read(tenant, kind, request, key)
        self._rules.rates.spend_records(tenant, len(batch.items))
        topic = kind.topic_of(tenant)
        if not await self._topics.is_there(topic):
            raise RequestRefused(_no_topic(kind.name))
        if key is None:
            outcomes = await self._stored(kind, topic, batch.items)
            return Taken(batch, topic, outcomes, replayed=False)
        return await self._once(await self._scope(tenant, kind, key), kind, request, batch)

    async def _scope(self, tenant: str, kind: EventType, key: str) -> Scope:
        """Whose a key is. What is remembered of one is answered to the customer of this moment."""
        scope = tenant, kind.name, key, await self._generation(tenant)
        if not self._rules.memory.knows(scope):
            return scope
        return tenant, kind.name, key, await self._generation(tenant, anew=True)

    async def _read(self, tenant: str, kind: EventType, request: Request, key: str | None) -> Batch:
        """The events of a request; of one sent twice also where a schema has changed since."""
        try:
            return await self._readers.read(tenant, request, kind, self._rules.limits)
        except RequestRefused as refused:
            if kind.subject is None or key is None:
                raise
            if not self._rules.memory.knows(await self._scope(tenant, kind, key)):
                raise
            return Batch([refused.fault], single=True)

    async def _once(self, scope: Scope, kind: EventType, request: Request, batch: Batch) -> Taken:
        """Store what an earlier request of the same key did not."""
        tenant, _, key, _ = scope
        memory, topic = self._rules.memory, kind.topic_of(tenant)
        now_s = time.monotonic()
        entry = memory.begin(scope, fingerprint_of(request), now_s, len(batch.items))
        settled, sent = entry.results or [None] * len(batch.items), None
        try:
            outcomes = await self._fates(entry, settled, kind, topic)
            replayed = any(isinstance(outcome, Stored) for outcome in settled)
            if entry.sending is None:
                items = zip(settled, _marked(batch, key), strict=True)
                tried = [item if before is None else before for before, item in items]
                sent = self._send(entry, tried, topic)
                settled[:] = [None if isinstance(outcome, Event) else outcome for outcome in tried]
                outcomes = await self._fates(entry, settled, kind, topic)
        finally:
            memory.end(scope, entry, settled)
        return Taken(batch, topic, outcomes, replayed, sent)

    def _send(
        self, entry: Answered, items: Sequence[Event | EventFault | Stored], topic: str
    ) -> Sending | None:
        events = {number: item for number, item in enumerate(items) if isinstance(item, Event)}
        if events:
            entry.sending = self._records.begin(topic, list(events.values()))
            entry.numbers = list(events)
        return entry.sending

    async def _fates(
        self, entry: Answered, settled: list[Settled], kind: EventType, topic: str
    ) -> list[Stored | EventFault]:
        """Wait for what is on its way, and settle what is known of it; an outcome for each item."""
        outcomes = [_UNKNOWN if outcome is None else outcome for outcome in settled]
        if entry.sending is None:
            return outcomes
        await entry.sending.wait()
        for number, result in zip(entry.numbers, entry.sending.results, strict=True):
            if result is None:
                continue
            outcome = result if isinstance(result, Stored) else self._told(result, kind, topic)
            outcomes[number] = outcome
            settled[number] = None if _may_pass(outcome) else outcome
        if not entry.is_open:
            entry.sending = None
        return outcomes

    async def _stored(
        self, kind: EventType, topic: str, items: Sequence[Event | EventFault | Stored]
    ) -> list[Stored | EventFault]:
        """Store the events among the items; what is something else stays as it is."""
        events = [item for item in items if isinstance(item, Event)]
        fates = [
            error if isinstance(error, Stored) else self._told(error, kind, topic)
            for error in await self._records.store(topic, events)
        ]
        if len(fates) == len(items):
            return fates
        of_events = iter(fates)
        return [next(of_events) if isinstance(item, Event) else item for item in items]

    def _told(self, error: HeadraceError, kind: EventType, topic: str) -> EventFault:
        if isinstance(error, TopicMissing):
            self._topics.forget(topic)
            return _no_topic(kind.name)
        return _fault_of(error, topic)


def _fault_of(error: HeadraceError, topic: str) -> EventFault:
    match error:
        case SinkRefused():
            return EventFault(422, "refused", str(error))
        case BrokerUnavailable():
            return EventFault(503, _UNKNOWN.kind, str(error))
        case SinkUnavailable():
            return EventFault(503, "busy", f"{error}; it is not stored, send it again")
        case ConfigError():
            log.error("kafka refuses records", topic=topic, error=str(error))
    return EventFault(503, "unavailable", "the gateway cannot store this; its operator has to help")


def _marked(batch: Batch, key: str) -> list[Event | EventFault]:
    """The items with the key as a header, by which whoever reads them knows one sent twice."""
    return [
        item._replace(
            headers=[
                *item.headers,
                ("idempotency-key", (key if batch.single else f"{key}/{number}").encode()),
            ]
        )
        if isinstance(item, Event)
        else item
        for number, item in enumerate(batch.items)
    ]


def _may_pass(outcome: Stored | EventFault) -> bool:
    # A topic that is missing may be made meanwhile. What may be stored is never tried again.
    if not isinstance(outcome, EventFault) or outcome.kind == _UNKNOWN.kind:
        return False
    return outcome.status == 503 or outcome.kind == _NO_TOPIC


def _idempotency_key(request: Request) -> str | None:
    key = request.headers.get("idempotency-key")
    if key is not None and not _IDEMPOTENCY_KEY.fullmatch(key):
        raise RequestRefused(
            EventFault(
                422,
                "bad-idempotency-key",
                "an Idempotency-Key has 1 to 255 printable ASCII characters, no spaces",
            )
        )
    return key


def _no_topic(kind: str) -> EventFault:
    return EventFault(
        404,
        _NO_TOPIC,
        f"this tenant has no topic for events of type {kind}; its operator makes it",
    )
