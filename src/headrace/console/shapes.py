"""What the OpenAPI document promises of answers.

Answers are written as plain values (`rows`); these models only describe them, and the tests hold
the one to the other. What may be asked is in `requests.py`.
"""

from __future__ import annotations

from typing import Any, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from headrace.model.credentials import Role
from headrace.model.records import FailureState
from headrace.model.statistics import LagIs, Outcome, Spread
from headrace.model.streams import BadRecordPolicy, DataLossPolicy, Order, State, Stopper

T = TypeVar("T")


_LAG_IS = (
    "`exact`: its log counts what waits; `about`: only reading tells, and this is a guess; "
    "`unknown`: not even that."
)
#: what is told of a place in a log
_PLACE = "a place in its log, digits that may be more than a number in JSON keeps."


class Shape(BaseModel):
    """An answer."""

    model_config = ConfigDict(extra="forbid")


class Listed(Shape, Generic[T]):
    """A page of a list."""

    items: list[T]
    #: to be given as ``cursor`` for the next page
    next: str | None = Field(description="`cursor` of the next page; null: this is the last one.")


class ThrottleShape(Shape):
    """The most a tenant may read a second; null is no limit."""

    records_per_s: float | None
    bytes_per_s: float | None
    burst_s: float


class TenantFigures(Shape):
    """The streams of a tenant together: sums, and the worst of times."""

    state: str = Field(description="The most troubling state of its streams.")
    lag_records: int
    lag_is: LagIs = Field(description=_LAG_IS)
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
    stopped_by: list[Stopper] = Field(description="Who has suspended it.")
    generation: int = Field(description="Another one for each tenant that was added by this name.")
    weight: float
    throttle: ThrottleShape
    figures: TenantFigures | None


class TenantsAdded(Shape):
    """What became of tenants that were to be added; with `dry_run` what would."""

    added: list[str]
    again: list[str] = Field(
        description="Those of them that had been removed: their streams begin at `startingOffsets`."
    )
    there: list[str] = Field(description="Those that are there already, and stay as they are.")
    differs: dict[str, str] = Field(
        description="Those of them that are otherwise than the request says, and in what."
    )
    dry_run: bool


class TenantsChanged(Shape):
    """What became of tenants that were to have a state; with `dry_run` what would."""

    state: State
    changed: list[str] = Field(description="Those whose state was another.")
    already: list[str] = Field(description="Those that had it already.")
    dry_run: bool


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
    earlier_tenant: bool = Field(
        description="It is of a removed tenant of the same name, and operators alone see it."
    )


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


class StreamShape(Shape):
    """What a driver tells of a stream."""

    state: str
    lag_records: int
    lag_is: LagIs = Field(description=_LAG_IS)
    lag_s: float
    in_per_s: float
    out_per_s: float
    delay: Spread
    throttled: bool
    task_share: float
    records_total: int
    dead_letters_total: int
    lost_records_total: int
    passed_over_records_total: int
    wave: str
    note: str


class Condition(Shape):
    """How a stream stands now, from what was decided and what its driver tells."""

    state: str = Field(
        description="As a driver shows it; `not held`: no driver has it; `unknown`: the one that "
        "has it is silent."
    )
    reason: str = Field(description="Why, in one line; empty: all is well.")
    retry_at_s: float | None = Field(description="When it is tried again, if it waits for that.")


class StreamRow(Shape):
    """A stream."""

    tenant: str
    use_case: str
    topic: str
    state: State
    reason: str | None
    stopped_by: list[Stopper] = Field(description="Who has suspended it.")
    condition: Condition
    holder: str | None
    epoch: int
    figures: StreamShape | None


class LaneRow(Shape):
    """One lane of a stream, such as a partition of its topic."""

    lane: str = Field(description="Its name, as its log has it.")
    partition: int | None = Field(description="The number in its name; null where none is.")
    next_offset: str = Field(description=f"Where it reads next: {_PLACE}")
    end: str | None = Field(
        description="Where its log ends; null as long as no driver told, or only reading tells."
    )
    lag_records: int | None = Field(
        description="Records that wait; null as long as no driver told, or nobody can say."
    )
    lag_is: LagIs = Field(description=_LAG_IS)
    failure: int | None = Field(description="The open failure it is stopped at.")
    waits_for: list[str] = Field(
        description="Lanes that it follows and that have to be done before it is read."
    )


class SchemaRow(Shape):
    """A schema that records of the last hour were written by."""

    column: Literal["value", "key"]
    schema_id: str | None = Field(
        description="Its number or GUID, as records carry it; null: all beyond the newest few."
    )
    subject: str | None = Field(description="In our own registry; null where nobody knows it.")
    version: int | None
    records: int
    first_at_s: float = Field(description="When the first of them was committed.")
    last_at_s: float


