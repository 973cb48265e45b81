"""A gateway made out of settings: the one place where its real parts are wired together."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import orjson
from fastapi import FastAPI

from headrace.connectors.kafka import client_config
from headrace.connectors.kafka.ingest import Ingest
from headrace.connectors.kafka.ingest_topics import IngestTopics
from headrace.connectors.schema_registry import (
    URL,
    RegistrySchemas,
    registry_config,
    require_client,
)
from headrace.doors import door
from headrace.doors.guard import Doorkeeper
from headrace.doors.watch import Backend
from headrace.errors import ConfigError
from headrace.gateway.app import gateway_app
from headrace.gateway.event_schemas import EventSchema, compiled
from headrace.gateway.event_types import EventType
from headrace.gateway.events import EventLimits
from headrace.gateway.idempotency import IdempotencyMemory
from headrace.gateway.intake import IntakeRules
from headrace.gateway.rates import Rate, Rates, RequestRoom
from headrace.gateway.removed import RemovedTenants
from headrace.gateway.subjects import Subject, looking
from headrace.ports import Store
from headrace.settings import Settings
from headrace.settings.gateway import EventTypeSettings, GatewaySettings, RateSettings
from headrace.telemetry.tracing import opened

#: of the registry: a schema is not larger, and more would hold up requests where it is parsed
_MOST_ANSWER_BYTES = 2 * 1024 * 1024


def gateway_of(settings: Settings, guard: Doorkeeper, store: Store) -> FastAPI:
    """The application behind its door, on real parts; they connect when they are needed.

    Raises:
        ConfigError: no Kafka or no type is named, or a schema cannot be used.
        StoreUnavailable: the store does not answer.
    """
    if "bootstrap.servers" not in settings.kafka:
        raise ConfigError(
            "no Kafka is named: set kafka: bootstrap.servers in the YAML file, "
            "or start 'headrace up', whose Kafka is found"
        )
    chosen, config = settings.gateway, client_config(settings.kafka_properties())
    rules = rules_of(chosen)
    records = Ingest(
        config, delivery_timeout_s=chosen.delivery_timeout, most_bytes=chosen.under_way
    )
    partitions = None if chosen.create_topics is None else chosen.create_topics.partitions
    topics = IngestTopics(config, partitions)
    removed = RemovedTenants(store)
    app = gateway_app(
        rules,
        records,
        topics,
        is_removed=removed,
        generation=removed.generation,
        tracing=opened("headrace-gateway"),
        behind=_behind(topics, store),
        looks=_looks(rules, settings),
    )
    bounds = door.RequestLimits(chosen.request_bytes, chosen.body_deadline, chosen.most_requests)
    door.install_door(app, guard, settings.doors, chosen.host, bounds)
    return app


def _looks(rules: IntakeRules, settings: Settings) -> AbstractAsyncContextManager[None] | None:
    """Looks for the schemas of subjects, where a type names one."""
    properties, subjects = settings.registry_properties(), rules.subjects
    if not subjects:
        return None
    if not properties:
        raise ConfigError(
            f"type {next(iter(subjects))} of the gateway names a subject, and no registry is "
            f"configured: set registry: {URL} in the YAML file"
        )
    require_client()
    registry = RegistrySchemas(registry_config(properties), most_bytes=_MOST_ANSWER_BYTES)
    same = {(subject.name, subject.version): subject for subject in subjects.values()}
    return looking(same.values(), registry, settings.gateway.subject_looks)


def _behind(topics: IngestTopics, store: Store) -> tuple[Backend, ...]:
    async def store_answers() -> bool:
        await asyncio.to_thread(store.revision)
        return True

    return (
        Backend("Kafka", topics.broker_answers, "events are refused with 503"),
        Backend(
            "the store",
            store_answers,
            "keys of the last minutes are believed, others are refused with 503",
        ),
    )


def rules_of(settings: GatewaySettings) -> IntakeRules:
    """What is taken, and how much; schemas are read and compiled.

    Raises:
        ConfigError: no type is named, or a schema cannot be used.
    """
    if not settings.types:
        raise ConfigError(
            "the gateway has no type of event: name one in the YAML file, such as "
            "gateway: {types: {visit: {topic: visits}}}"
        )
    subjects: dict[tuple[str, int | None], Subject] = {}
    types = {
        name: EventType(
            name,
            event_type.topic,
            event_type.key,
            _schema(event_type.schema_file),
            _subject(event_type, subjects),
        )
        for name, event_type in settings.types.items()
    }
    tenants = {name: _rate(tenant) for name, tenant in settings.tenants.items()}
    return IntakeRules(
        types,
        EventLimits(
            settings.request_events, settings.event_bytes, settings.depth, settings.json_parts
        ),
        Rates(_rate(settings.rate), tenants),
        RequestRoom(settings.under_way, settings.most_requests),
        IdempotencyMemory(settings.idempotency_window, settings.idempotency_bytes),
    )


def _subject(
    chosen: EventTypeSettings, known: dict[tuple[str, int | None], Subject]
) -> Subject | None:
    """The subject that a type names: one for all types that name the same."""
    if chosen.subject is None:
        return None
    version = None if chosen.version == "latest" else chosen.version
    return known.setdefault((chosen.subject, version), Subject(chosen.subject, version))


def _rate(settings: RateSettings) -> Rate:
    return Rate(settings.records_per_s, settings.bytes_per_s)


def _schema(path: Path | None) -> EventSchema | None:
    if path is None:
        return None
    try:
        schema = orjson.loads(path.read_bytes())
    except OSError as exc:
        raise ConfigError(f"{path} cannot be read: {exc.strerror}") from exc
    except orjson.JSONDecodeError as exc:
        raise ConfigError(f"{path} is not JSON: line {exc.lineno}: {exc.msg}") from exc
    return compiled(schema, str(path))
