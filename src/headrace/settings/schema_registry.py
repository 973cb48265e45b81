"""The section ``schema_registry`` of the YAML file: where schemas are registered and looked up.

It is about the registry that runs here. Which one use cases and clients ask is said elsewhere, and
may be another one.
"""

from __future__ import annotations

from pydantic import BaseModel, Field

from headrace.settings.fields import STRICT, Bytes, Seconds


class SchemaRegistrySettings(BaseModel):
    """How `headrace registry` serves."""

    model_config = STRICT

    #: where it listens; anything but loopback needs tls, or a proxy that has it
    host: str = "127.0.0.1"
    port: int = Field(default=8081, ge=0, le=65535)
    #: most bytes of one request
    request_bytes: Bytes = Field(default="1m")  # type: ignore[assignment]
    #: how long the body of a request may take to come
    body_deadline: Seconds = Field(default="30s")  # type: ignore[assignment]
    #: requests at once, beyond which clients are told to come again
    most_requests: int = Field(default=200, ge=1)
    #: processes that look at schemas; a tenant has one at a time
    judges: int = Field(default=2, ge=1, le=64)
    #: how long may be looked at schemas for one request
    judge_deadline: Seconds = Field(default="10s")  # type: ignore[assignment]
    #: most that is kept of schemas: under the subjects of one tenant, registered with its keys
    tenant_bytes: Bytes = Field(default="64m")  # type: ignore[assignment]
    tenant_versions: int = Field(default=10_000, ge=1)
    #: most that is kept under one subject, whoever registers
    subject_bytes: Bytes = Field(default="256m")  # type: ignore[assignment]
    subject_versions: int = Field(default=10_000, ge=1)
