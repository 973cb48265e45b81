"""Deployed use cases.

Deploying again replaces everything about a use case but its topic: its streams and their positions
go on where they are, and a position means nothing in another topic. A list of topics may become
longer.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict

from sqlalchemy import Connection, insert, select, update

from headrace.errors import ConfigError, other_topic
from headrace.model.everyone import has_stream, is_plain
from headrace.model.places import Place, read_place, text_of
from headrace.model.records import Deployment
from headrace.model.restarts import Restart
from headrace.model.starting import read_starting
from headrace.model.streams import BadRecordPolicy, DataLossPolicy, Order, State, StreamId
from headrace.model.topic_lists import adds_to
from headrace.store import everyone, revision, streams
from headrace.store.own_topics import refuse_shared
from headrace.store.schema import deployments, tenants
from headrace.store.schema import streams as stream_rows


def every(connection: Connection) -> list[Deployment]:
    """Deployed use cases, by name."""
    return [
        Deployment(
            use_case=row.use_case,
            module=row.module,
            digest=row.digest,
            topic=row.topic,
            order=Order(row.record_order),
            buckets=row.buckets,
            starting_offsets=row.starting_offsets,
            all_tenants=row.all_tenants,
            creates_tenants=row.creates_tenants,
            priority=row.priority,
            options=json.loads(row.options),
            bad_record=BadRecordPolicy(row.bad_record),
            retries=row.retries,
            handler_timeout_s=row.handler_timeout_s,
            max_rate_per_lane=row.max_rate_per_lane,
            data_loss=DataLossPolicy(row.data_loss),
            share=row.share,
            until=_offsets(row.ends_at),
            guarantee=row.guarantee,
            sink=row.sink,
            restart=_restart(row.restart_after_s, row.max_age_s),
            revision=row.revision,
        )
        for row in connection.execute(select(deployments).order_by(deployments.c.use_case))
    ]


def deploy(
    connection: Connection,
    deployment: Deployment,
    at_s: float,
    *,
    anew: bool = False,
    over: Deployment | None = None,
) -> bool:
    """Add or replace a use case; add the streams that tenants lack if it is for all.

    ``at_s`` is the time now, in seconds since 1970.
    """
    check(deployment)
    values = _row(deployment) | {"revision": revision.current(connection)}
    ours = deployments.c.use_case == deployment.use_case
    known = connection.execute(select(deployments).where(ours)).one_or_none()
    if over is not None and (known is None or known.revision != over.revision):
        return False
    if known is None:
        connection.execute(insert(deployments).values(values))
        if is_plain(deployment.topic):
            everyone.begin(connection, deployment, at_s)
    elif anew:
        return False
    elif known.topic == deployment.topic:
        connection.execute(update(deployments).where(ours).values(values))
    elif adds_to(deployment.topic, known.topic):
        connection.execute(update(deployments).where(ours).values(values))
        streams.read_more(connection, deployment.use_case, deployment.topic)
    else:
        raise other_topic(deployment.use_case, known.topic, deployment.topic)
    if deployment.all_tenants:
        _add_missing_streams(connection, deployment)
    return True


def check(deployment: Deployment) -> None:
    """Raise ``ConfigError`` if what somebody wrote in it cannot be read."""
    streams.topic_of(deployment.topic, "tenant")
    try:
        read_starting(deployment.starting_offsets)
    except ValueError as error:
        raise ConfigError(f"use case {deployment.use_case}: startingOffsets: {error}") from error


def _add_missing_streams(connection: Connection, deployment: Deployment) -> None:
    have = select(stream_rows.c.tenant).where(stream_rows.c.use_case == deployment.use_case)
    lacking = select(tenants.c.name, tenants.c.reserved).where(
        tenants.c.state != State.REMOVED.value, tenants.c.name.not_in(have)
    )
    wanted = {
        StreamId(deployment.use_case, row.name): streams.topic_of(deployment.topic, row.name)
        for row in connection.execute(lacking.order_by(tenants.c.name)).all()
        if has_stream(deployment.topic, reserved=row.reserved)
    }
    refuse_shared(connection, wanted)
    for stream, topic in wanted.items():
        streams.start(connection, stream, topic)


def _restart(after_s: float | None, max_age_s: float | None) -> Restart | None:
    return None if after_s is None else Restart(after_s, max_age_s)


def _offsets(text: str | None) -> dict[str, Place] | None:
    if text is None:
        return None
    return {lane: read_place(end) for lane, end in json.loads(text).items()}


def _written(until: Mapping[str, Place]) -> str:
    return json.dumps({lane: text_of(end) for lane, end in until.items()})


def _row(deployment: Deployment) -> dict[str, object]:
    values = asdict(deployment)
    values["record_order"] = values.pop("order").value
    values["bad_record"] = deployment.bad_record.value
    values["data_loss"] = deployment.data_loss.value
    restart, until = deployment.restart, values.pop("until")
    del values["restart"]
    values["restart_after_s"] = None if restart is None else restart.after_s
    values["max_age_s"] = None if restart is None else restart.max_age_s
    values["ends_at"] = None if until is None else _written(until)
    values["options"] = json.dumps(dict(deployment.options))
    return values
