"""What each request is answered with: the registry's parts of Confluent's REST API.

A list that a tenant asks for has its own subjects alone, and a schema is there for it if a subject
of its own has it, so an id can be asked for by whoever reads the records that carry it.
"""

from __future__ import annotations

import base64
from typing import Any
from uuid import UUID

from headrace.ports.schema_subjects import (
    KeptSchema,
    SubjectSeen,
    SubjectVersion,
)
from headrace.ports.schemas import SchemaKind
from headrace.schema_registry import refusals
from headrace.schema_registry.asked import Asked
from headrace.schema_registry.refusals import Refusal
from headrace.schema_registry.registry import SchemaRegistry
from headrace.schema_registry.standing import version_in
from headrace.schema_registry.wanted import LATEST

#: in one answer with schemas; whoever wants more goes on by offset
MOST_ROWS = 1_000
MOST_CHARACTERS = 4_000_000
_ROWS_AT_ONCE = 4


class Raw(str):
    """An answer that is written as it is."""

    __slots__ = ()


def root(registry: SchemaRegistry, asked: Asked) -> Any:
    """Nothing: clients ask whether anybody answers."""
    del registry, asked
    return {}


def contexts(registry: SchemaRegistry, asked: Asked) -> Any:
    """The contexts: the default one."""
    del registry
    return asked.part_of(["."])


def types(registry: SchemaRegistry, asked: Asked) -> Any:
    """The languages of schemas."""
    del registry, asked
    return [kind.value for kind in (SchemaKind.JSON, SchemaKind.PROTOBUF, SchemaKind.AVRO)]


def subjects(registry: SchemaRegistry, asked: Asked) -> Any:
    """The names of subjects."""
    deleted, only = asked.flag("deleted"), asked.flag("deletedOnly") or asked.flag("deleted_only")
    alive: dict[str, bool] = {}
    for version in _seen_by(registry, asked):
        alive[version.subject] = alive.get(version.subject, False) or not version.deleted
    names = [name for name, lives in alive.items() if (not lives if only else lives or deleted)]
    return asked.part_of(names)


def schemas(registry: SchemaRegistry, asked: Asked) -> Any:
    """Versions with their schemas.

    Raises:
        Refusal: their descriptors are asked for, each of which takes a judge.
    """
    if _is_serialized(asked):
        raise Refusal(422, 422, "format=serialized is answered for one schema at a time")
    deleted, newest = asked.flag("deleted"), asked.flag("latestOnly")
    found = [v for v in _seen_by(registry, asked) if deleted or not v.deleted]
    if newest:
        found = [*{version.subject: version for version in found}.values()]
    chosen = asked.part_of(found, MOST_ROWS)
    rows: list[dict[str, Any]] = []
    characters = 0
    for start in range(0, len(chosen), _ROWS_AT_ONCE):
        some = chosen[start : start + _ROWS_AT_ONCE]
        kept = registry.subjects.schemas(sorted({version.id for version in some}))
        there = [version for version in some if version.id in kept]
        characters += sum(len(kept[version.id].text) for version in there)
        if characters > MOST_CHARACTERS:
            raise Refusal(422, 422, "the texts are too long for one answer; ask with a lower limit")
        rows += [_row(registry, version, kept[version.id], asked) for version in there]
    return rows


def schema_by_id(registry: SchemaRegistry, asked: Asked) -> Any:
    """A schema by the number that records carry."""
    row = _schema_row(registry, _kept(registry, asked), asked)
    # It counts what all tenants have, so it is for whoever sees that.
    if asked.flag("fetchMaxId") and asked.sight.sees_all:
        row["maxId"] = registry.subjects.newest_id()
    return row


def schema_text_by_id(registry: SchemaRegistry, asked: Asked) -> Any:
    """Its text alone."""
    return Raw(_text(registry, _kept(registry, asked), asked))


def subjects_of_id(registry: SchemaRegistry, asked: Asked) -> Any:
    """The subjects that have a schema."""
    found = _versions_of(registry, asked, _kept(registry, asked))
    return asked.part_of(sorted({version.subject for version in found}))


def versions_of_id(registry: SchemaRegistry, asked: Asked) -> Any:
    """The versions that have a schema."""
    found = _versions_of(registry, asked, _kept(registry, asked))
    return asked.part_of([{"subject": v.subject, "version": v.version} for v in found])


def schema_by_guid(registry: SchemaRegistry, asked: Asked) -> Any:
    """A schema by its GUID."""
    try:
        guid = UUID(asked.parts["guid"])
    except ValueError:
        raise refusals.no_schema(asked.parts["guid"][:40]) from None
    kept = registry.subjects.schema_of_guid(guid)
    return _schema_row(registry, _shown(registry, asked, kept, guid), asked)


def look_up(registry: SchemaRegistry, asked: Asked) -> Any:
    """The version of a subject that has this schema."""
    wanted = asked.wanted(if_empty=refusals.no_schema())
    found = registry.find(asked.subject, wanted, asked.sight, deleted=asked.flag("deleted"))
    return _full_row(registry, found, asked)


def register(registry: SchemaRegistry, asked: Asked) -> Any:
    """Register a schema under a subject."""
    made = registry.register(asked.subject, asked.wanted(), asked.sight)
    return _full_row(registry, made, asked)


def versions(registry: SchemaRegistry, asked: Asked) -> Any:
    """The numbers of a subject's versions."""
    seen = registry.subjects.seen(asked.subject)
    only = asked.flag("deletedOnly") or asked.flag("deleted_only")
    shown = seen.versions if only or asked.flag("deleted") else seen.alive
    numbers = [version.version for version in shown if version.deleted or not only]
    if not numbers and not (only and seen.versions):
        raise refusals.no_subject(asked.subject)
    return asked.part_of(numbers)


