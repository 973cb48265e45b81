"""How much of schemas some subjects hold, counted under the lock that registering takes.

Whoever may register could fill the store for all. So a version is kept only where its room has
enough left, counted in the transaction that keeps it. A sum that is carried along would be quicker,
and wrong after the first hand that helps in SQL; both databases tell the length of what is kept
without reading it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from sqlalchemy import ColumnElement, Connection, and_, func, or_, select

from headrace.ports.schema_subjects import NewSchema, Room
from headrace.store.pairs import portions
from headrace.store.schema import schema_references, schema_settings, schema_versions, schemas

_AT_ONCE = 200


def named_after(
    topics: Collection[str], subject: ColumnElement[str] = schema_versions.c.subject
) -> Iterator[ColumnElement[bool]]:
    """Conditions that find, one after the other, the subjects that are named after topics."""
    ordered = sorted(topics)
    for some in portions(ordered, _AT_ONCE):
        # "." comes after "-": between the two are all names that begin with the topic and "-".
        yield or_(*(and_(subject >= f"{topic}-", subject < f"{topic}.") for topic in some))


def refuse_full(
    connection: Connection, registered: str, new: NewSchema, rooms: Sequence[Room]
) -> None:
    """Refuse a schema that is more than its rooms have left.

    Raises:
        SchemasFull: it is.
    """
    for room in rooms:
        held = _held(connection, registered, room)
        versions = sum(number for number, _ in held.values())
        room.refuse(versions + 1, sum(size for _, size in held.values()) + new.size)


def refuse_settings(connection: Connection, subject: str, rooms: Sequence[Room]) -> None:
    """Refuse to set something for a subject if that is one more than its rooms have left.

    Raises:
        SchemasFull: it is.
    """
    named = schema_settings.c.subject
    wanted = select(named).distinct()
    for room in rooms:
        if connection.scalar(wanted.where(named == subject)) is None:
            places = _places(room, named, subject)
            found = {one for place in places for one in connection.scalars(wanted.where(place))}
            room.refuse_settings(sum(room.counts(one, subject) for one in found) + 1)


def _places(
    room: Room, subject: ColumnElement[str], registered: str
) -> Iterable[ColumnElement[bool]]:
    """Conditions that find the subjects that count in a room, and maybe some more."""
    if room.pattern is not None:
        begins = room.pattern.removesuffix("*")
        if begins == room.pattern:
            return [subject == begins]
        return [subject.startswith(begins, autoescape=True)]
    return [subject == registered] if room.topics is None else named_after(room.topics, subject)


def _held(connection: Connection, registered: str, room: Room) -> dict[str, tuple[int, int]]:
    """By subject that counts, its versions and their bytes."""
    subject = schema_versions.c.subject
    names = func.length(schema_references.c.name) + func.length(schema_references.c.subject)
    of_schema = schema_references.c.schema_id == schemas.c.id
    named = select(func.sum(names)).where(of_schema).scalar_subquery()
    size = func.sum(func.length(schemas.c.text) + func.coalesce(named, 0))
    wanted = select(subject, func.count(), size).join(schemas).group_by(subject)
    return {
        row[0]: (int(row[1]), int(row[2]))
        for place in _places(room, subject, registered)
        for row in connection.execute(wanted.where(place))
        if room.counts(row[0], registered)
    }
