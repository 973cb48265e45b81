"""Calling a use case in a test, as an executor calls it.

A handler is a function, and a test can call it. But what it returns has to suit its sink, and a
column with a wrong name is otherwise found out at the first record in production. So here a handler
is given records as the reader gives them, and what it returns is held against what the use case
declares and what its sink takes. Plain pytest will do; nothing is started and nothing is written.

A handler of form ``wave`` gets a DataFrame, and that needs a Spark.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from headrace.errors import ConfigError
from headrace.model.everyone import EVERYONE, is_plain
from headrace.model.lane_names import named, number_of
from headrace.model.patterns import TENANT
from headrace.model.places import place_at
from headrace.model.streams import LaneId, Slice
from headrace.model.topic_lists import lanes_in
from headrace.model.topic_patterns import is_pattern, tenants_in
from headrace.ports import Schemas
from headrace.spark.handling import called
from headrace.spark.state_of_lanes import owner
from headrace.state.seen import State
from headrace.testing.records import records
from headrace.testing.schemas_fake import MemorySchemas
from headrace.testing.sent import Value, sent
from headrace.use_cases import SliceContext, UseCase


def handled(  # noqa: PLR0913 - all that can be said of records is said in one place
    use_case: UseCase,
    values: Sequence[Value],
    *,
    tenant: str = "acme",
    topic: str | None = None,
    options: Mapping[str, str] | None = None,
    keys: Sequence[bytes | None] | None = None,
    timestamps_ms: Sequence[int] | None = None,
    schemas: Schemas | None = None,
    state: State | None = None,
) -> pa.Table:
    """What a use case makes of some records of a tenant, held against its sink.

    Args:
        use_case: the function under ``@use_case``.
        values: of the records: bytes, text, or a dict of what is in them, which is written as the
            use case reads it: by the schema of its ``Avro`` or ``Protobuf``, else as JSON.
        tenant: whose records they are; those of a topic without ``{tenant}`` are everyone's.
        topic: of the records, as it is called, where the use case reads more than one; none: the
            first of a list. Of a pattern it has to be said, and says whose they are.
        options: those of the YAML file.
        keys: of the records; none: null.
        timestamps_ms: of the records; none: their offsets, which begin at 0.
        schemas: that they name by their ids, such as ``MemorySchemas`` of ``schemas_fake``; none:
            the schema of the use case, for dicts, is all that is known.
        state: what it finds as its state, such as ``State.of(*use_case.state)`` of
            ``headrace.state.seen``, which the next call finds as this one leaves it; none: nothing.

    Raises:
        BadRecord: the handler refuses a record; whatever else it raises is raised as well.
        WrongSchema: what it returns is not what the use case declares, or what its sink takes.
        SinkRefused: its sink would refuse a row.
        ConfigError: it is of form ``wave``, or a dict is none of its schema, or the topic is none
            that it reads.
    """
    if use_case.form != "slice":
        raise ConfigError(f"use case {use_case.name} is of form wave: call it with a DataFrame")
    tenant = EVERYONE if is_plain(use_case.topic) else tenant
    if is_pattern(use_case.topic):
        tenant = _whose(use_case, topic) or tenant
    read = use_case.topic.replace(TENANT, tenant, 1 if is_pattern(use_case.topic) else -1)
    of, partition = _lane(use_case, read, topic)
    known = MemorySchemas() if schemas is None else schemas
    given = records(
        sent(use_case.decode, values, known),
        topic=of,
        partition=partition,
        timestamps_ms=timestamps_ms,
        keys=keys,
    )
    lane = LaneId(use_case.name, tenant, named(of, partition))
    piece = Slice(lane, read, place_at(0), place_at(len(values)), 1)
    found = State.of(*use_case.state) if state is None else state
    context = SliceContext(use_case.name, tenant, (piece,), dict(options or {}), state=found)
    output = _called(use_case, given, context, known)
    # A sink of users may have no such look; an empty table writes nothing, whatever its columns.
    check = getattr(use_case.sink, "check", None)
    if check is not None and (output.num_rows or output.num_columns):
        check(output)
    return output


def _called(use_case: UseCase, given: pa.Table, context: SliceContext, known: Schemas) -> pa.Table:
    """What one call gives, with state as a task has it: of its records' keys, and no more."""
    portion = context.state.portion
    before = portion.owns, portion.most
    portion.owns, portion.most = owner(given), use_case.most_state
    try:
        return called(use_case, given, context, known)
    finally:
        portion.owns, portion.most = before


def _whose(use_case: UseCase, topic: str | None) -> str:
    """The tenant of a topic that a pattern matches; empty: nobody's."""
    found = tenants_in(use_case.topic, [] if topic is None else [topic])
    if topic not in found:
        said = "" if topic is None else f", and it does not match {topic!r}"
        raise ConfigError(
            f"use case {use_case.name} reads by a pattern{said}: say topic='...', one that it "
            "matches"
        )
    return found[topic]


def _lane(use_case: UseCase, read: str, topic: str | None) -> tuple[str, int]:
    """A topic that is read, and a partition of it."""
    if topic is not None and is_pattern(read):
        return topic, 0
    lanes = lanes_in(read)
    of = next(iter(lanes)) if topic is None else topic
    if of not in lanes:
        raise ConfigError(f"use case {use_case.name} reads {read}, and not {topic!r}")
    return of, min(map(number_of, lanes[of]), default=0)
