"""What the gateway is given, and what it makes of it: requests, events, faults.

A request holds one event or many, in one of several forms, and any one of them may be wrong while
the others are right. So reading a request ends in a list with an event or a fault for each item,
in the order they were sent; only what is wrong with the request as a whole refuses it as a whole.

Nothing here knows HTTP servers, Kafka or credentials.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

#: header of a record: its name and value
Header = tuple[str, bytes]


class Event(NamedTuple):
    """What becomes one record."""

    value: bytes
    key: bytes | None
    #: in the order they are written
    headers: list[Header]

    @property
    def size(self) -> int:
        """Bytes of key and value."""
        return len(self.value) + len(self.key or b"")


class EventFault(NamedTuple):
    """Why an item, or a whole request, was not taken."""

    #: HTTP status
    status: int
    #: stable word for programs, as in ``urn:headrace:problem:<kind>``
    kind: str
    #: for people: what is wrong and what to do
    detail: str
    #: JSON pointer to what is wrong, within the event
    pointer: str | None = None
    #: all that a schema has against it: pointer and reason
    errors: tuple[tuple[str, str], ...] = ()


class RequestRefused(Exception):
    """The request as a whole cannot be taken."""

    def __init__(self, fault: EventFault) -> None:
        super().__init__(fault.detail)
        self.fault = fault


Item = Event | EventFault


@dataclass(frozen=True, slots=True)
class EventLimits:
    """How large and deep a request may be."""

    #: most events of one request
    items: int = 1000
    #: most bytes of one event; below what a broker takes by default
    item_bytes: int = 900 * 1024
    #: most arrays and objects inside one another
    depth: int = 64
    #: most arrays, objects and members of one JSON text, by its marks
    parts: int = 300_000


@dataclass(frozen=True, slots=True)
class Request:
    """What of an HTTP request matters here.

    Attributes:
        headers: by lower-case name.
        key: partition key of the query, ``?key=``.
    """

    headers: Mapping[str, str]
    body: bytes = field(repr=False)
    key: str | None = None

    @property
    def media_type(self) -> str:
        """Content type without parameters, in lower case."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()


@dataclass(frozen=True, slots=True)
class Batch:
    """The items of a request.

    Attributes:
        single: it was one event, and is answered as one.
    """

    items: list[Item]
    single: bool = False
