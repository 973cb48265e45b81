"""Streams: which there are, in what state, and who holds them.

The epoch of a stream stands twice: on the stream, where it survives everything, and on each of its
positions, where the compare-and-set reads it. Every change here locks the stream's row first and
its positions after it, so that a lane that is just being started cannot slip past a new epoch.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

from sqlalchemy import Connection, Row, delete, insert, select, update

from headrace.errors import (
    ConfigError,
    no_stream,
    no_such_stream,
    no_tenant,
    no_use_case,
    plain,
    stream_removed,
    tenant_removed,
)
from headrace.model.everyone import EVERYONE, has_stream, is_plain
from headrace.model.patterns import TENANT, has_other_braces
from headrace.model.some_names import some_of
from headrace.model.streams import State, Stopper, Stream, StreamId, ids_left
from headrace.model.topic_lists import as_list_id, is_list, listed, others, parts_of, topics_of
from headrace.model.topic_names import problem_of
from headrace.model.topic_patterns import is_kept, is_pattern
from headrace.policies.stops import Status, changed
from headrace.store import depths, intents, left_alone, stoppers, stops
from headrace.store import state as state_of_keys
from headrace.store.own_topics import refuse_shared
from headrace.store.pairs import matching, of, portions
from headrace.store.schema import deployments, positions, streams, tenants

_REASON_CHARACTERS = 500


def every(connection: Connection) -> list[Stream]:
    """All streams, by use case and tenant."""
    rows = connection.execute(select(streams).order_by(streams.c.use_case, streams.c.tenant))
    return [
        Stream(
            StreamId(row.use_case, row.tenant),
            row.topic,
            State(row.state),
            row.topic_id,
            row.epoch,
            row.reason,
            row.holder,
            stoppers.read(row.stopped_by),
            tuple(json.loads(row.left_ids or "[]")),
            row.begun_without_topic,
            row.silent_s,
        )
        for row in rows
    ]


def add(connection: Connection, stream: StreamId) -> None:
    """Add one stream of a known tenant and use case; a removed one starts afresh."""
    asked = select(tenants.c.state, tenants.c.reserved).where(tenants.c.name == stream.tenant)
    tenant = connection.execute(asked).first()
    template = connection.scalar(
        select(deployments.c.topic).where(deployments.c.use_case == stream.use_case)
    )
    if tenant is None:
        raise no_tenant(stream.tenant)
    if template is None:
        raise no_use_case(stream.use_case)
    if tenant.state == State.REMOVED:
        raise tenant_removed(stream.tenant)
    check_stream(stream, template, reserved=tenant.reserved)
    known = connection.execute(select(streams.c.state).where(of(streams, stream))).first()
    if known is not None and known.state != State.REMOVED:
        raise ConfigError(f"stream {stream} is there already, {known.state}")
    topic = topic_of(template, stream.tenant)
    refuse_shared(connection, {stream: topic})
    start(connection, stream, topic)


def start(connection: Connection, stream: StreamId, topic: str) -> None:
    """Make a stream, or make a removed one anew: a higher epoch, no positions, no stops.

    No stream of a tenant has an epoch below the tenant's generation. Which topics it left is no
    matter of whose it was, and stays.
    """
    first = generation_of(connection, stream.tenant)
    asked = select(streams.c.epoch, streams.c.topic_id, streams.c.left_ids)
    row = connection.execute(asked.where(of(streams, stream)).with_for_update()).first()
    if row is None:
        connection.execute(insert(streams).values(fresh(stream, topic, first)))
        return
    depths.deepen_all(connection, [stream])
    begun = fresh(
        stream, topic, max(row.epoch + 1, first), left_of(row.left_ids, row.topic_id, None)
    )
    connection.execute(update(streams).where(of(streams, stream)).values(begun))
    connection.execute(delete(positions).where(of(positions, stream)))
    state_of_keys.forget_streams(connection, [stream])
    stops.release(connection, stream)


def read_more(connection: Connection, use_case: str, template: str) -> None:
    """Let the streams of a use case read a longer list; what they read already goes on."""
    columns = streams.c.tenant, streams.c.topic, streams.c.topic_id, streams.c.left_ids
    asked = select(*columns).where(
        streams.c.use_case == use_case, streams.c.state != State.REMOVED.value
    )
    rows = connection.execute(asked.order_by(streams.c.tenant).with_for_update()).all()
    wanted = {StreamId(use_case, row.tenant): topic_of(template, row.tenant) for row in rows}
    refuse_shared(connection, wanted)
    for row, (stream, topic) in zip(rows, wanted.items(), strict=True):
        known = None if row.topic_id is None else as_list_id(row.topic_id, row.topic)
        left = [as_list_id(one, row.topic) for one in json.loads(row.left_ids or "[]")]
        values = {"topic_id": known, "left_ids": json.dumps(left) if left else None}
        connection.execute(update(streams).where(of(streams, stream)).values(topic=topic, **values))


def fresh(stream: StreamId, topic: str, epoch: int, left: str | None = None) -> dict[str, Any]:
    """The row of a stream that begins; ``left`` is as ``left_of`` has it."""
    return {
        **stream._asdict(),
        "epoch": epoch,
        "topic": topic,
        "state": State.ACTIVE.value,
        "topic_id": None,
        "left_ids": left,
        "begun_without_topic": False,
        "reason": None,
        "holder": None,
        "stopped_by": None,
        "silent_s": None,
        "expected_s": None,
    }


def generation_of(connection: Connection, tenant: str) -> int:
    """The epoch from which on what its streams do is the tenant's, and no earlier one's."""
    return generations_of(connection, {tenant}).get(tenant, 0)


def generations_of(connection: Connection, names: Collection[str]) -> dict[str, int]:
    """The same of many; those that are not there are left out."""
    found: dict[str, int] = {}
    for some in portions(sorted(names)):
        asked = select(tenants.c.name, tenants.c.generation).where(tenants.c.name.in_(some))
        found |= {row.name: row.generation for row in connection.execute(asked)}
    return found


def turn_to(
    connection: Connection,
    row: Row[Any, Any, Any, Any, Any, Any, Any, Any],
    stream: StreamId,
    topic_id: str | None,
) -> int:
    """Let a stream be of this topic, and all its lanes under a new epoch, which is returned.

    ``row`` is its row, as ``locked`` gave it. What was recorded of another topic is forgotten.
    """
    epoch = int(row.epoch) + 1
    be_of(connection, row, stream, topic_id)
    connection.execute(update(streams).where(of(streams, stream)).values(epoch=epoch))
    connection.execute(update(positions).where(of(positions, stream)).values(epoch=epoch))
    # After the positions, as with all who lock both.
    if other := others(row.topic_id, topic_id):
        intents.forget(connection, stream, other)
    return epoch


def be_of(
    connection: Connection,
    row: Row[Any, Any, Any, Any, Any, Any, Any, Any],
    stream: StreamId,
    topic_id: str | None,
) -> None:
    """Let a stream be of this topic, and keep which it was of."""
    values = {"topic_id": topic_id, "left_ids": left_of(row.left_ids, row.topic_id, topic_id)}
    connection.execute(update(streams).where(of(streams, stream)).values(values))


def left_of(left_ids: str | None, was_of: str | None, is_of: str | None) -> str | None:
    """Which topics a stream has left when it goes from one to another, as the store has it."""
    left = ids_left(json.loads(left_ids or "[]"), was_of, is_of)
    return json.dumps(left) if left else None


def topic_of(template: str, tenant: str) -> str:
    """The topic of a tenant, the list of its topics, or what a pattern matches of its own.

    Raises:
        ConfigError: the template has something else to fill in, or no topic can be called so; or
            of this tenant two topics of a list would be one.
    """
    if is_pattern(template):
        if not is_kept(template):
            raise ConfigError(f"topic {template!r}: no topic can be called so, and no pattern")
        return template.replace(TENANT, tenant, 1)
    if has_other_braces(template):
        raise ConfigError(f"topic {template!r}: only {{tenant}} may stand in braces")
    if is_plain(template):
        for part in topics_of(template):
            if problem := problem_of(part):
                raise ConfigError(f"topic {template!r}: {problem}")
    topic = template.replace(TENANT, tenant)
    if is_list(template):
        _check_list(template, topic, tenant)
    return topic


def _check_list(template: str, topic: str, tenant: str) -> None:
    try:
        listed(parts_of(topic))
    except ValueError as error:
        raise ConfigError(f"topic {template!r}, of tenant {tenant}: it {error}") from None


def check_stream(stream: StreamId, template: str, *, reserved: bool) -> None:
    """Raise ``ConfigError`` if a tenant, reserved or not, can have no stream of a use case."""
    if not has_stream(template, reserved=reserved):
        whose = f"{EVERYONE} alone has a stream" if is_plain(template) else "each customer has one"
        raise no_such_stream(stream.tenant, stream.use_case, template, whose)


def set_state(
    connection: Connection,
    stream: StreamId,
    state: State,
    reason: str | None,
    by: Stopper,
    *,
    epoch: int | None,
) -> bool:
    """Suspend, resume or remove; a resumed stream has no reason and no open failure.

    Nothing where it is under a later epoch than one that is named; whether it was done.
    """
    row = locked(connection, stream)
    if epoch is not None and epoch < row.epoch:
        return False
    if row.state == State.REMOVED and state is not State.REMOVED:
        raise stream_removed(stream.tenant, stream.use_case)
    before = Status(State(row.state), row.reason, stoppers.read(row.stopped_by))
    told = None if reason is None else one_line(reason)
    change = changed(before, state, told, by, f"stream {stream}")
    values = {
        "state": change.state.value,
        "reason": change.reason,
        "stopped_by": stoppers.written(change.stopped_by),
    }
    connection.execute(update(streams).where(of(streams, stream)).values(values))
    if change.state is State.ACTIVE:
        left_alone.expect(connection, stream)
        stops.release(connection, stream)
    return True


def locked(connection: Connection, stream: StreamId) -> Row[Any, Any, Any, Any, Any, Any, Any, Any]:
    """What is known of a stream, which stays so until the transaction ends."""
    columns = (
        streams.c.state,
        streams.c.epoch,
        streams.c.topic_id,
        streams.c.left_ids,
        streams.c.begun_without_topic,
        streams.c.reason,
        streams.c.stopped_by,
        streams.c.depth,
    )
    asked = select(*columns).where(of(streams, stream)).with_for_update()
    row = connection.execute(asked).first()
    if row is None:
        raise no_stream(str(stream))
    return row


def lock_all(connection: Connection, wanted: Collection[StreamId]) -> dict[StreamId, int]:
    """Let streams stay as they are until the transaction ends; the epoch of each.

    Raises:
        UnknownName: one of them is not there.
    """
    epochs: dict[StreamId, int] = {}
    for some in matching(streams, wanted):
        asked = select(streams.c.use_case, streams.c.tenant, streams.c.epoch).where(some)
        rows = connection.execute(asked.order_by(streams.c.tenant).with_for_update())
        epochs |= {StreamId(row.use_case, row.tenant): row.epoch for row in rows}
    _refuse(set(wanted) - epochs.keys())
    return epochs


def hold(
    connection: Connection, wanted: Collection[StreamId], driver: str | None
) -> dict[StreamId, int]:
    """Raise the epoch of each stream that no other driver holds, and of its positions."""
    epochs: dict[StreamId, int] = {}
    known: set[StreamId] = set()
    for some in matching(streams, wanted):
        asked = select(
            streams.c.use_case, streams.c.tenant, streams.c.epoch, streams.c.holder
        ).where(some)
        rows = connection.execute(asked.order_by(streams.c.tenant).with_for_update()).all()
        known |= {StreamId(row.use_case, row.tenant) for row in rows}
        epochs |= {
            StreamId(row.use_case, row.tenant): row.epoch + 1
            for row in rows
            if row.holder in (None, driver)
        }
    _refuse(set(wanted) - known)
    held = list(epochs)
    for some in matching(streams, held):
        raised = update(streams).where(some).values(epoch=streams.c.epoch + 1, holder=driver)
        connection.execute(raised.values(left_alone.taken(connection)))
    of_stream = select(streams.c.epoch).where(
        streams.c.use_case == positions.c.use_case, streams.c.tenant == positions.c.tenant
    )
    for some in matching(positions, held):
        asked_lanes = select(positions.c.lane).where(some)
        in_order = asked_lanes.order_by(positions.c.tenant, positions.c.lane)
        connection.execute(in_order.with_for_update())
        raised = update(positions).where(some).values(epoch=of_stream.scalar_subquery())
        connection.execute(raised.values(left_alone.known(connection)))
    return epochs


def check_known(connection: Connection, wanted: Collection[StreamId]) -> None:
    """Raise ``UnknownName`` if one of the streams is not there."""
    known = {
        StreamId(row.use_case, row.tenant)
        for some in matching(streams, wanted)
        for row in connection.execute(select(streams.c.use_case, streams.c.tenant).where(some))
    }
    _refuse(set(wanted) - known)


def one_line(reason: str) -> str:
    """A reason as people are shown it: one line that every database takes."""
    printable = plain(" ".join(reason.split()))
    if len(printable) > _REASON_CHARACTERS:
        return printable[: _REASON_CHARACTERS - 1] + "…"
    return printable


def _refuse(missing: Collection[StreamId]) -> None:
    if missing:
        names = some_of(sorted(missing), 3)
        raise no_stream(names)
