"""A request read into events: every form that is taken, every limit, every fault.

Senders differ. A shop's script posts one JSON object, a shipper a thousand lines, an event router
CloudEvents. All of it ends as records, and the form is told by the content type alone. Reading
never raises but ``RequestRefused``: whatever bytes somebody sends, the answer names what is wrong
with them.

The order in which a partition key is looked for: header ``X-Partition-Key``, query ``?key=``, then
of each event its CloudEvents ``partitionkey``, the place that its type names, its CloudEvents
``subject``. Without any of them Kafka's client chooses a partition.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import islice
from typing import Any

import orjson

from headrace.gateway import cloudevents
from headrace.gateway.cloudevents import Envelope
from headrace.gateway.event_types import MOST_KEY_BYTES, EventType
from headrace.gateway.events import (
    Batch,
    Event,
    EventFault,
    EventLimits,
    Header,
    Item,
    Request,
    RequestRefused,
)
from headrace.gateway.json_text import (
    bad_json,
    faithful,
    is_deeper,
    named_twice,
    parsed,
    too_many_parts,
    values_in,
    written,
)
from headrace.gateway.subject_events import SubjectEvents

LINES = ("application/x-ndjson", "application/ndjson", "application/jsonl")
STRUCTURED = "application/cloudevents+json"
STRUCTURED_MANY = "application/cloudevents-batch+json"
JSON = "application/json"
#: what a request may be, as it is told to those who sent something else
MEDIA_TYPES = (JSON, *LINES, STRUCTURED, STRUCTURED_MANY)
_CHARSET = re.compile(r"charset\s*=\s*\"?([^\s;\"]+)", re.IGNORECASE)
#: a line that is not empty
_LINE = re.compile(rb"\S[^\n]*")
_TRACEPARENT = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}(?:-\S{0,64})?")
_MOST_TRACESTATE = 512
#: of so many bytes of events that do not fit it is told where: that takes long
_TOLD_BYTES = 32_768
#: and of so many values in one event, by its marks: all their faults are made at once, and no
#: thread interrupts that
_TOLD_VALUES = 200
#: and of so many faults of one request, were there one for each value and each part of the schema:
#: a tenth of a second
_TOLD_FAULTS = 10_000


def read(request: Request, kind: EventType, limits: EventLimits) -> Batch:
    """The events of a request, with a fault in the place of each that cannot be taken.

    Raises:
        RequestRefused: the request as a whole cannot be taken.
    """
    media = _media_type(request)
    reader = _Reader(request, kind, limits)
    if media in (STRUCTURED, STRUCTURED_MANY):
        value = reader.whole()
        return _structured(reader, request.body, value, many=media == STRUCTURED_MANY)
    if media in LINES:
        return reader.lines(_lines(request.body, limits.items))
    if not cloudevents.is_json(media):
        raise RequestRefused(_wrong_media(media))
    if cloudevents.is_binary(request.headers):
        return reader.one(reader.enveloped)
    value = reader.whole()
    if not isinstance(value, list):
        return reader.one(lambda: reader.event(request.body, value))
    return reader.elements(value)


def trace_headers(request: Request) -> list[Header]:
    """The sender's place in a trace (W3C Trace Context), if it is one."""
    parent = request.headers.get("traceparent", "").strip()
    if not _TRACEPARENT.fullmatch(parent):
        return []
    state = request.headers.get("tracestate", "").strip()
    found = [("traceparent", parent.encode())]
    if 0 < len(state) <= _MOST_TRACESTATE and state.isascii():
        found.append(("tracestate", state.encode()))
    return found


