"""What writes the events of a subject: each language of schemas has one.

An event is checked and written in one go, and what does not fit is the fault that its sender is
told, with the place in the event. What an event is in Avro is told in ``formats/avro/plain_json``;
in JSON it is the text as it came, which the schema takes with all digits of its numbers; of
Protobuf it is told in ``formats/protobuf/json_events``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from headrace.errors import ConfigError
from headrace.formats.avro.json_values import Misfit
from headrace.formats.avro.plain_json import JsonWriter, json_writer
from headrace.formats.json_judge import exactly, judge_by
from headrace.formats.json_weight import Weight
from headrace.gateway.event_schemas import EventSchema
from headrace.gateway.events import EventFault
from headrace.gateway.json_text import exact
from headrace.payload.json_pointers import pointer_of
from headrace.ports import SchemaKind, WrittenSchema

if TYPE_CHECKING:
    from headrace.formats.protobuf.json_events import MessageWriter

#: characters of a schema, with all that it refers to
_MOST_TEXT = 1024 * 1024
#: which message of a file it is, behind the id of the schema
_FIRST_MESSAGE = b"\0"
#: of what is written as fast as it is read
_NONE = Weight(0, 0)


class EventWriter(Protocol):
    """Writes events by one schema."""

    #: how messages call what is written
    told: ClassVar[str]
    #: what records hold, where they say what they hold
    media: ClassVar[str]

    @property
    def weight(self) -> Weight:
        """What is asked of each value, beyond what any schema asks."""

    @property
    def message(self) -> str:
        """Which of a schema's messages is written; empty where there is but one."""

    def written(self, text: bytes, value: Any, *, at_length: bool) -> bytes | EventFault:
        """One event; ``value`` is its text, parsed. ``at_length``: tell the first few faults."""


@dataclass(frozen=True, slots=True)
class AvroEvents:
    """As Avro."""

    writer: JsonWriter
    told: ClassVar[str] = "Avro"
    media: ClassVar[str] = "application/avro"
    weight: ClassVar[Weight] = _NONE
    message: ClassVar[str] = ""

    def written(self, text: bytes, value: Any, *, at_length: bool) -> bytes | EventFault:
        """The first misfit alone is told."""
        del at_length
        try:
            return self.writer.written(exact(text, value), len(text))
        except Misfit as misfit:
            return _fault(misfit)


@dataclass(frozen=True, slots=True)
class JsonEvents:
    """As the JSON that came."""

    schema: EventSchema
    #: of the schema, for each value of an event
    weight: Weight
    told: ClassVar[str] = "JSON"
    media: ClassVar[str] = "application/json"
    message: ClassVar[str] = ""

    def written(self, text: bytes, value: Any, *, at_length: bool) -> bytes | EventFault:
        """The text, if the schema takes it."""
        del value
        if told := self.weight.refusal(text):
            return EventFault(422, "not-valid", f"the event: {told}", "", (("", told),))
        return self.schema.fault_of(exactly(text), at_length=at_length) or text


@dataclass(frozen=True, slots=True)
class ProtobufEvents:
    """As the first message of a file of Protobuf."""

    writer: MessageWriter
    told: ClassVar[str] = "Protobuf"
    media: ClassVar[str] = "application/protobuf"
    weight: ClassVar[Weight] = _NONE

    @property
    def message(self) -> str:
        """The first one."""
        return self.writer.name

    def written(self, text: bytes, value: Any, *, at_length: bool) -> bytes | EventFault:
        """Behind the place of the message; the first misfit alone is told."""
        del at_length
        try:
            return _FIRST_MESSAGE + self.writer.written(exact(text, value))
        except Misfit as misfit:
            return _fault(misfit)


def writer_of(schema: WrittenSchema) -> EventWriter:
    """What writes events by a schema.

    Raises:
        ConfigError: it is none, or none that one writes by.
    """
    if len(schema.text) + sum(len(text) for _, text in schema.references) > _MOST_TEXT:
        raise ConfigError(f"a schema has at most {_MOST_TEXT} characters, with what it refers to")
    match schema.kind:
        case SchemaKind.AVRO:
            return AvroEvents(json_writer(schema.text, schema.references))
        case SchemaKind.JSON:
            judge = judge_by(schema)
            return JsonEvents(EventSchema(judge.validator, judge.weight.parts), judge.weight)
        case SchemaKind.PROTOBUF:
            return _protobuf(schema)


def _protobuf(schema: WrittenSchema) -> ProtobufEvents:
    if schema.references:
        raise ConfigError(f"its file imports {schema.references[-1][0]}; put both into one")
    try:
        # Its library is asked for where such a schema is met.
        from headrace.formats.protobuf.json_events import message_writer  # noqa: PLC0415
    except ImportError as error:
        told = f"{error.name} is missing: pip install 'headrace[protobuf]'"
        raise ConfigError(told) from error
    return ProtobufEvents(message_writer(schema.text))


def _fault(misfit: Misfit) -> EventFault:
    pointer = pointer_of(reversed(misfit.path))
    told = f"{pointer or 'the event'}: {misfit.reason}"
    return EventFault(422, "not-valid", told, pointer, ((pointer, misfit.reason),))
