"""What an operator may say of a use case and of a driver."""

from __future__ import annotations

from pydantic import BaseModel, Field, field_validator, model_validator

from headrace.model.restarts import Restart, RestartFrom, restart_of
from headrace.model.streams import DataLossPolicy
from headrace.settings.fields import STRICT, Beginning, Bytes, Properties, Seconds

#: what groups begin with that hold more than what the mirror shows
_OTHER_GROUPS = ("headrace.tx.", "headrace.redrive.", "headrace-reader-")


class UseCaseSettings(BaseModel):
    """What an operator may choose for one use case, without touching its code."""

    model_config = STRICT

    #: share of the executors against the other use cases
    priority: int = Field(default=1, ge=1)
    #: where a stream begins, once: earliest, latest, a time with its zone, or Spark's JSON with an
    #: offset of each partition, such as {"visits": {"0": 23}}
    startingOffsets: Beginning = "earliest"  # noqa: N815 - Spark's word
    #: every tenant has it; false: streams are added one by one
    all_tenants: bool = True
    #: where it reads topics by a pattern: who has such a topic is added as a tenant; false: is told
    creates_tenants: bool = False
    #: how often a record that a handler raised or hung at is tried again, with waits between,
    #: before that counts as the record's fault and ``bad_record`` of the use case decides
    retries: int = Field(default=3, ge=0)
    #: seconds that one call of the handler may take; longer and its worker is ended, and the slice
    #: counts as hung
    handler_timeout: Seconds = Field(default="30s")  # type: ignore[assignment]
    #: most records a second of one lane, for handlers that talk to something slow; null: no limit;
    #: the buckets of a lane have it together
    max_rate_per_lane: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    #: what becomes of a stream whose topic no longer has the records that are next: fail suspends
    #: it with the offsets until somebody seeks it, skip lets it go on where the topic does
    data_loss: DataLossPolicy = DataLossPolicy.FAIL
    #: where a stream goes on that its last driver did not give back and that nobody committed for
    #: restart_after: position, where it stopped, or latest, at the end of its log or at the first
    #: record that is not older than max_age; said here, nothing of it is as the decorator says
    restart: RestartFrom | None = None
    restart_after: Seconds | None = None
    max_age: Seconds | None = None
    #: handed to the handler as context.options
    options: Properties = {}

    @model_validator(mode="after")
    def _restarts_in_order(self) -> UseCaseSettings:
        _ = self.restarts
        return self

    @property
    def restarts(self) -> Restart | None:
        """What becomes of a stream that nobody read for a while; None: it goes on where it was."""
        said = self.restart or RestartFrom.POSITION
        return restart_of(said, self.restart_after, self.max_age, ("restart_after", "max_age"))


class DriverSettings(BaseModel):
    """How a driver works."""

    model_config = STRICT

    #: unique among the drivers that share the store, where the next one of a name replaces the one
    #: before; none: the machine's name and the module
    name: str | None = Field(default=None, min_length=1)
    #: silence after which the other drivers of the store take over what this one holds
    lease: Seconds = Field(default="15s")  # type: ignore[assignment]
    #: predicted task time of a bin; also the time after which a running one yields
    bin_budget: Seconds = Field(default="1s")  # type: ignore[assignment]
    #: bins of one wave; few means that quick tenants wait less for slow ones
    bins_per_wave: int = Field(default=1, ge=1)
    #: most tasks at once on a cluster whose executors follow the load; none: as many as Spark has
    most_slots: int | None = Field(default=None, ge=1)
    #: executors that stay when nothing is to do, where most_slots is set
    least_slots: int = Field(default=1, ge=1)
    #: a backlog is to be worked off within so long; more slots are used until it is
    target_delay: Seconds = Field(default="2s")  # type: ignore[assignment]
    #: most records of one slice
    slice_records: int = Field(default=100_000, ge=1)
    #: most bytes of one slice; bounds the memory of a worker
    slice_bytes: Bytes = Field(default="64m")  # type: ignore[assignment]
    #: how long a draining driver waits for running waves before it cancels them
    drain_timeout: Seconds = Field(default="30s")  # type: ignore[assignment]
    #: show positions as the offsets of consumer groups, for tools that watch lag
    mirror: bool = True
    #: of lanes in Kinesis show them as leases, in tables of DynamoDB at this connection; none: not
    mirror_leases: str | None = Field(default=None, min_length=1)
    #: what the names of these groups and tables begin with; the name of the use case follows
    mirror_prefix: str = Field(default="headrace.", min_length=1)

    @field_validator("mirror_prefix")
    @classmethod
    def _of_no_other_group(cls, prefix: str) -> str:
        taken = next((taken for taken in _OTHER_GROUPS if prefix.startswith(taken)), None)
        if taken is not None:
            raise ValueError(
                f"groups that begin with {taken} hold how far something else has come, which the "
                "mirror would write over; choose another prefix"
            )
        if any(character.isspace() for character in prefix):
            raise ValueError("the name of a group has no spaces; choose another prefix")
        return prefix
