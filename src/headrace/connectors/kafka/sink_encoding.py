"""Messages out of columns: what ``encode=`` and ``encode_key=`` of the Kafka sink do.

A handler then returns columns that mean something, and the bytes are made here, before anything is
sent. All of an effect is encoded or nothing: a row that does not fit is told with its column, and
the effect is refused as one with a message too large is.

A schema has its id in a registry, under a subject that the topic names. So where rows name topics,
each topic's are encoded by themselves. Ids are asked for in the task, where the wait is bounded and
what is known is kept; a registry that is away is a sink that is away. The id stands before the
payload, or its GUID in a header, as Confluent's clients have it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple
from uuid import UUID

import pyarrow as pa

from headrace.connectors.columns import check_columns
from headrace.connectors.outcomes import going_on
from headrace.errors import (
    ConfigError,
    RegistryUnavailable,
    SinkRefused,
    SinkUnavailable,
    TargetMissing,
    WrongSchema,
)
from headrace.formats.framing import header_of, prefix_of
from headrace.ports import (
    RECORD_SCHEMA,
    Effect,
    Encoding,
    RegisteredSchema,
    Registering,
    SchemaIds,
    SchemaToRegister,
    WrittenSchema,
)

_Column = Literal["value", "key"]
#: columns of a message that are as they are
_BESIDE = {"headers": "headers", "topic": "text"}
_AS_IT_IS = "bytes or text"


@dataclass(frozen=True, slots=True)
class Encodings:
    """What is made of a handler's columns; None: the value or key is there as it is."""

    value: Encoding | None = None
    key: Encoding | None = None

    def refuse_clashes(self, topic: str) -> None:
        """See that no column means two things.

        Raises:
            ConfigError: one does, or something is no encoding.
        """
        for column, kind in self._parts():
            if isinstance(kind, type) or not hasattr(kind, "takes"):
                raise ConfigError(
                    f"topic {topic!r}: encode is such as AvroOutput(schema), Json(schema) or "
                    "Text() of headrace.formats"
                )
            other = {"value", "key"} - {column}
            clash = kind.takes(column).keys() & {*_BESIDE, *other}
            if clash:
                raise ConfigError(
                    f"topic {topic!r}: what is encoded has a column {min(clash)}, and there is one "
                    "already beside it"
                )

    @property
    def needs_registry(self) -> bool:
        """Whether one of them asks a registry."""
        return any(kind.registers is not None for _, kind in self._parts())

    def made(self, effect: Effect, own: str, ids: SchemaIds) -> Effect:
        """The effect with messages in the place of columns.

        Raises:
            WrongSchema: a column is missing, one too many, or of a type that cannot be.
            SinkRefused: a row does not fit.
            SinkUnavailable: the registry does not answer.
            TargetMissing: it has not, and does not take, the schema; or has a newer one, as which
                columns would lose something.
        """
        output = effect.output
        if not self._parts() or not (output.num_rows or output.num_columns):
            return effect
        try:
            return replace(effect, output=self.messages(output, own, ids))
        except TargetMissing as error:
            raise TargetMissing(f"{error}; {going_on(effect)}") from error

    def messages(self, output: pa.Table, own: str, ids: SchemaIds) -> pa.Table:
        """The same of a table alone; see ``made``."""
        self._check(output.schema, f"topic {own}")
        encoded = {name for column, kind in self._parts() for name in kind.takes(column)}
        names = [name for name in output.column_names if name not in encoded - {"key", "value"}]
        columns: dict[str, Any] = {name: output.column(name) for name in names}
        told: dict[str, Sequence[bytes | None]] = {}
        for column, kind in self._parts():
            made = _messages(output, kind, column, own, ids)
            columns[column] = pa.array(made.payloads, pa.binary())
            told[header_of(column)] = made.headers
        if "headers" in columns:
            columns["headers"] = _with_ids(columns["headers"].to_pylist(), told)
        elif any(one is not None for headers in told.values() for one in headers):
            columns["headers"] = _with_ids([None] * output.num_rows, told)
        return pa.table(columns)

    def _parts(self) -> list[tuple[_Column, Encoding]]:
        parts: list[tuple[_Column, Encoding | None]] = [("value", self.value), ("key", self.key)]
        return [(column, kind) for column, kind in parts if kind is not None]

    def _check(self, found: pa.Schema, where: str) -> None:
        takes: dict[str, bool] = {}
        for column, kind in self._parts():
            for name, needed in kind.takes(column).items():
                takes[name] = needed or takes.get(name, False)
        missing = [name for name, needed in takes.items() if needed and name not in found.names]
        if missing:
            has = ", ".join(found.names) or "no columns"
            raise WrongSchema(
                f"{where}: the table returned has {has}, but no column {missing[0]!r}, which is "
                "encoded"
            )
        rest = pa.schema([field for field in found if field.name not in takes])
        expected = {} if self.value is not None else {"value": _AS_IT_IS}
        key = {} if self.key is not None else {"key": _AS_IT_IS}
        check_columns(rest, expected, where, {**key, **_BESIDE})
        for name in takes:
            if found.names.count(name) > 1:
                raise WrongSchema(f"{where}: the table returned has column {name!r} twice")
        for column, kind in self._parts():
            own = [field for field in found if field.name in kind.takes(column)]
            try:
                kind.check(pa.schema(own))
            except WrongSchema as error:
                raise WrongSchema(f"{where}: {error}") from error


