"""The ids of schemas that one writes by.

A worker writes the same few schemas all day, so the id of each under its subject is asked for once.
The newest schema of a subject is another matter: it changes, so it is asked for again each minute.
That a registry refuses one is remembered for some seconds: a person mends it. Where it gives no
answer about one, that one waits alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol
from urllib.parse import quote
from uuid import UUID

from headrace.connectors.schema_registry.exchange import Answer
from headrace.connectors.schema_registry.lookups import LOOKUP_S, Lookups
from headrace.connectors.schema_registry.missed import Missed
from headrace.connectors.schema_registry.pauses import RegistryAwayError
from headrace.connectors.schema_registry.texts import (
    Document,
    NotFoundError,
    ReferencesError,
    size_in_memory,
)
from headrace.errors import RegistryUnavailable, TargetMissing
from headrace.formats.kept import Kept
from headrace.ports import RegisteredSchema, Registering, SchemaKind, WrittenSchema

#: the newest of a subject may be this old
_LATEST_S = 60.0
#: what was refused is tried anew after this
_REFUSED_S = 10.0


#: of all that is known of subjects, or was refused: rows may name topics, each of which has one
_MOST_BYTES = 32 * 1024**2
#: of each refusal, besides its text: whose schema it is is there anyway
_EACH_BYTES = 1_000
#: versions have 32 bits
_MOST_VERSION = 2**31 - 1
_AS_DESCRIPTOR = "?format=serialized"


class _Key(NamedTuple):
    subject: str
    schema: WrittenSchema
    how: Registering


class Ask(Protocol):
    """Asks a registry."""

    def __call__(
        self,
        path: str,
        until_s: float,
        body: Mapping[str, Any] | None = None,
        *,
        is_list: bool = False,
    ) -> Answer:
        """What it decided; raises ``RegistryUnavailable``."""


class Subjects:
    """What is registered under which subject, as far as it was asked for."""

    def __init__(
        self,
        ask: Ask,
        fetch_all: Callable[[Document, float], WrittenSchema],
        lookups: Lookups,
        clock: Callable[[], float],
    ) -> None:
        self._ask, self._fetch_all, self._lookups, self._clock = ask, fetch_all, lookups, clock
        #: and until when it holds
        self._known: Kept[_Key, tuple[RegisteredSchema, float]] = Kept(
            _MOST_BYTES, lambda known: size_in_memory(known[0].schema)
        )
        self._refused: Kept[_Key, tuple[str, float]] = Kept(
            _MOST_BYTES, lambda refused: _EACH_BYTES + len(refused[0])
        )
        self._missed: Missed[_Key] = Missed(clock)

    def registered(self, subject: str, schema: WrittenSchema, how: Registering) -> RegisteredSchema:
        """As ``headrace.ports.SchemaIds`` has it."""
        key = _Key(subject, schema, how)
        found, good_until_s = self._known.get(key) or (None, 0.0)
        if found is not None and self._clock() < good_until_s:
            return found
        refused, again_s = self._refused.get(key) or ("", 0.0)
        if self._clock() < again_s:
            raise TargetMissing(refused)
        try:
            self._missed.refuse(key)
            return self._lookups.written(key, lambda until_s: self._looked_up(key, until_s))
        except RegistryUnavailable:
            if found is not None:  # the newest there was; nothing is wrong with it
                return found
            raise

    def _looked_up(self, key: _Key, until_s: float) -> RegisteredSchema:
        """In the thread of look-ups; what came of it is kept."""
        is_newest = key.how.use_latest_version
        try:
            made = self._latest(key, until_s) if is_newest else self._own(key, until_s)
        except TargetMissing as error:
            self._refused.put(key, (str(error), self._clock() + _REFUSED_S))
            raise
        except RegistryAwayError:
            raise
        except RegistryUnavailable as error:
            told = f"subject {key.subject}: {error}"
            raise self._missed.unanswered(key, told) from error
        self._missed.forget(key)
        lasts_s = _LATEST_S if is_newest else float("inf")
        self._known.put(key, (made, self._clock() + lasts_s))
        return made

    def _own(self, key: _Key, until_s: float) -> RegisteredSchema:
        """The schema itself: registered now, or looked for."""
        subject, schema, how = key
        place = f"subjects/{quote(subject, safe='')}"
        if how.auto_register_schemas:
            place += "/versions"
        if how.normalize_schemas:
            place += "?normalize=true"
        answer = self._ask(place, until_s, _body(schema))
        if answer.status != 200:
            raise TargetMissing(_refusal(key, answer))
        return RegisteredSchema(_id(answer), schema, _guid(answer))

    def version(self, subject: str, number: int | None) -> RegisteredSchema:
        """As ``headrace.ports.NumberedSchemas`` has it."""
        if number is not None and number > _MOST_VERSION:
            # Of what is no number of theirs registries say that they cannot read it.
            raise TargetMissing(f"subject {subject} has no {_told(number)}: none is so large")
        until_s = time.monotonic() + LOOKUP_S
        answer = self._ask(_place(subject, number), until_s)
        if answer.status != 200:
            said = f" ({answer.message})" if answer.message else ""
            raise TargetMissing(f"subject {subject} has no {_told(number)}{said}")
        if answer.body.get("schemaType") == SchemaKind.PROTOBUF:
            answer = self._described(subject, number, answer, until_s)
        return self._whole(subject, number, answer, until_s)

    def numbers(self, subject: str) -> list[int]:
        """As ``headrace.ports.NumberedSchemas`` has it."""
        place = f"subjects/{quote(subject, safe='')}/versions"
        answer = self._ask(place, time.monotonic() + LOOKUP_S, is_list=True)
        if answer.status != 200:
            return []
        if not all(isinstance(number, int) for number in answer.rows):
            raise RegistryUnavailable("what answers for the schema registry tells no versions")
        return sorted(answer.rows)

    def _described(
        self, subject: str, number: int | None, answer: Answer, until_s: float
    ) -> Answer:
        """With its descriptor, where it has one: a text needs a compiler."""
        described = self._ask(f"{_place(subject, number)}{_AS_DESCRIPTOR}", until_s)
        return described if described.status == 200 else answer

    def _latest(self, key: _Key, until_s: float) -> RegisteredSchema:
        place = _place(key.subject, None)
        if key.schema.kind is SchemaKind.PROTOBUF:
            # Whoever writes by it looks at its fields, and a text needs a compiler for that.
            place += _AS_DESCRIPTOR
        answer = self._ask(place, until_s)
        if answer.status != 200:
            raise TargetMissing(_refusal(key, answer))
        made = self._whole(key.subject, None, answer, until_s)
        found = made.schema
        if found.kind is not key.schema.kind:
            raise TargetMissing(
                f"the newest schema of subject {key.subject} is of kind {found.kind}, and "
                f"{key.schema.kind} is written"
            )
        return made

    def _whole(
        self, subject: str, number: int | None, answer: Answer, until_s: float
    ) -> RegisteredSchema:
        """What an answer holds, with all that it refers to."""
        try:
            found = self._fetch_all(Document.of(answer.body), until_s)
        except (ReferencesError, NotFoundError) as error:
            told = f"the {_told(number)} of subject {subject}: {error}"
            raise TargetMissing(told) from error
        return RegisteredSchema(_id(answer), found, _guid(answer))


def _place(subject: str, number: int | None) -> str:
    return f"subjects/{quote(subject, safe='')}/versions/{number or 'latest'}"


def _told(number: int | None) -> str:
    return "newest schema" if number is None else f"version {number}"


def _body(schema: WrittenSchema) -> dict[str, Any]:
    body: dict[str, Any] = {"schema": schema.text}
    return body if schema.kind is SchemaKind.AVRO else {**body, "schemaType": schema.kind.value}


def _id(answer: Answer) -> int:
    found = answer.body.get("id")
    if not isinstance(found, int) or not 0 <= found < 2**32:
        raise RegistryUnavailable("what answers for the schema registry tells no id")
    return found


def _guid(answer: Answer) -> UUID | None:
    """The GUID, which newer registries tell beside the id."""
    try:
        return UUID(answer.body["guid"])
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


def _refusal(key: _Key, answer: Answer) -> str:
    subject, _, how = key
    said = f" ({answer.message})" if answer.message else ""
    if answer.status == 404 and how.use_latest_version:
        mend = "it has no schema yet; register one"
    elif answer.status == 404 and not how.auto_register_schemas:
        mend = "the schema is not registered there; register it, or say auto_register_schemas=True"
    elif answer.status == 409:
        mend = "its compatibility refuses the schema; write by one that keeps it"
    else:
        mend = "the registry refuses the schema"
    return f"subject {subject}: {mend}{said}"
