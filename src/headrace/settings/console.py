"""The section ``console`` of the YAML file: where operators look and decide."""

from __future__ import annotations

from pydantic import BaseModel, Field

from headrace.settings.fields import STRICT


class ConsoleSettings(BaseModel):
    """The control API, its pages and the metrics."""

    model_config = STRICT

    #: address to listen on; only this machine can call 127.0.0.1
    host: str = "127.0.0.1"
    port: int = Field(default=8600, ge=0, le=65535)
    #: pages that may be open at once; each of them is one connection
    most_clients: int = Field(default=1000, ge=1)
    #: tenants with series of their own at /metrics; the others are summed up
    most_metric_tenants: int = Field(default=2000, ge=1)
    #: requests at once besides those, beyond which callers are told to come again
    most_requests: int = Field(default=200, ge=1)
