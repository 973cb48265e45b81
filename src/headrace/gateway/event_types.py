"""The types of events that a gateway takes: where each goes, what it has to look like, its key.

Types are the operator's configuration. A schema is compiled once, when the gateway starts, with all
its references resolved, so that a mistake in it is met by whoever made it and not by a tenant; and
nothing is ever fetched from the network for it.

Validation is by ``jsonschema`` and costs some ten microseconds an event and more; a type without a
schema costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson
from jsonschema import SchemaError, ValidationError
from jsonschema.protocols import Validator
from jsonschema.validators import Draft202012Validator, extend, validator_for
from referencing import Registry
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012

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
    validator: Validator | None = field(default=None, repr=False)

    def topic_of(self, tenant: str) -> str:
        """Where a tenant's events go."""
        return f"{tenant}.{self.topic}"

    @property
    def looks_inside(self) -> bool:
        """Whether an event's value is needed, beyond that it is JSON."""
        return self.key is not None or self.validator is not None

    def fault_of(self, value: Any) -> EventFault | None:
        """What the schema has against an event."""
        if self.validator is None:
            return None
        try:
            found = [
                error
                for error, _ in zip(
                    self.validator.iter_errors(value), range(_MOST_ERRORS), strict=False
                )
            ]
        except (RecursionError, ArithmeticError) as exc:
            return EventFault(
                422, "not-valid", f"the event cannot be held against its schema: {exc}"
            )
        if not found:
            return None
        errors = tuple(map(_told, sorted(found, key=lambda error: list(map(str, error.path)))))
        pointer, reason = errors[0]
        return EventFault(422, "not-valid", f"{pointer or 'the event'}: {reason}", pointer, errors)

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


def compiled(schema: object, source: str) -> Validator:
    """A validator for a JSON Schema.

    Args:
        schema: the schema, parsed.
        source: the name of its file, for messages.

    Raises:
        ConfigError: it is no schema, or refers to something that it does not hold.
    """
    if not isinstance(schema, dict):
        raise ConfigError(f"{source} is no JSON Schema: an object is expected")
    kind = validator_for(schema, default=Draft202012Validator)
    try:
        kind.check_schema(schema)
        resource = DRAFT202012.create_resource(schema)
        registry: Registry[Any] = Registry().with_resource("", resource).crawl()
        for reference in _references(schema):
            _look_up(registry, reference, source)
    except SchemaError as exc:
        where = pointer_of(iter(exc.path)) or "the whole"
        raise ConfigError(f"{source} is no JSON Schema: {where}: {exc.message}") from exc
    made: type[Validator] = extend(kind, {"uniqueItems": _unique})  # type: ignore[no-untyped-call]
    return made(schema, registry=registry)


def _look_up(registry: Registry[Any], reference: str, source: str) -> None:
    try:
        registry.resolver().lookup(reference)
    except Unresolvable as exc:
        raise ConfigError(
            f"{source} refers to {reference}, which is not in it; nothing is fetched from "
            "elsewhere, so put it under $defs"
        ) from exc


def _references(schema: object) -> Iterator[str]:
    if isinstance(schema, Mapping):
        for name, value in schema.items():
            if name == "$ref" and isinstance(value, str):
                yield value
            else:
                yield from _references(value)
    elif isinstance(schema, list):
        for item in schema:
            yield from _references(item)


def _unique(
    _validator: Validator, wanted: object, value: Any, _schema: object
) -> Iterator[ValidationError]:
    """``uniqueItems``; the library's compares each object with each, which may take a minute."""
    is_asked = wanted is True and isinstance(value, list)
    if is_asked and len(set(map(_hashable, value))) < len(value):
        yield ValidationError(f"{value!r} has non-unique elements")


def _hashable(value: Any) -> Any:
    """Equal for values that JSON Schema has for equal: 1 is 1.0, and not true."""
    if isinstance(value, bool):
        return (bool, value)
    if isinstance(value, dict):
        return (dict, frozenset((name, _hashable(inner)) for name, inner in value.items()))
    if isinstance(value, list):
        return (list, tuple(map(_hashable, value)))
    return value


def _told(error: ValidationError) -> tuple[str, str]:
    reason = error.message
    if len(reason) > _MOST_REASON:
        # The message begins with the value itself, which may be long and is the sender's own.
        reason = f"it fails {error.validator}: {str(error.validator_value)[:_MOST_REASON]}"
    return pointer_of(iter(error.absolute_path)), reason
