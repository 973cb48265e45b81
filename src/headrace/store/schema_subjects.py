"""The schema registry's tables: schemas by id, subjects with their versions, what refers to what.

Records carry the number of a schema for as long as they are kept, so a number must never come to
mean another schema: not when two processes register at once, not when a schema is deleted for
good, not after a restart. So there is one row that numbers are given from, which never goes back;
a number that somebody brings along moves it on. Every change of the registry locks it first. Under
that lock a change compares what it was judged on (``SubjectSeen``) with what is there now, and does
nothing if that has changed.

What may be registered, and what is the same schema, is not known here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any
from uuid import UUID

from sqlalchemy import (
    Connection,
    Row,
    Select,
    and_,
    delete,
    insert,
    or_,
    select,
    update,
)

from headrace.errors import SchemaIdTaken, SchemaReferred
from headrace.ports.schema_subjects import (
    GivenNumbers,
    KeptSchema,
    NewSchema,
    Room,
    SchemaReference,
    SubjectSeen,
    SubjectSetting,
    SubjectVersion,
)
from headrace.ports.schemas import SchemaKind
from headrace.store.database import Database
from headrace.store.pairs import portions
from headrace.store.schema import (
    schema_ids,
    schema_references,
    schema_settings,
    schema_versions,
    schemas,
)
from headrace.store.schema_rooms import named_after, refuse_full, refuse_settings

#: stands in the tables for all subjects
_ALL = ""
#: schemas that refer to versions, once for each version that they have
_REFERRING = select(
    schema_references.c.version,
    schema_references.c.schema_id,
    schema_versions.c.subject.label("by"),
    schema_versions.c.version.label("by_version"),
).join(schema_versions, schema_versions.c.schema_id == schema_references.c.schema_id)
_VERSION = (
    schema_versions.c.subject,
    schema_versions.c.version,
    schema_versions.c.schema_id,
    schema_versions.c.deleted,
)
_BY_NAME = (schema_versions.c.subject, schema_versions.c.version)


class SqlSchemaSubjects:
    """``headrace.ports.SchemaSubjects`` on SQLite or PostgreSQL. Safe in several threads."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def seen(self, subject: str) -> SubjectSeen:
        """What there is of a subject, and what is set for all."""
        with self._database.read() as connection:
            return _seen(connection, subject)

    def register(
        self,
        seen: SubjectSeen,
        new: NewSchema,
        given: GivenNumbers | None = None,
        rooms: Sequence[Room] = (),
    ) -> SubjectVersion | None:
        """Keep a schema as the next version of a subject; None if it is not as it was seen."""
        with self._changing() as connection:
            if _seen(connection, seen.subject) != seen or not _are_there(connection, new):
                return None
            refuse_full(connection, seen.subject, new, rooms)
            id_ = connection.scalar(select(schemas.c.id).where(schemas.c.digest == new.digest))
            if id_ is None:
                id_ = _next_id(connection) if given is None else _taken_id(connection, given.id)
                _add(connection, id_, new)
            elif given is not None and id_ != given.id:
                return None
            version = seen.next_version if given is None else given.version or seen.next_version
            made = SubjectVersion(seen.subject, version, id_)
            connection.execute(
                insert(schema_versions).values(
                    subject=seen.subject, version=version, schema_id=id_, deleted=False
                )
            )
            return made

    def delete(
        self, seen: SubjectSeen, versions: Sequence[int], *, permanent: bool = False
    ) -> bool:
        """Delete versions, softly or for good; False, and nothing done, if it is not as seen."""
        with self._changing() as connection:
            if _seen(connection, seen.subject) != seen:
                return False
            gone = set(versions)
            _refuse_referred(connection, seen.subject, gone, permanent=permanent)
            for some in portions(versions):
                ours = and_(
                    schema_versions.c.subject == seen.subject, schema_versions.c.version.in_(some)
                )
                if permanent:
                    connection.execute(delete(schema_versions).where(ours))
                else:
                    connection.execute(update(schema_versions).where(ours).values(deleted=True))
            if permanent:
                _drop_unused(
                    connection, {kept.id for kept in seen.versions if kept.version in gone}
                )
            if permanent and {version.version for version in seen.versions} <= gone:
                own = schema_settings.c.subject == seen.subject
                connection.execute(delete(schema_settings).where(own))
            return True

    def set_for(
        self,
        subject: str | None,
        values: Mapping[SubjectSetting, str | None],
        *,
        only_if_empty: bool = False,
        rooms: Sequence[Room] = (),
    ) -> bool:
        """Set, or take back with None, what holds for a subject, all at once; None: for all."""
        name = _ALL if subject is None else subject
        settings = [setting.value for setting in values]
        places = and_(schema_settings.c.subject == name, schema_settings.c.setting.in_(settings))
        rows = [
            {"subject": name, "setting": setting.value, "value": value}
            for setting, value in values.items()
            if value is not None
        ]
        with self._changing() as connection:
            if only_if_empty and _has_versions(connection, subject):
                return False
            if rows:
                refuse_settings(connection, name, rooms)
            connection.execute(delete(schema_settings).where(places))
            if rows:
                connection.execute(insert(schema_settings), rows)
            return True

    def set_among(self, setting: SubjectSetting, prefix: str = "") -> dict[str | None, str]:
        """What is set for the subjects whose names begin so, and for all (None)."""
        name = schema_settings.c.subject
        wanted = select(name, schema_settings.c.value).where(
            schema_settings.c.setting == setting.value,
            or_(name == _ALL, name.startswith(prefix, autoescape=True)),
        )
        with self._database.read() as connection:
            rows = connection.execute(wanted).all()
        # SQLite's LIKE takes large letters for small ones.
        return {name or None: value for name, value in rows if not name or name.startswith(prefix)}

    def schema(self, id_: int) -> KeptSchema | None:
        """The schema of an id."""
        return self.schemas([id_]).get(id_)

    def schemas(self, ids: Sequence[int]) -> dict[int, KeptSchema]:
        """The schemas of some ids, those that there are."""
        found: dict[int, KeptSchema] = {}
        with self._database.read() as connection:
            for some in portions(ids):
                rows = connection.execute(select(schemas).where(schemas.c.id.in_(some))).all()
                refers = _references(connection, some)
                found |= {row.id: _kept(row, refers.get(row.id, [])) for row in rows}
        return found

    def schema_of_guid(self, guid: UUID) -> KeptSchema | None:
        """The schema of a GUID."""
        with self._database.read() as connection:
            id_ = connection.scalar(select(schemas.c.id).where(schemas.c.guid == str(guid)))
        return None if id_ is None else self.schema(id_)

    def ids_of(self, digests: Sequence[bytes]) -> set[int]:
        """The ids of the schemas that have one of these digests."""
        found: set[int] = set()
        with self._database.read() as connection:
            for some in portions(digests):
                asked = select(schemas.c.id).where(schemas.c.digest.in_(some))
                found.update(connection.scalars(asked))
        return found

    def newest_id(self) -> int:
        """The highest id that was ever given."""
        with self._database.read() as connection:
            return int(connection.scalars(select(schema_ids.c.newest)).one())

    def versions(
        self, prefix: str = "", topics: Collection[str] | None = None
    ) -> list[SubjectVersion]:
        """All versions of the subjects whose names begin so, by name and version."""
        wanted = select(*_VERSION).order_by(*_BY_NAME)
        if prefix:
            wanted = wanted.where(schema_versions.c.subject.startswith(prefix, autoescape=True))
        with self._database.read() as connection:
            found = _versions(connection, wanted, topics)
        # SQLite's LIKE takes large letters for small ones.
        return [version for version in found if version.subject.startswith(prefix)]

    def versions_of(self, id_: int, topics: Collection[str] | None = None) -> list[SubjectVersion]:
        """The versions that have a schema, by name and version, softly deleted ones too."""
        wanted = select(*_VERSION).where(schema_versions.c.schema_id == id_).order_by(*_BY_NAME)
        with self._database.read() as connection:
            return _versions(connection, wanted, topics)

    def referring(
        self, subject: str, version: int, topics: Collection[str] | None = None
    ) -> list[SubjectVersion]:
        """The versions that have a schema which refers to a version, by name and version."""
        ids = _REFERRING.where(
            schema_references.c.subject == subject,
            schema_references.c.version == version,
            schema_versions.c.deleted.is_(False),
        ).with_only_columns(schema_references.c.schema_id)
        wanted = select(*_VERSION).where(schema_versions.c.schema_id.in_(ids))
        with self._database.read() as connection:
            return _versions(connection, wanted.order_by(*_BY_NAME), topics)

    @contextmanager
    def _changing(self) -> Iterator[Connection]:
        """A transaction for a change, alone among such."""
        with self._database.write() as connection:
            connection.execute(update(schema_ids).values(newest=schema_ids.c.newest))
            yield connection


