"""What an event has to look like: a JSON Schema, and what it has against an event.

A schema is compiled once, with all its references resolved, and nothing is ever fetched from the
network for it.

Who sends an event chooses what is held against the schema. With a pattern that is tried in every
way (``(a+)+$``), with values compared each with each, or with a message for each of a hundred
thousand faults, one event would take seconds from everybody. So patterns are such that are matched
in linear time, which leaves out looking around and back references, what compares and divides is
our own (`formats/json_keywords.py`), and what is told is bounded.

Validation is by ``jsonschema-rs`` and costs less than a microsecond for a small event, and one more
for each value that has to be unique or a multiple.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import Any

import jsonschema_rs

from headrace.errors import ConfigError
from headrace.formats.json_keywords import KEYWORDS
from headrace.formats.json_weight import weight_of
from headrace.gateway.events import EventFault
from headrace.payload.json_pointers import pointer_of

#: what is told of one event; the first few say enough
_MOST_ERRORS = 10
_MOST_REASON = 200
#: of a schema whose faults are told; far more than anybody writes
_MOST_PARTS = 1_000_000
#: where more is not told
UNTOLD = (("", "it does not fit the schema of its type"),)


@dataclass(frozen=True)
class EventSchema:
    """A schema, and how much it may have against an event."""

    validator: jsonschema_rs.Validator
    #: faults that each value may have; 0: none is told, since it may refer to itself: twice at a
    #: level, and each is told within each below it
    parts: int

    def errors(self, value: Any) -> tuple[tuple[str, str], ...]:
        """The first few faults of a value that is not valid: place and reason."""
        if not self.parts:
            return UNTOLD
        try:
            return tuple(map(_told, islice(self.validator.iter_errors(value), _MOST_ERRORS)))
        except ValueError:  # more than 255 levels are judged, and not told
            return UNTOLD

    def fault_of(self, value: Any, *, at_length: bool) -> EventFault | None:
        """What it has against an event.

        Args:
            value: the event, parsed.
            at_length: tell the first few faults, with their places. To tell some all are made, at
                five microseconds each, and a value may have as many as there are parts.
        """
        if self.validator.is_valid(value):
            return None
        errors = self.errors(value) if at_length else UNTOLD
        pointer, reason = errors[0]
        return EventFault(422, "not-valid", f"{pointer or 'the event'}: {reason}", pointer, errors)


def compiled(schema: object, source: str) -> EventSchema:
    """A JSON Schema, ready to be asked.

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
        validator = jsonschema_rs.validator_for(
            schema,
            offline=True,
            pattern_options=linear,
            validate_formats=False,
            keywords=dict(KEYWORDS),
        )
    except jsonschema_rs.ValidationError as error:
        raise ConfigError(f"{source} {_refused(error)}") from error
    weight = weight_of(schema, {}, _MOST_PARTS)
    return EventSchema(validator, 0 if weight is None else weight.parts)


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
