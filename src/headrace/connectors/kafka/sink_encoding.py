"""Messages out of columns: what ``encode=`` and ``encode_key=`` of the Kafka sink do.

A handler then returns columns that mean something, and the bytes are made here, before anything is
sent. All of an effect is encoded or nothing: a row that does not fit is told with its column, and
the effect is refused as one with a message too large is.

A schema has its id in a registry, under a subject that the topic names. So where rows name topics,
each topic's are encoded by themselves. Ids are asked for in the task, where the wait is bounded and
what is known is kept; a registry that is away is a sink that is away.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import pyarrow as pa

from headrace.connectors.columns import check_columns
from headrace.errors import (
    ConfigError,
    RegistryUnavailable,
    SinkRefused,
    SinkUnavailable,
    TargetMissing,
    WrongSchema,
)
from headrace.formats.framing import prefix_of
from headrace.ports import (
    Effect,
    Encoding,
    RegisteredSchema,
    Registering,
    SchemaIds,
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
        return replace(effect, output=self.messages(output, own, ids))

    def messages(self, output: pa.Table, own: str, ids: SchemaIds) -> pa.Table:
        """The same of a table alone; see ``made``."""
        self._check(output.schema, f"topic {own}")
        encoded = {name for column, kind in self._parts() for name in kind.takes(column)}
        names = [name for name in output.column_names if name not in encoded - {"key", "value"}]
        columns: dict[str, Any] = {name: output.column(name) for name in names}
        for column, kind in self._parts():
            columns[column] = _payloads(output, kind, column, own, ids)
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
        return RegisteredSchema(0, schema)


def _payloads(
    output: pa.Table, kind: Encoding, column: _Column, own: str, ids: SchemaIds
) -> pa.Array[Any]:
    rows = output.select([name for name in output.column_names if name in kind.takes(column)])
    if "topic" not in output.column_names or kind.registers is None:
        made = _encoded(rows, kind, column, own, ids, range(rows.num_rows))
        return pa.array(made, pa.binary())
    of_topic: dict[str, list[int]] = {}
    for row, topic in enumerate(output.column("topic").to_pylist()):
        of_topic.setdefault(topic or own, []).append(row)
    payloads: list[bytes | None] = [None] * rows.num_rows
    for topic, numbers in of_topic.items():
        part = _encoded(rows.take(numbers), kind, column, topic, ids, numbers)
        for number, payload in zip(numbers, part, strict=True):
            payloads[number] = payload
    return pa.array(payloads, pa.binary())


def _encoded(
    rows: pa.Table,
    kind: Encoding,
    column: _Column,
    topic: str,
    ids: SchemaIds,
    numbers: Sequence[int],
) -> list[bytes | None]:
    """The payloads of rows of one topic; ``numbers`` are theirs in the handler's table."""
    registers, schema, prefix = kind.registers, None, b""
    if registers is not None:
        subject = registers.subject_of(topic, column)
        try:
            found = ids.registered(subject, registers.schema, registers.how)
        except RegistryUnavailable as error:
            raise SinkUnavailable(
                f"topic {topic}: {error}", retry_after_s=error.retry_after_s
            ) from error
        if found.schema != registers.schema:
            _check_newest(rows.schema, kind, found.schema, f"topic {topic}: subject {subject}")
        schema, prefix = found.schema, prefix_of(found.id)
    made = kind.encode(rows, schema)
    if made.unencoded:
        row, reason = made.unencoded[0]
        raise SinkRefused(f"topic {topic}: the {column} of row {numbers[row]}: {reason}")
    if not prefix:
        return list(made.payloads)
    return [None if payload is None else prefix + payload for payload in made.payloads]


def _check_newest(found: pa.Schema, kind: Encoding, schema: WrittenSchema, where: str) -> None:
    """Somebody registered a schema that the use case does not write by: no record is to blame."""
    try:
        kind.check(found, schema)
    except (WrongSchema, ConfigError) as error:
        raise TargetMissing(f"{where}: its newest schema cannot be written by: {error}") from error
