"""Events of a type that names a subject: each written by its schema, behind the id of that.

The request is read by one schema from its beginning to its end, whichever is found meanwhile. How
an event is checked and written is up to the language of the schema (``subject_writers``).
"""

from __future__ import annotations

from typing import Any

from headrace.gateway.events import EventFault, EventLimits
from headrace.gateway.subjects import Subject


class SubjectEvents:
    """Writes the events of one request."""

    def __init__(self, subject: Subject, limits: EventLimits) -> None:
        """Take whose schema it is, which is known."""
        assert subject.known is not None, f"{subject.name} has a schema where events are read"
        self._by, self._most_bytes = subject.known, limits.item_bytes
        #: what records hold, where they say what they hold
        self.media = self._by.writer.media
        #: how many may be made of each value of an event
        self.faults = self._by.writer.weight.parts

    def written(self, text: bytes, value: Any, *, at_length: bool = True) -> bytes | EventFault:
        """One event; ``value`` is its text, parsed. ``at_length``: tell the first few faults."""
        made = self._by.writer.written(text, value, at_length=at_length)
        if isinstance(made, EventFault):
            return made
        if len(made) > self._most_bytes:
            told = f"{len(made)} bytes as {self._by.writer.told}; an event may have at most "
            return EventFault(413, "event-too-large", f"{told}{self._most_bytes}")
        return self._by.prefix + made
