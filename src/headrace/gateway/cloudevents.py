"""CloudEvents 1.0: what surrounds an event, over HTTP and on a record.

Whatever form an event comes in, its record is the same: the data is the value, and each attribute a
header, as the binary mode of CloudEvents' Kafka binding has it (``ce_id``, ``ce_source`` ...). So a
use case reads the same bytes whether they came in an envelope or not.

Source: CloudEvents 1.0.2, its HTTP binding (3.1, 3.2), its Kafka binding (3.2), its JSON format.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote

import orjson

from headrace.gateway.events import EventFault, Header
from headrace.gateway.json_text import written

_REQUIRED = ("id", "source", "specversion", "type")
_NAME = re.compile(r"[a-z0-9]{1,64}")
_PREFIX = "ce-"
_DATA = ("data", "data_base64")
_MOST_BYTES = 8192
_JSON = "application/json"


class Envelope(NamedTuple):
    """Attributes of an event by name, in its own words; not its data."""

    attributes: Mapping[str, str]

    @property
    def key(self) -> str | None:
        """What the partitioning extension says."""
        return self.attributes.get("partitionkey") or None

    @property
    def subject(self) -> str | None:
        """What the event is about."""
        return self.attributes.get("subject") or None

    @property
    def content_type(self) -> str:
        """Media type of the data."""
        return self.attributes.get("datacontenttype") or _JSON

    def headers(self, content_type: str = "") -> list[Header]:
        """As headers of a record, whose data may be written as another type than it came."""
        found = [("content-type", (content_type or self.content_type).encode())]
        found += [
            (f"ce_{name}", value.encode())
            for name, value in self.attributes.items()
            if name != "datacontenttype"
        ]
        return found


def is_binary(headers: Mapping[str, str]) -> bool:
    """Whether the headers of a request are an envelope around its body."""
    return "ce-specversion" in headers


def of_headers(headers: Mapping[str, str], content_type: str) -> Envelope | EventFault:
    """The envelope in the headers of a request."""
    attributes = {
        # Servers read headers as Latin-1, whatever their bytes are.
        name.removeprefix(_PREFIX): unquote(value.encode("latin-1").decode("utf-8", "replace"))
        for name, value in headers.items()
        if name.startswith(_PREFIX)
    }
    return _checked({**attributes, "datacontenttype": content_type}, "header ce-{}")


def opened(value: Any) -> Envelope | EventFault:
    """The envelope of a structured event."""
    if not isinstance(value, dict):
        return EventFault(422, "bad-cloudevent", "a CloudEvent is a JSON object", "")
    attributes = {}
    for name, given in value.items():
        if name in _DATA or given is None:
            continue
        told = orjson.dumps(given).decode() if isinstance(given, bool | int) else given
        if not isinstance(told, str):
            return EventFault(
                422, "bad-cloudevent", f"attribute {name} has to be a text", f"/{name}"
            )
        attributes[name] = told
    return _checked(attributes, "attribute {}")


def data_of(value: Mapping[str, Any]) -> bytes | EventFault:
    """The data of a structured event as text; numbers are as ``value`` has them.

    Of what came in base64 nobody has looked yet whether it is JSON, or how much of it.
    """
    if "data_base64" in value and "data" in value:
        return EventFault(422, "bad-cloudevent", "data and data_base64 are both there", "/data")
    if "data_base64" in value:
        try:
            return base64.b64decode(value["data_base64"], validate=True)
        except (TypeError, ValueError, binascii.Error) as exc:
            return no_json(exc)
    if "data" not in value:
        return EventFault(422, "bad-cloudevent", "data is missing", "/data")
    return written(value["data"])


def no_json(exc: Exception) -> EventFault:
    """The fault of data in base64 that is none, or holds something else than JSON."""
    return EventFault(422, "bad-cloudevent", f"data_base64 holds no JSON: {exc}", "/data_base64")


def is_json(content_type: str) -> bool:
    """Whether a media type is JSON."""
    essence = content_type.partition(";")[0].strip().lower()
    return essence == _JSON or essence.endswith("+json")


def _checked(attributes: dict[str, str], name_it: str) -> Envelope | EventFault:
    for name in _REQUIRED:
        if not attributes.get(name):
            said = name_it.format(name)
            return EventFault(422, "bad-cloudevent", f"{said} is missing", f"/{name}")
    if attributes["specversion"] != "1.0":
        return EventFault(422, "bad-cloudevent", "specversion has to be 1.0", "/specversion")
    for name in attributes:
        if not _NAME.fullmatch(name):
            said = name_it.format(name)[:100]
            return EventFault(
                422, "bad-cloudevent", f"{said}: a name is lower-case letters and digits"
            )
    if sum(len(name) + len(value) for name, value in attributes.items()) > _MOST_BYTES:
        return EventFault(
            422, "bad-cloudevent", f"attributes have more than {_MOST_BYTES} characters"
        )
    envelope = Envelope(attributes)
    if not is_json(envelope.content_type):
        return EventFault(
            415, "bad-media-type", "datacontenttype has to be JSON", "/datacontenttype"
        )
    return envelope