class UnaskedIds:
    """Ids for a look at rows where no registry is asked."""

    def registered(self, subject: str, schema: WrittenSchema, how: Registering) -> RegisteredSchema:
        """The schema itself, under an id that nobody gives out."""
        del subject, how
        return RegisteredSchema(0, schema, UUID(int=0))


class _Messages(NamedTuple):
    """What is sent of the rows: payloads, and what their header says, if it does."""

    payloads: list[bytes | None]
    headers: list[bytes | None]


def _messages(
    output: pa.Table, kind: Encoding, column: _Column, own: str, ids: SchemaIds
) -> _Messages:
    rows = output.select([name for name in output.column_names if name in kind.takes(column)])
    if "topic" not in output.column_names or kind.registers is None:
        return _encoded(rows, kind, column, own, ids, range(rows.num_rows))
    of_topic: dict[str, list[int]] = {}
    for row, topic in enumerate(output.column("topic").to_pylist()):
        of_topic.setdefault(topic or own, []).append(row)
    made = _Messages([None] * rows.num_rows, [None] * rows.num_rows)
    for topic, numbers in of_topic.items():
        part = _encoded(rows.take(numbers), kind, column, topic, ids, numbers)
        for number, payload, header in zip(numbers, *part, strict=True):
            made.payloads[number], made.headers[number] = payload, header
    return made


def _encoded(
    rows: pa.Table,
    kind: Encoding,
    column: _Column,
    topic: str,
    ids: SchemaIds,
    numbers: Sequence[int],
) -> _Messages:
    """Of rows of one topic; ``numbers`` are theirs in the handler's table."""
    found = None
    if kind.registers is not None:
        found = _registered(kind, kind.registers, column, topic, ids, rows.schema)
    made = kind.encode(rows, None if found is None else found.schema)
    if made.unencoded:
        row, reason = made.unencoded[0]
        raise SinkRefused(f"topic {topic}: the {column} of row {numbers[row]}: {reason}")
    payloads = list(made.payloads)
    bare = _Messages(payloads, [None] * len(payloads))
    if found is None or kind.registers is None:
        return bare
    if kind.registers.id_place == "HeaderSchemaIdSerializer":
        if found.guid is None:
            raise TargetMissing(
                f"topic {topic}: the registry tells no GUID of the schema, and headers name it by "
                "that; write its id before the payload"
            )
        return _Messages(payloads, [prefix_of(found.guid) + made.place] * len(payloads))
    prefix = prefix_of(found.id) + made.place
    return bare._replace(payloads=[None if one is None else prefix + one for one in payloads])


def _registered(
    kind: Encoding,
    registers: SchemaToRegister,
    column: _Column,
    topic: str,
    ids: SchemaIds,
    found_columns: pa.Schema,
) -> RegisteredSchema:
    """The schema that rows of a topic are written by."""
    subject = registers.subject_of(topic, column)
    try:
        found = ids.registered(subject, registers.schema, registers.how)
    except RegistryUnavailable as error:
        raise SinkUnavailable(
            f"topic {topic}: {error}", retry_after_s=error.retry_after_s
        ) from error
    if found.schema != registers.schema:
        _check_newest(found_columns, kind, found.schema, f"topic {topic}: subject {subject}")
    return found


def _with_ids(given: Any, ids: Mapping[str, Sequence[bytes | None]]) -> Any:
    """Headers of all rows, each with the ids of its own schemas and with no others.

    A handler may pass on the headers of a record that was written by another schema.
    """
    kind = RECORD_SCHEMA.field("headers").type
    rows = []
    for headers, *own in zip(given, *ids.values(), strict=True):
        kept = [one for one in headers or () if one is None or one["key"] not in ids]
        named = zip(ids, own, strict=True)
        rows.append(kept + [{"key": name, "value": id_} for name, id_ in named if id_ is not None])
    return pa.array(rows, kind)


def _check_newest(found: pa.Schema, kind: Encoding, schema: WrittenSchema, where: str) -> None:
    """Somebody registered a schema that the use case does not write by: no record is to blame."""
    try:
        kind.check(found, schema)
    except (WrongSchema, ConfigError) as error:
        raise TargetMissing(f"{where}: its newest schema cannot be written by: {error}") from error
