"""The types of events that a gateway takes: where each goes, what it has to look like, its key.

Types are the operator's configuration. A schema is compiled once, when the gateway starts, with all
its references resolved, so that a mistake in it is met by whoever made it and not by a tenant; and
nothing is ever fetched from the network for it.

Who sends an event chooses what is held against the schema. With a pattern that is tried in every
way (``(a+)+$``), with values compared each with each, or with a message for each of a hundred
thousand faults, one event would take seconds from everybody. So patterns are such that are matched
in linear time, which leaves out looking around and back references, and what is told is bounded.

Validation is by ``jsonschema-rs`` and costs less than a microsecond for a small event; a type
without a schema costs nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import jsonschema_rs
import orjson

from headrace.errors import ConfigError
from headrace.gateway.events import EventFault
from headrace.payload.json_pointers import pointed, pointer_of

#: what is told of one event; the first few say enough
_MOST_ERRORS = 10
_MOST_REASON = 200
#: most bytes of a partition key
MOST_KEY_BYTES = 1024


@dataclass(frozen=True)
class EventType:
    """One type of event.

    Attributes:
        name: in the path of a request.
        topic: without the tenant: records go to ``<tenant>.<topic>``.
        key: JSON pointer to the partition key within an event; None: the event says none.
        validator: of its schema; None: any JSON will do.
    """

    name: str
    topic: str
    key: str | None = None
    validator: jsonschema_rs.Validator | None = field(default=None, repr=False)

    def topic_of(self, tenant: str) -> str:
        """Where a tenant's events go."""
        return f"{tenant}.{self.topic}"

    @property
    def looks_inside(self) -> bool:
        """Whether an event's value is needed, beyond that it is JSON."""
        return self.key is not None or self.validator is not None

    def fault_of(self, value: Any, *, at_length: bool) -> EventFault | None:
        """What the schema has against an event.

        Args:
            value: the event, parsed.
            at_length: tell the first few faults; else the first. To tell some all are made, at
                five microseconds each, and a value may have very many.
        """
        if self.validator is None or self.validator.is_valid(value):
            return None
        errors = self._errors(value, at_length=at_length)
        pointer, reason = errors[0]
        return EventFault(422, "not-valid", f"{pointer or 'the event'}: {reason}", pointer, errors)

    def _errors(self, value: Any, *, at_length: bool) -> tuple[tuple[str, str], ...]:
        assert self.validator is not None, "asked of what is not valid"
        if at_length:
            return tuple(map(_told, islice(self.validator.iter_errors(value), _MOST_ERRORS)))
        try:
            self.validator.validate(value)
        except jsonschema_rs.ValidationError as error:
            return (_told(error),)
        raise AssertionError("what is not valid has an error")

    def key_of(self, value: Any) -> bytes | EventFault:
        """The partition key within an event, where the type says that there is one."""
        assert self.key is not None, f"type {self.name} has no key"
        try:
            found = pointed(value, self.key)
        except KeyError:
            return EventFault(
                422, "no-key", f"{self.key} is missing: it is the partition key", self.key
            )
        if isinstance(found, str):
            return found.encode()
        if isinstance(found, bool | int | float):
            return orjson.dumps(found)
        return EventFault(
            422, "no-key", f"{self.key} is the partition key: give a text or a number", self.key
        )


def compiled(schema: object, source: str) -> jsonschema_rs.Validator:
    """A validator for a JSON Schema.

    Args:
        schema: the schema, parsed.
        source: the name of its file, for messages.

    Raises:
        ConfigError: it is no schema, has a pattern that is not matched in linear time, or refers to
            something that it does not hold.
    """
    if not isinstance(schema, dict):
        raise ConfigError(f"{source} is no JSON Schema: an object is expected")
    linear = jsonschema_rs.RegexOptions()
    try:
        return jsonschema_rs.validator_for(
            schema, offline=True, pattern_options=linear, validate_formats=False
        )
    except jsonschema_rs.ValidationError as error:
        raise ConfigError(f"{source} {_refused(error)}") from error


def _refused(error: jsonschema_rs.ValidationError) -> str:
    message, where = error.message, pointer_of(iter(error.instance_path)) or "the whole"
    if isinstance(error.kind, jsonschema_rs.ValidationErrorKind.Referencing):
        return (
            f"refers to something that is not in it ({message}); nothing is fetched from "
            "elsewhere, so put it under $defs"
        )
    if isinstance(error.kind, jsonschema_rs.ValidationErrorKind.Format):
        return (
            f"has a pattern that cannot be used, at {where}: {message}; patterns are those that "
            "match in linear time: no (?=...), (?<=...), (?!...), (?<!...) and no back references"
        )
    return f"is no JSON Schema: {where}: {message}"


def _told(error: jsonschema_rs.ValidationError) -> tuple[str, str]:
    reason = error.message
    if len(reason) > _MOST_REASON:
        # The message begins with the value itself, which may be long and is the sender's own.
        reason = f"it fails {pointer_of(iter(error.schema_path))[:_MOST_REASON]} of its schema"
    return pointer_of(iter(error.instance_path)), reason
