"""What may be asked: bodies and paths of requests.

What these models do not name is refused, and nothing is guessed: that `false` is offset 0 would be
an expensive guess. What is answered is in `shapes`.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from fastapi import Path, Query
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from headrace.model.places import Place, read_place

_TENANT = r"^[a-z0-9][a-z0-9-]{0,62}$"

TenantName = Annotated[str, Path(pattern=_TENANT, max_length=63, examples=["acme"])]

#: a filter that a database is asked by
TenantAsked = Annotated[str | None, Query(pattern=_TENANT, max_length=63)]

UseCaseName = Annotated[
    str, Path(pattern=r"^[a-z][a-z0-9-]{0,62}(~[0-9]{1,9})?$", max_length=73, examples=["score"])
]


def _whole(value: object) -> object:
    """JSON has one kind of number: 1.0 is a whole one."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


_Number = Annotated[int, Field(ge=0, lt=2**53), BeforeValidator(_whole)]
_Digits = Annotated[str, Field(pattern=r"^(0|[1-9][0-9]{0,75})$")]
#: a place in a log: its digits, or a number as long as every reader of JSON keeps it as it is
Offset = Annotated[
    _Digits | _Number, Field(description="Its digits; a number is taken where it is below 2^53.")
]

Many = Annotated[int, Field(ge=1, le=100_000), BeforeValidator(_whole)]

FailureNumber = Annotated[int, Path(ge=1, lt=2**63, examples=[7])]

Prefix = Annotated[str, Path(pattern=r"^[A-Za-z0-9_-]{1,32}$", examples=["k3v9x2ab"])]


class RequestModel(BaseModel):
    """A request."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, strict=True)


class ThrottleRequest(RequestModel):
    """A limit; what is left out is no limit."""

    records_per_s: float | None = Field(default=None, gt=0)
    bytes_per_s: float | None = Field(default=None, gt=0)
    burst_s: float = Field(default=1.0, gt=0, description="How many seconds' worth at once.")


class TenantRequest(RequestModel):
    """What a tenant is to be; what is left out stays as it is."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"weight": 2.0, "throttle": {"records_per_s": 500, "burst_s": 5}}]
        }
    )

    state: Literal["active", "suspended"] | None = None
    weight: float | None = Field(default=None, gt=0)
    throttle: ThrottleRequest | None = None


class NewTenant(TenantRequest):
    """A tenant that is to be added; what is left out is as it is for one without a word."""

    name: str = Field(pattern=_TENANT, examples=["acme"])


class TenantsRequest(RequestModel):
    """Tenants that are to be added together."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"items": [{"name": "acme"}, {"name": "bolt", "weight": 2.0}]}]
        }
    )

    items: list[NewTenant] = Field(min_length=1, max_length=1000)
    exists: Literal["fail", "skip"] = Field(
        default="fail", description="What becomes of a tenant that is there: skip leaves it alone."
    )
    dry_run: bool = Field(default=False, description="Only look, add nothing.")


class TenantStatesRequest(RequestModel):
    """A state that tenants are to have together."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"names": ["acme", "bolt"], "state": "suspended"}]}
    )

    names: list[Annotated[str, Field(max_length=63)]] = Field(min_length=1, max_length=1000)
    state: Literal["active", "suspended", "removed"]
    dry_run: bool = Field(default=False, description="Only look, change nothing.")


class StreamRequest(RequestModel):
    """What a stream is to be."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"state": "suspended"}]})

    state: Literal["active", "suspended"]


class PositionsRequest(RequestModel):
    """Where lanes are to read next: `offsets` for some of them, or `to` for the whole stream."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"offsets": {"0": "23"}, "dry_run": True},
                {"to": "2026-05-17T10:05:00+00:00", "dry_run": True},
            ],
            "oneOf": [
                {"required": ["offsets"], "properties": {"offsets": {"type": "object"}}},
                {"required": ["to"], "properties": {"to": {"type": "string"}}},
            ],
        }
    )

    offsets: dict[Annotated[str, Field(min_length=1, max_length=300)], Offset] | None = Field(
        default=None, min_length=1, description="By name of a lane, or by number in the topic."
    )
    to: str | None = Field(
        default=None,
        min_length=1,
        max_length=100_000,
        description="`earliest`, `latest`, a time, one offset for all lanes, or Spark's form "
        '`{"acme.visits": {"0": 23}}`; of several topics, `{"acme.clicks": null}` gives up one '
        "that is gone.",
    )
    forget_state: bool = Field(
        default=False,
        description="Of a use case with state: begin there without any. It is gone then.",
    )
    dry_run: bool = Field(default=False, description="Only count, move nothing.")

    @model_validator(mode="after")
    def _says_one(self) -> Self:
        if (self.offsets is None) == (self.to is None):
            raise ValueError("say either offsets, or to")
        return self

    def target(self) -> str | dict[str, Place]:
        """What a person typed, or the places themselves."""
        if self.offsets is None:
            return self.to or ""
        return {lane: read_place(str(at)) for lane, at in self.offsets.items()}


class RedriveRequest(RequestModel):
    """How many dead letters to send back."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"dry_run": True}]})

    limit: Many = Field(default=10_000, description="The most of this time.")
    dry_run: bool = Field(default=False, description="Only count, send nothing.")


class SkipRequest(RequestModel):
    """How to pass over a failure."""

    whole_slice: bool = Field(
        default=False,
        description="Also a slice in which no single record is to blame; it is kept nowhere.",
    )


class SessionRequest(RequestModel):
    """A key, to be exchanged for a cookie."""

    key: str = Field(min_length=1, max_length=4096)


class _KeyRequest(RequestModel):
    label: str = Field(min_length=1, max_length=100)
    expires_in_s: float | None = Field(default=None, gt=0, le=10 * 366 * 86_400)


class KeyOfTenant(_KeyRequest):
    """A key that is to belong to a tenant."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"role": "sender", "tenant": "acme", "label": "shop front end"}]
        }
    )

    role: Literal["tenant", "sender"]
    tenant: str = Field(pattern=_TENANT)


class KeyOfSchemas(_KeyRequest):
    """A key that is to register schemas alone."""

    role: Literal["schemas"]
    tenant: str | None = Field(
        default=None,
        pattern=_TENANT,
        description="For subjects of its topics alone; none: for all subjects.",
    )
    subjects: str | None = Field(
        default=None,
        min_length=1,
        max_length=400,
        pattern=r"^[^*]*\*?$",
        description="The only ones that it sees: one by its name, or all that begin so, `acme.*`.",
    )


class KeyForAll(_KeyRequest):
    """A key that is to be for all tenants."""

    role: Literal["operator", "viewer"]
    tenant: None = None


KeyAsked = Annotated[KeyOfTenant | KeyOfSchemas | KeyForAll, Field(discriminator="role")]


class RotateRequest(RequestModel):
    """For how long the old key works on."""

    overlap_s: float = Field(default=86_400.0, ge=0, le=366 * 86_400)