def _versions(
    connection: Connection, wanted: Select[Any], topics: Collection[str] | None
) -> list[SubjectVersion]:
    """Versions in order; with topics those of subjects that are named after one."""
    ways = [wanted] if topics is None else [wanted.where(place) for place in named_after(topics)]
    # Of many rows making each by name is what takes longest.
    parts = [map(SubjectVersion._make, connection.execute(way).all()) for way in ways]
    # What is named after the topics "a" and "a-b" may be in two parts.
    return sorted({*chain(*parts)}) if len(parts) > 1 else [*chain(*parts)]


def _seen(connection: Connection, subject: str) -> SubjectSeen:
    ours = select(*_VERSION).where(schema_versions.c.subject == subject).order_by(*_BY_NAME)
    versions = tuple(SubjectVersion(*row) for row in connection.execute(ours))
    of_both = select(schema_settings).where(schema_settings.c.subject.in_((subject, _ALL)))
    known = {(row.subject, row.setting): row.value for row in connection.execute(of_both)}

    def of(name: str, setting: SubjectSetting) -> str | None:
        return known.get((name, setting.value))

    return SubjectSeen(
        subject,
        versions,
        of(subject, SubjectSetting.COMPATIBILITY),
        of(subject, SubjectSetting.MODE),
        of(subject, SubjectSetting.NORMALIZE),
        of(_ALL, SubjectSetting.COMPATIBILITY),
        of(_ALL, SubjectSetting.MODE),
        of(_ALL, SubjectSetting.NORMALIZE),
    )