class StreamWhole(StreamRow):
    """A stream with its lanes, and the schemas that its records name."""

    lanes: list[LaneRow]
    schemas: list[SchemaRow]


class Positions(Shape):
    """Where lanes read next, by number in the stream's topic or else by name; what comes of it.

    With `dry_run`: what would.
    """

    offsets: dict[str, str]
    again: int | None = Field(
        description="Records that are read again at most, with their effects; null: nobody knows."
    )
    passed: int | None = Field(
        description="Records that are passed over at most, without effect; null: nobody knows."
    )
    consequences: list[str] = Field(description="What that means, a sentence each.")


class StateOfStream(Shape):
    """How much state a stream keeps."""

    tenant: str
    use_case: str
    rows: int
    bytes: int


class StateOfTable(Shape):
    """How much is in one of its tables."""

    table: str
    rows: int
    bytes: int


class StateRowShape(Shape):
    """A row of state, as it is kept."""

    part: str = Field(description="The partition whose key it is.")
    key_hex: str = Field(description="The bytes of the key.")
    row: dict[str, Any] = Field(
        description="All columns; numbers have all of their digits, which not every reader keeps."
    )


class Redriven(Shape):
    """What became of dead letters."""

    sent: int = Field(description="Sent back; with `dry_run` those that would have been.")
    refused: list[str] = Field(description="Why a letter stays where it is, a sentence each.")
    left: int = Field(description="Beyond the limit, for the next time; from 100,000 on not all.")
    topics: list[str] = Field(description="What the stream reads, where letters go back to.")
    dead_letters: list[str] = Field(description="The topics where letters of it are kept.")


class FailureRow(Shape):
    """What could not be handled."""

    id: int
    tenant: str
    use_case: str
    lane: str = Field(description="Name of the lane, as its log has it.")
    partition: int | None = Field(description="The number in that name; null where none is.")
    topic: str
    from_offset: str = Field(description=f"Where what failed begins: {_PLACE}")
    until_offset: str | None = Field(
        description="Where it ends; what is there is not of it. Null where only reading tells."
    )
    offset: str | None = Field(description="Of the record; null where no single one is to blame.")
    records: int = Field(description="How many are between the two at most.")
    dead_letters: str = Field(description="Kafka's topic that keeps its record if it is skipped.")
    goes_on_at: str | None = Field(
        description="Where its lane goes on if it is skipped; null where it cannot be."
    )
    code: str
    message: str
    attempts: int
    times: int = Field(description="How often it failed there: once, and after each retry.")
    at_s: float = Field(description="When it failed last.")
    state: FailureState
    became: str = Field(
        description="The same for people; `passed over` of what was skipped and nobody had read."
    )
    earlier_tenant: bool = Field(
        description="It is of a removed tenant of the same name, and operators alone see it."
    )
    record_kept: bool = Field(
        description="False where its tenant had no room left for it, nothing of it was read, or no "
        "single record is to blame."
    )


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


class Decided(Shape):
    """What became of a failure."""

    failure: FailureRow
    next_offset: str | None = Field(description="Where its lane reads next.")
    suspended: str | None = Field(
        description="Why its stream stands still all the same; null: it goes on."
    )


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


class RestartShape(Shape):
    """What becomes of a stream that was left alone."""

    after_s: float = Field(description="For how long nobody has to have committed it.")
    max_age_s: float | None = Field(description="Older records are passed over; null: all.")


class UseCaseRow(Shape):
    """A use case as deployed."""

    use_case: str
    topic: str
    digest: str
    order: Order
    #: of each partition; 1 is none
    buckets: int
    priority: int
    bad_record: BadRecordPolicy
    data_loss: DataLossPolicy
    retries: int
    handler_timeout_s: float
    max_rate_per_lane: float | None
    #: `earliest`, `latest`, a time, or JSON with an offset of each partition
    starting_offsets: str
    restart: RestartShape | None = Field(description="null: a stream goes on where it stopped.")
    all_tenants: bool
    creates_tenants: bool
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

    kind: Literal["stalled", "lag-growing", "quarantined", "topic-trouble", "driver-lost"]
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
    subjects: str | None = Field(
        description="Of role schemas: those that it sees, such as `acme.*`; null: all that it may."
    )
    label: str
    created_at_s: float
    expires_at_s: float | None
    revoked_at_s: float | None


class NewKey(KeyRow):
    """A new key; it is never shown again."""

    key: str


class ChangeRow(Shape):
    """A line of the audit log."""

    id: int
    at_s: float
    who: str
    action: str
    tenant: str | None
    status: int
    detail: str
    generation: int | None = Field(description="Of the tenant at that time.")


class Health(Shape):
    """Whether it works."""

    status: Literal["ok"]