class _Reader:
    """Makes events of one request."""

    def __init__(self, request: Request, kind: EventType, limits: EventLimits) -> None:
        self._request = request
        self._kind = kind
        self._limits = limits
        self._key = _common_key(request)
        # All records are JSON; to say so on each would cost a tenth of storing one.
        self._trace = trace_headers(request)
        self._is_plain = not kind.looks_inside
        #: one for all of a request, whatever is found meanwhile
        self._subject = None if kind.subject is None else SubjectEvents(kind.subject, limits)
        self._faults = kind.faults if self._subject is None else self._subject.faults
        self._told_bytes, self._told_faults = _TOLD_BYTES, _TOLD_FAULTS
        #: a line that is not longer is parsed without a look at it
        self._quick_bytes = min(limits.item_bytes, limits.parts)

    def whole(self) -> Any:
        """The value of the body."""
        body = self._request.body
        value = parsed(body, self._limits.parts)
        twice = self._named_twice(body, value)
        if twice is not None:
            raise RequestRefused(twice)
        return value

    def _named_twice(self, text: bytes, value: Any) -> EventFault | None:
        """Where the text is not kept, what it says twice would be lost."""
        return None if self._subject is None else named_twice(text, value)

    def one(self, read_it: Callable[[], Item]) -> Batch:
        """A request that is one event; its fault is the request's."""
        item = read_it()
        if isinstance(item, EventFault):
            raise RequestRefused(item)
        return Batch([item], single=True)

    def lines(self, texts: list[bytes]) -> Batch:
        """The lines of NDJSON, counted already."""
        if self._is_plain and max(map(len, texts), default=0) <= self._quick_bytes:
            with suppress(orjson.JSONDecodeError):
                # A loop of Python, so that other threads get their turn in between.
                values = [orjson.loads(text) for text in texts]
                return self._plain_batch([text.strip() for text in texts], values)
        return self.batch(texts, self.line)

    def elements(self, value: list[Any]) -> Batch:
        """The elements of an array."""
        pairs = list(self.pairs(value))
        if self._is_plain:
            with suppress(orjson.JSONEncodeError):
                return self._plain_batch([orjson.dumps(kept) for kept, _ in pairs], value)
        return self.batch(pairs, self.element)

    def _plain_batch(self, texts: list[bytes], values: list[Any]) -> Batch:
        """Events without a look inside, as most are: without a call for each, which would tell."""
        most_bytes, depth = self._limits.item_bytes, self._limits.depth
        key, headers = self._key, self._trace
        return _batch(
            [
                Event(text, key, headers)
                if len(text) <= most_bytes and text.count(b"{") + text.count(b"[") <= depth
                else self.event(text, value)
                for text, value in zip(texts, values, strict=True)
            ]
        )

    def batch(self, raw: Iterable[Any], read_one: Callable[[Any], Item]) -> Batch:
        """A request of many, counted already."""
        return _batch([read_one(item) for item in raw])

    def pairs(self, value: list[Any]) -> Iterable[tuple[Any, Any]]:
        """Each element of an array: as it is to be written, and as it is to be looked at."""
        # Numbers kept as they were cost many times what it costs to parse: count first.
        if len(value) > self._limits.items:
            raise _too_many(self._limits.items)
        return zip(faithful(self._request.body, value), value, strict=True)

    def line(self, text: bytes) -> Item:
        """One line of NDJSON."""
        outsized = self._outsized(text)
        if outsized is not None:
            return outsized
        try:
            value = orjson.loads(text)
        except orjson.JSONDecodeError as exc:
            return bad_json(exc)
        return self._named_twice(text, value) or self.event(text.strip(), value)

    def element(self, pair: tuple[Any, Any]) -> Item:
        """One element of an array."""
        kept, value = pair
        text = written(kept)
        return text if isinstance(text, EventFault) else self.event(text, value)

    def enveloped(self) -> Item:
        """The body of a request whose headers are an envelope."""
        headers = self._request.headers
        envelope = cloudevents.of_headers(headers, headers["content-type"])
        return self.event(self._request.body, self.whole(), envelope)

    def opened(self, pair: tuple[Any, Any]) -> Item:
        """A structured event."""
        kept, value = pair
        envelope = cloudevents.opened(value)
        if isinstance(envelope, EventFault):
            return envelope
        data = cloudevents.data_of(kept)
        if isinstance(data, EventFault):
            return data
        if "data" in value:
            return self.event(data, value["data"], envelope)
        return self._outsized(data) or self._encoded(data, envelope)

    def _encoded(self, data: bytes, envelope: Envelope) -> Item:
        """A structured event whose data came in base64, and is not too large to be parsed."""
        try:
            value = orjson.loads(data)
        except orjson.JSONDecodeError as exc:
            return cloudevents.no_json(exc)
        return self._named_twice(data, value) or self.event(data, value, envelope)

    def event(self, text: bytes, value: Any, envelope: Envelope | EventFault | None = None) -> Item:
        """One event; ``value`` is its text, parsed."""
        # Called for each event of a batch, and nearly all are plain ones within bounds.
        if len(text) > self._limits.item_bytes:
            return self._too_large(text)
        if is_deeper(text, value, self._limits.depth):
            return EventFault(422, "too-deep", f"more than {self._limits.depth} levels of JSON")
        if envelope is None and self._is_plain:
            return Event(text, self._key, self._trace)
        return self._looked_at(text, value, envelope)

    def _looked_at(self, text: bytes, value: Any, envelope: Envelope | EventFault | None) -> Item:
        if isinstance(envelope, EventFault):
            return envelope
        values = values_in(text)
        faults = values * self._faults
        has_room = len(text) <= self._told_bytes and faults <= self._told_faults
        at_length = has_room and values <= _TOLD_VALUES
        content = self._content(text, value, at_length)
        if isinstance(content, EventFault):
            if at_length:
                self._told_bytes -= len(text)
                self._told_faults -= faults
            return content
        key = self._key_of(text, value, envelope)
        if isinstance(key, EventFault):
            return key
        if envelope is None:
            return Event(content, key, self._trace)
        written_as = "" if self._subject is None else self._subject.media
        return Event(content, key, [*envelope.headers(written_as), *self._trace])

    def _content(self, text: bytes, value: Any, at_length: bool) -> bytes | EventFault:
        """What is kept of an event, or what its schema has against it."""
        if self._subject is not None:
            return self._subject.written(text, value, at_length=at_length)
        return self._kind.fault_of(value, at_length=at_length) or text

    def _key_of(
        self, text: bytes, value: Any, envelope: Envelope | None
    ) -> bytes | EventFault | None:
        if self._key is not None:
            return self._key
        if envelope is not None and envelope.key is not None:
            return _sized(envelope.key.encode())
        if self._kind.key is not None:
            found = self._kind.key_of(value, text)
            return found if isinstance(found, EventFault) else _sized(found)
        if envelope is not None and envelope.subject is not None:
            return _sized(envelope.subject.encode())
        return None

    def _outsized(self, text: bytes) -> EventFault | None:
        """The fault of a text that is not even parsed."""
        if len(text) > self._limits.item_bytes:
            return self._too_large(text)
        return too_many_parts(text, self._limits.parts)

    def _too_large(self, text: bytes) -> EventFault:
        return EventFault(
            413,
            "event-too-large",
            f"{len(text)} bytes; an event may have at most {self._limits.item_bytes}",
        )