def _are_there(connection: Connection, new: NewSchema) -> bool:
    """Whether all that a schema refers to is there, and as it was when that was judged."""
    ids = new.referred_ids or [None] * len(new.references)
    for reference, id_ in set(zip(new.references, ids, strict=True)):
        place = and_(
            schema_versions.c.subject == reference.subject,
            schema_versions.c.version == reference.version,
        )
        found = connection.scalar(select(schema_versions.c.schema_id).where(place))
        if found is None or id_ not in (None, found):
            return False
    return True


def _has_versions(connection: Connection, subject: str | None) -> bool:
    """Whether a subject, or any, has a version that is not deleted."""
    alive = select(schema_versions.c.version).where(schema_versions.c.deleted.is_(False)).limit(1)
    if subject is not None:
        alive = alive.where(schema_versions.c.subject == subject)
    return connection.scalar(alive) is not None


def _next_id(connection: Connection) -> int:
    connection.execute(update(schema_ids).values(newest=schema_ids.c.newest + 1))
    return int(connection.scalars(select(schema_ids.c.newest)).one())


def _taken_id(connection: Connection, id_: int) -> int:
    """The given id, which nobody has; later ones are above it."""
    if connection.scalar(select(schemas.c.id).where(schemas.c.id == id_)) is not None:
        raise SchemaIdTaken(f"id {id_} is that of another schema")
    moved = update(schema_ids).where(schema_ids.c.newest < id_).values(newest=id_)
    connection.execute(moved)
    return id_


def _add(connection: Connection, id_: int, new: NewSchema) -> None:
    row = {"id": id_, "digest": new.digest, "guid": str(new.guid), "kind": new.kind.value}
    connection.execute(insert(schemas).values(row | {"text": new.text}))
    refers = [
        {"schema_id": id_, "place": place, **reference._asdict()}
        for place, reference in enumerate(new.references)
    ]
    if refers:
        connection.execute(insert(schema_references), refers)


def _refuse_referred(
    connection: Connection, subject: str, gone: Collection[int], *, permanent: bool
) -> None:
    """Refuse to delete what a schema refers to that has a version.

    One that is to be deleted for good is kept by softly deleted versions too, but not by those of
    the subject that go with it: a number that is free again would come to mean another schema to
    whoever still refers to it.
    """
    wanted = _REFERRING.where(schema_references.c.subject == subject)
    if not permanent:
        wanted = wanted.where(schema_versions.c.deleted.is_(False))
    found: dict[int, set[int]] = {}
    for row in connection.execute(wanted):
        goes_too = permanent and row.by == subject and row.by_version in gone
        if row.version in gone and not goes_too:
            found.setdefault(row.version, set()).add(row.schema_id)
    for version in sorted(found):
        raise SchemaReferred(
            f"version {version} of {subject} is referred to by schemas "
            f"{', '.join(map(str, sorted(found[version])[:5]))}"
        )


def _drop_unused(connection: Connection, ids: Collection[int]) -> None:
    for some in portions(sorted(ids)):
        used = select(schema_versions.c.schema_id).where(schema_versions.c.schema_id.in_(some))
        unused = set(some) - set(connection.scalars(used))
        refer = schema_references.c.schema_id.in_(unused)
        connection.execute(delete(schema_references).where(refer))
        connection.execute(delete(schemas).where(schemas.c.id.in_(unused)))


def _references(connection: Connection, ids: Sequence[int]) -> dict[int, list[SchemaReference]]:
    wanted = (
        select(schema_references)
        .where(schema_references.c.schema_id.in_(ids))
        .order_by(schema_references.c.schema_id, schema_references.c.place)
    )
    found: dict[int, list[SchemaReference]] = {}
    for row in connection.execute(wanted):
        reference = SchemaReference(row.name, row.subject, row.version)
        found.setdefault(row.schema_id, []).append(reference)
    return found


def _kept(row: Row[Any], references: Sequence[SchemaReference]) -> KeptSchema:
    return KeptSchema(row.id, UUID(row.guid), SchemaKind(row.kind), row.text, tuple(references))
