"""The types of events that a gateway takes: where each goes, what it has to look like, its key.

Types are the operator's configuration. A mistake in it is met by whoever made it when the gateway
starts, and not by a tenant. What an event has to look like is told by its schema
(``event_schemas``), or by a subject of a registry (``subjects``); a type without either costs
nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import orjson

from headrace.gateway.event_schemas import EventSchema
from headrace.gateway.events import EventFault
from headrace.gateway.json_text import has_long_number, number_of_its_own, with_numbers_as_texts
from headrace.gateway.subjects import Subject
from headrace.payload.json_pointers import pointed

#: most bytes of a partition key
MOST_KEY_BYTES = 1024


@dataclass(frozen=True)
class EventType:
    """One type of event.

    Attributes:
        name: in the path of a request.
        topic: without the tenant: records go to ``<tenant>.<topic>``.
        key: JSON pointer to the partition key within an event; None: the event says none.
        schema: what its events look like; None: any JSON will do.
        subject: whose schema they are written by; None: they are kept as they are.
    """

    name: str
    topic: str
    key: str | None = None
    schema: EventSchema | None = field(default=None, repr=False)
    subject: Subject | None = None

    def topic_of(self, tenant: str) -> str:
        """Where a tenant's events go."""
        return f"{tenant}.{self.topic}"

    @property
    def looks_inside(self) -> bool:
        """Whether an event's value is needed, beyond that it is JSON."""
        return any(given is not None for given in (self.key, self.schema, self.subject))

    @property
    def faults(self) -> int:
        """How many its own schema may make of each value of an event."""
        return 1 if self.schema is None else self.schema.parts

    def fault_of(self, value: Any, *, at_length: bool) -> EventFault | None:
        """What the schema of the type has against an event; see ``EventSchema``."""
        return None if self.schema is None else self.schema.fault_of(value, at_length=at_length)

    def key_of(self, value: Any, text: bytes) -> bytes | EventFault:
        """The partition key within an event, where the type says that there is one.

        Args:
            value: the event, parsed.
            text: the same as JSON text.
        """
        assert self.key is not None, f"type {self.name} has no key"
        try:
            found = pointed(value, self.key)
        except KeyError:
            return EventFault(
                422, "no-key", f"{self.key} is missing: it is the partition key", self.key
            )
        if isinstance(found, str):
            return found.encode()
        if isinstance(found, float) and has_long_number(text):
            # The parser makes a double also of a whole number that 64 bits do not hold.
            written = pointed(with_numbers_as_texts(text), self.key)
            return number_of_its_own(written, found)
        if isinstance(found, bool | int | float):
            return orjson.dumps(found)
        return EventFault(
            422, "no-key", f"{self.key} is the partition key: give a text or a number", self.key
        )