def _batch(items: list[Item]) -> Batch:
    if not items:
        raise RequestRefused(EventFault(422, "no-events", "there is no event in this batch"))
    return Batch(items)


def _structured(reader: _Reader, body: bytes, value: Any, *, many: bool) -> Batch:
    if not many:
        return reader.one(lambda: reader.opened((faithful(body, value), value)))
    if not isinstance(value, list):
        raise RequestRefused(
            EventFault(422, "bad-cloudevent", "a batch of CloudEvents is a JSON array", "")
        )
    return reader.batch(reader.pairs(value), reader.opened)


def _lines(body: bytes, most: int) -> list[bytes]:
    """The lines of a body that are not empty."""
    # A thousand lines and the end of the last make a thousand and one.
    split = body.split(b"\n", most + 1)
    if len(split) <= most + 1:
        lines = [line for line in split if line.strip()]
    else:
        # Perhaps millions: one by one, and no more than it takes to know that they are too many.
        lines = [match[0] for match in islice(_LINE.finditer(body), most + 1)]
    if len(lines) > most:
        raise _too_many(most)
    return lines


def _too_many(most: int) -> RequestRefused:
    said = f"more than {most} events in one request; send them in several"
    return RequestRefused(EventFault(413, "too-many-events", said))


def _media_type(request: Request) -> str:
    media = request.media_type
    if not media:
        raise RequestRefused(_wrong_media("none"))
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("identity", ""):
        raise RequestRefused(
            EventFault(
                415,
                "bad-media-type",
                f"content-encoding {encoding[:40]} is not taken; send the events as they are",
            )
        )
    charset = _CHARSET.search(request.headers["content-type"])
    if charset and charset[1].lower() not in ("utf-8", "utf8", "us-ascii"):
        raise RequestRefused(EventFault(415, "bad-media-type", "JSON has to be UTF-8"))
    return media


def _wrong_media(media: str) -> EventFault:
    return EventFault(
        415,
        "bad-media-type",
        f"content-type {media[:80]} is not taken; send one of " + ", ".join(MEDIA_TYPES),
    )


def _common_key(request: Request) -> bytes | None:
    # Servers read headers as Latin-1, whatever their bytes are.
    said = request.headers.get("x-partition-key", "").encode("latin-1")
    said = said or (request.key or "").encode()
    if not said:
        return None
    key = _sized(said)
    if isinstance(key, EventFault):
        raise RequestRefused(key)
    return key


def _sized(key: bytes) -> bytes | EventFault:
    if len(key) > MOST_KEY_BYTES:
        return EventFault(
            422, "bad-key", f"a partition key may have at most {MOST_KEY_BYTES} bytes"
        )
    return key
