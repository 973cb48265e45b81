"""What the OpenAPI document promises of requests and answers.

Requests are read with these models, and what they do not name is refused. Answers are not: they are
written as plain values (`rows`), and these models only describe them.
"""

from __future__ import annotations

from typing import Annotated, Generic, Literal, TypeVar

from fastapi import Path
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from headrace.model.credentials import Role
from headrace.model.records import FailureState
from headrace.model.statistics import Outcome, Spread
from headrace.model.streams import BadRecordPolicy, DataLossPolicy, Order, State

T = TypeVar("T")

TenantName = Annotated[
    str, Path(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$", max_length=63, examples=["acme"])
]
UseCaseName = Annotated[
    str, Path(pattern=r"^[a-z][a-z0-9-]{0,62}(~[0-9]{1,9})?$", max_length=73, examples=["score"])
]


def _whole(value: object) -> object:
    """JSON has one kind of number: 1.0 is a whole one."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


#: below the largest number that both databases have room for
Offset = Annotated[int, Field(ge=0, lt=2**63), BeforeValidator(_whole)]
Many = Annotated[int, Field(ge=1, le=100_000), BeforeValidator(_whole)]
FailureNumber = Annotated[int, Path(ge=1, lt=2**63, examples=[7])]
Prefix = Annotated[str, Path(pattern=r"^[A-Za-z0-9_-]{1,32}$", examples=["k3v9x2ab"])]


class Shape(BaseModel):
    """An answer."""

    model_config = ConfigDict(extra="forbid")


class Asked(BaseModel):
    """A request. Nothing is guessed: that false is offset 0 would be an expensive guess."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, strict=True)


class Listed(Shape, Generic[T]):
    """A page of a list."""

    items: list[T]
    #: to be given as ``cursor`` for the next page
    next: str | None = Field(description="`cursor` of the next page; null: this is the last one.")


# --- tenants ---------------------------------------------------------------------------------


class ThrottleShape(Shape):
    """The most a tenant may read a second; null is no limit."""

    records_per_s: float | None
    bytes_per_s: float | None
    burst_s: float


class TenantFigures(Shape):
    """The streams of a tenant together: sums, and the worst of times."""

    state: str = Field(description="The most troubling state of its streams.")
    lag_records: int
    lag_s: float
    in_per_s: float
    out_per_s: float
    delay: Spread
    throttled: bool
    task_share: float
    note: str
    streams_total: int
    failures_open: int


class TenantRow(Shape):
    """A tenant; `figures` is null as long as no driver tells any."""

    name: str
    state: State
    weight: float
    throttle: ThrottleShape
    figures: TenantFigures | None


class ThrottleAsked(Asked):
    """A limit; what is left out is no limit."""

    records_per_s: float | None = Field(default=None, gt=0)
    bytes_per_s: float | None = Field(default=None, gt=0)
    burst_s: float = Field(default=1.0, gt=0, description="How many seconds' worth at once.")


class TenantAsked(Asked):
    """What a tenant is to be; what is left out stays as it is."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"weight": 2.0, "throttle": {"records_per_s": 500, "burst_s": 5}}]
        }
    )

    state: Literal["active", "suspended"] | None = None
    weight: float | None = Field(default=None, gt=0)
    throttle: ThrottleAsked | None = None


class HistoryPoint(Shape):
    """One span of one stream."""

    use_case: str
    from_s: float
    span_s: float
    lag_records: int
    lag_s: float
    records_in: int
    records_out: int
    task_s: float
    delay: Spread


class History(Shape):
    """What a tenant's streams went through."""

    items: list[HistoryPoint]


class SparkLine(Shape):
    """One value a minute; null where nothing is known."""

    lag_s: list[float | None]
    out_per_s: list[float | None]


class Sparks(Shape):
    """The last half hour of every tenant that did anything."""

    from_s: float
    span_s: float
    tenants: dict[str, SparkLine]


# --- streams ---------------------------------------------------------------------------------


class StreamShape(Shape):
    """What a driver tells of a stream."""

    state: str
    lag_records: int
    lag_s: float
    in_per_s: float
    out_per_s: float
    delay: Spread
    throttled: bool
    task_share: float
    records_total: int
    dead_letters_total: int
    lost_records_total: int
    wave: str
    note: str


class StreamRow(Shape):
    """A stream."""

    tenant: str
    use_case: str
    topic: str
    state: State
    reason: str | None
    holder: str | None
    epoch: int
    figures: StreamShape | None


class LaneRow(Shape):
    """One partition of a stream."""

    partition: int
    next_offset: int
    #: null as long as no driver told
    end: int | None = Field(description="Where its log ends; null as long as no driver told.")
    failure: int | None = Field(description="The open failure it is stopped at.")


class StreamWhole(StreamRow):
    """A stream with its lanes."""

    lanes: list[LaneRow]


class StreamAsked(Asked):
    """What a stream is to be."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"state": "suspended"}]})

    state: Literal["active", "suspended"]


class PositionsAsked(Asked):
    """Where lanes are to read next, by partition."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"offsets": {"0": 23}}]})

    offsets: dict[Annotated[str, Field(pattern=r"^(0|[1-9][0-9]{0,8})$")], Offset] = Field(
        min_length=1, json_schema_extra={"additionalProperties": False}
    )


class Positions(Shape):
    """Where lanes read next, by partition."""

    offsets: dict[str, int]


class RedriveAsked(Asked):
    """How many dead letters to send back."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"dry_run": True}]})

    limit: Many = Field(default=10_000, description="The most of this time.")
    dry_run: bool = Field(default=False, description="Only count, send nothing.")


class Redriven(Shape):
    """What became of dead letters."""

    sent: int = Field(description="Sent back; with `dry_run` those that would have been.")
    refused: list[str] = Field(description="Why a letter stays where it is, a sentence each.")
    left: int = Field(description="Beyond the limit, for the next time.")


# --- failures --------------------------------------------------------------------------------


class FailureRow(Shape):
    """What could not be handled."""

    id: int
    tenant: str
    use_case: str
    partition: int
    topic: str
    from_offset: int
    until_offset: int
    offset: int | None = Field(description="Of the record; null where no single one is to blame.")
    code: str
    message: str
    attempts: int
    at_s: float
    state: FailureState


class Data(Shape):
    """Bytes as they came; both null for a null."""

    text: str | None = Field(description="If they are UTF-8.")
    base64: str | None


class HeaderRow(Data):
    """A header of a record."""

    name: str


class RecordRow(Shape):
    """A record as it came."""

    key: Data
    value: Data
    headers: list[HeaderRow]


class FailureWhole(FailureRow):
    """A failure with its record, which a viewer does not see."""

    traceback: str
    record: RecordRow | None


class SkipAsked(Asked):
    """How to pass over a failure."""

    whole_slice: bool = Field(
        default=False,
        description="Also a slice in which no single record is to blame; it is kept nowhere.",
    )


class Decided(Shape):
    """What became of a failure."""

    failure: FailureRow
    next_offset: int | None = Field(description="Where its lane reads next.")
    suspended: str | None = Field(
        description="Why its stream stands still all the same; null: it goes on."
    )


# --- use cases, waves, alerts ----------------------------------------------------------------


class UseCaseShape(Shape):
    """The waves of a use case over the last minutes: sums over drivers, and the worst of times."""

    waves_total: int
    processing: Spread
    scheduling: Spread
    delay: Spread
    records_per_s: float
    bytes_in_per_s: float
    bytes_out_per_s: float | None
    pace_per_s: float | None


class UseCaseRow(Shape):
    """A use case as deployed."""

    use_case: str
    topic: str
    digest: str
    order: Order
    priority: int
    bad_record: BadRecordPolicy
    data_loss: DataLossPolicy
    retries: int
    handler_timeout_s: float
    max_rate_per_lane: float | None
    starting_offsets: Literal["earliest", "latest"]
    all_tenants: bool
    rerun: bool
    figures: UseCaseShape | None


class BinRow(Shape):
    """One task of a wave."""

    slot: int
    tenants: list[str]
    tenants_total: int
    records: int
    outcome: Outcome


class WaveRow(Shape):
    """One Spark job."""

    driver: str
    wave: str
    use_case: str
    started_at_s: float
    ended_at_s: float | None
    bins: list[BinRow]
    error: str


class AlertRow(Shape):
    """What a person should look at."""

    kind: Literal["stalled", "lag-growing", "quarantined", "driver-lost"]
    severity: Literal["warning", "critical"]
    tenant: str | None
    use_case: str | None
    driver: str | None
    since_s: float
    text: str


class DriverRow(Shape):
    """A driver."""

    driver: str
    at_s: float
    lost: bool
    started_at_s: float
    slots: int
    slots_target: int
    slots_busy: int
    executors: int
    spark_ui_url: str


class Summary(Shape):
    """Everything together."""

    at_s: float
    drivers: list[DriverRow]
    tenants_total: int
    streams_total: int
    lag_records: int
    in_per_s: float
    out_per_s: float
    alerts_total: int


# --- callers, keys, audit --------------------------------------------------------------------


class SessionAsked(Asked):
    """A key, to be exchanged for a cookie."""

    key: str = Field(min_length=1, max_length=4096)


class Me(Shape):
    """Who calls."""

    name: str
    role: Role
    tenant: str | None


class KeyRow(Shape):
    """A key without what opens the door."""

    prefix: str
    role: Role
    tenant: str | None
    label: str
    created_at_s: float
    expires_at_s: float | None
    revoked_at_s: float | None


class NewKey(KeyRow):
    """A new key; it is never shown again."""

    key: str


class _KeyAsked(Asked):
    label: str = Field(min_length=1, max_length=100)
    expires_in_s: float | None = Field(default=None, gt=0, le=10 * 366 * 86_400)


class KeyOfTenant(_KeyAsked):
    """A key that is to belong to a tenant."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"role": "sender", "tenant": "acme", "label": "shop front end"}]
        }
    )

    role: Literal["tenant", "sender"]
    tenant: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$")


class KeyForAll(_KeyAsked):
    """A key that is to be for all tenants."""

    role: Literal["operator", "viewer"]
    tenant: None = None


KeyAsked = Annotated[KeyOfTenant | KeyForAll, Field(discriminator="role")]


class RotateAsked(Asked):
    """For how long the old key works on."""

    overlap_s: float = Field(default=86_400.0, ge=0, le=366 * 86_400)


class ChangeRow(Shape):
    """A line of the audit log."""

    id: int
    at_s: float
    who: str
    action: str
    tenant: str | None
    status: int
    detail: str


class Health(Shape):
    """Whether it works."""

    status: Literal["ok"]
