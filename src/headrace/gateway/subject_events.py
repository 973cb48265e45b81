"""Events of a type that names a subject: each written as Avro behind the id of its schema.

The request is read by one schema from its beginning to its end, whichever is found meanwhile. What
an event is in Avro, and what is refused, is told in ``formats/avro/plain_json.py``; here a refusal
becomes the fault that a sender is told, with the place in the event.
"""

from __future__ import annotations

from typing import Any

from headrace.formats.avro.json_values import Misfit
from headrace.gateway.events import EventFault, EventLimits
from headrace.gateway.json_text import exact
from headrace.gateway.subjects import Subject
from headrace.payload.json_pointers import pointer_of

#: what such records hold, where they say what they hold
AVRO = "application/avro"


class SubjectEvents:
    """Writes the events of one request."""

    def __init__(self, subject: Subject, limits: EventLimits) -> None:
        """Take whose schema it is, which is known."""
        assert subject.known is not None, f"{subject.name} has a schema where events are read"
        self._by, self._most_bytes = subject.known, limits.item_bytes

    def written(self, text: bytes, value: Any) -> bytes | EventFault:
        """One event; ``value`` is its text, parsed."""
        try:
            made = self._by.writer.written(exact(text, value), len(text))
        except Misfit as misfit:
            return _fault(misfit)
        if len(made) > self._most_bytes:
            told = f"{len(made)} bytes as Avro; an event may have at most {self._most_bytes}"
            return EventFault(413, "event-too-large", told)
        return self._by.prefix + made


def _fault(misfit: Misfit) -> EventFault:
    pointer = pointer_of(reversed(misfit.path))
    told = f"{pointer or 'the event'}: {misfit.reason}"
    return EventFault(422, "not-valid", told, pointer, ((pointer, misfit.reason),))
