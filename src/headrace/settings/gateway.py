"""What the ingest gateway is told: where it listens, which types it takes, how much of them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, Field, StringConstraints, model_validator

from headrace.settings.fields import STRICT, Bytes, Seconds

#: part of a topic's name, and of a path
Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]
Pointer = Annotated[str, StringConstraints(pattern=r"^(/[^/]*)+$")]
#: of a schema registry; one of the gateway holds for all tenants, so nothing is filled in
Subject = Annotated[str, StringConstraints(pattern=r"^[^{}\x00-\x1f\x7f]{1,255}$")]


class _Section(BaseModel):
    model_config = STRICT


class EventTypeSettings(_Section):
    """One type of event, by the name that is in the path of a request."""

    #: records go to the topic <tenant>.<topic>
    topic: Name
    #: file of a JSON Schema that every event has to keep; null: any JSON is taken
    schema_file: Path | None = Field(default=None, alias="schema")
    #: of the registry, such as visits-value: events are checked against its schema and written
    #: by it, for all tenants; null: they are written as they come
    subject: Subject | None = None
    #: which of the subject's versions; latest: whichever is the newest
    version: Literal["latest"] | Annotated[int, Field(ge=1)] = "latest"
    #: JSON pointer to the partition key within an event, such as /lead; an event without it is
    #: refused. null: events are spread
    key: Pointer | None = None

    @model_validator(mode="after")
    def _one_schema(self) -> Self:
        if self.subject is not None and self.schema_file is not None:
            raise ValueError("name a schema or a subject, not both")
        if self.subject is None and self.version != "latest":
            raise ValueError("a version is that of a subject, and none is named")
        return self


class RateSettings(_Section):
    """How much of a second one tenant may send; null: no limit."""

    records_per_s: int | None = Field(default=5000, ge=1)
    bytes_per_s: Bytes | None = Field(default="16m")  # type: ignore[assignment]


class TopicSettings(_Section):
    """Topics that the gateway makes when they are missing."""

    partitions: int = Field(ge=1)


class GatewaySettings(_Section):
    """How `headrace gateway` takes events."""

    #: where it listens; anything but loopback needs tls, or a proxy that has it
    host: str = "127.0.0.1"
    port: int = Field(default=8601, ge=1, le=65535)
    #: by name, as in POST /v1/events/<name>
    types: dict[Name, EventTypeSettings] = {}
    #: most bytes of one request
    request_bytes: Bytes = Field(default="10m")  # type: ignore[assignment]
    #: most events of one request
    request_events: int = Field(default=1000, ge=1)
    #: most bytes of one event; brokers take 1m by default
    event_bytes: Bytes = Field(default="900k")  # type: ignore[assignment]
    #: most arrays and objects inside one another in an event; what comes in an array or an
    #: envelope is written anew, which ends at 254
    depth: int = Field(default=64, ge=1, le=500)
    #: most arrays, objects and members in one JSON text, which is a line or else a whole body,
    #: counted by the marks [ { and :, those within strings too
    json_parts: int = Field(default=300_000, ge=1)
    #: of each tenant
    rate: RateSettings = RateSettings()
    #: of tenants that have one of their own, by name
    tenants: dict[str, RateSettings] = {}
    #: requests at once, beyond which senders are told to come again; a tenant may have a quarter of
    #: what the others leave
    most_requests: int = Field(default=1000, ge=1)
    #: bytes of all requests at once, from reading to acknowledged; a tenant may have a quarter of
    #: what the others leave
    under_way: Bytes = Field(default="64m")  # type: ignore[assignment]
    #: how long the body of a request may take to come
    body_deadline: Seconds = Field(default="30s")  # type: ignore[assignment]
    #: a record that Kafka did not acknowledge by then is answered with 503
    delivery_timeout: Seconds = Field(default="10s")  # type: ignore[assignment]
    #: how long the answer to an Idempotency-Key is kept
    idempotency_window: Seconds = Field(default="10m")  # type: ignore[assignment]
    #: what kept answers may take of memory
    idempotency_bytes: Bytes = Field(default="64m")  # type: ignore[assignment]
    #: between two looks in the registry for newer schemas of subjects
    subject_looks: Seconds = Field(default="30s")  # type: ignore[assignment]
    #: make the topic of a tenant when it is missing; null: its events are refused
    create_topics: TopicSettings | None = None

    def within(self, folder: Path) -> GatewaySettings:
        """The same, with paths of schemas starting at ``folder``."""
        types = {
            name: event_type.model_copy(update={"schema_file": folder / event_type.schema_file})
            if event_type.schema_file is not None
            else event_type
            for name, event_type in self.types.items()
        }
        return self.model_copy(update={"types": types})