def version(registry: SchemaRegistry, asked: Asked) -> Any:
    """One version of a subject."""
    return _full_row(registry, _version(registry, asked), asked)


def version_text(registry: SchemaRegistry, asked: Asked) -> Any:
    """The text of its schema alone."""
    found = registry.subjects.schema(_version(registry, asked).id)
    if found is None:
        raise refusals.no_schema()
    return Raw(_text(registry, found, asked))


def referenced_by(registry: SchemaRegistry, asked: Asked) -> Any:
    """The ids of the schemas that refer to a version."""
    found = _version(registry, asked, deleted=True)
    sight = asked.sight
    there = registry.subjects.referring(found.subject, found.version, sight.topics())
    return asked.part_of(sorted({one.id for one in there if sight.sees(one.subject)}))


def delete_subject(registry: SchemaRegistry, asked: Asked) -> Any:
    """Delete a subject, softly or for good."""
    return registry.delete(asked.subject, permanent=asked.flag("permanent"))


def delete_version(registry: SchemaRegistry, asked: Asked) -> Any:
    """Delete one version, softly or for good."""
    number, permanent = asked.version, asked.flag("permanent")
    return registry.delete_version(asked.subject, number, permanent=permanent)


def check(registry: SchemaRegistry, asked: Asked) -> Any:
    """Whether a schema may come next, by the level of its subject."""
    return _judged(asked, registry.faults(asked.subject, asked.wanted(), asked.sight))


def check_version(registry: SchemaRegistry, asked: Asked) -> Any:
    """Whether a schema goes together with one version."""
    number, wanted = asked.version, asked.wanted()
    seen = registry.subjects.seen(asked.subject)
    if number == LATEST and not seen.alive:
        return _judged(asked, registry.faults(asked.subject, wanted, asked.sight, ()))
    if not seen.alive:
        raise refusals.no_version(asked.parts["version"])
    against = version_in(seen, number)
    return _judged(asked, registry.faults(asked.subject, wanted, asked.sight, [against]))


def _judged(asked: Asked, faults: list[str]) -> dict[str, Any]:
    said: dict[str, Any] = {"is_compatible": not faults}
    if asked.flag("verbose"):
        said["messages"] = faults
    return said


def _seen_by(registry: SchemaRegistry, asked: Asked) -> list[SubjectVersion]:
    prefix = asked.query.get("subjectPrefix", "")
    prefix = prefix.removeprefix(":.:")
    if prefix in (":*:", ":"):
        prefix = ""
    sight = asked.sight
    found = registry.subjects.versions(prefix, sight.topics())
    return [version for version in found if sight.sees(version.subject)]


def _version(registry: SchemaRegistry, asked: Asked, *, deleted: bool = False) -> SubjectVersion:
    number = asked.version
    seen: SubjectSeen = registry.subjects.seen(asked.subject)
    return version_in(seen, number, deleted=deleted or asked.flag("deleted"))


def _kept(registry: SchemaRegistry, asked: Asked) -> KeptSchema:
    return _shown(registry, asked, registry.subjects.schema(asked.id), asked.id)


def _shown(
    registry: SchemaRegistry, asked: Asked, kept: KeptSchema | None, what: object
) -> KeptSchema:
    if kept is None or not _is_shown(registry, asked, kept.id):
        raise refusals.no_schema(what)
    return kept


def _is_shown(registry: SchemaRegistry, asked: Asked, id_: int) -> bool:
    if asked.sight.sees_all:
        return True
    there = registry.subjects.versions_of(id_, asked.sight.topics())
    return any(asked.sight.sees(found.subject) for found in there)


def _versions_of(registry: SchemaRegistry, asked: Asked, kept: KeptSchema) -> list[SubjectVersion]:
    subject, deleted = asked.query.get("subject"), asked.flag("deleted")
    return [
        found
        for found in registry.subjects.versions_of(kept.id, asked.sight.topics())
        if asked.sight.sees(found.subject)
        and (deleted or not found.deleted)
        and subject in (None, "", found.subject)
    ]


def _full_row(registry: SchemaRegistry, found: SubjectVersion, asked: Asked) -> dict[str, Any]:
    kept = registry.subjects.schema(found.id)
    if kept is None:
        raise refusals.no_schema()
    return _row(registry, found, kept, asked)


def _row(
    registry: SchemaRegistry, found: SubjectVersion, kept: KeptSchema, asked: Asked
) -> dict[str, Any]:
    row = {"subject": found.subject, "version": found.version, "id": found.id}
    return row | _schema_row(registry, kept, asked) | ({"deleted": True} if found.deleted else {})


def _schema_row(registry: SchemaRegistry, kept: KeptSchema, asked: Asked) -> dict[str, Any]:
    row: dict[str, Any] = {"guid": str(kept.guid), "schemaType": kept.kind.value}
    if kept.references:
        row["references"] = [reference._asdict() for reference in kept.references]
    return row | {"schema": _text(registry, kept, asked)}


def _text(registry: SchemaRegistry, kept: KeptSchema, asked: Asked) -> str:
    """The text of a schema, or the descriptor of a Protobuf one if that is asked for."""
    if kept.kind is SchemaKind.PROTOBUF and _is_serialized(asked):
        return base64.b64encode(registry.serialized(kept, asked.sight)).decode()
    return kept.text


def _is_serialized(asked: Asked) -> bool:
    return asked.query.get("format") == "serialized"
