"""The tables of the store.

One database often serves two masters: the store and a SQL sink that moves positions in its own
transaction. So every table starts with ``headrace_``. Names are compared by code point on both
dialects (``COLLATE "C"`` on PostgreSQL), so that lists come in the same order everywhere and rows
are always locked in the same order.

These are the tables as of the newest migration; ``migrations/`` makes them, and a test compares
the two.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Dialect,
    Double,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    TypeDecorator,
    false,
    text,
    true,
)

from headrace.model.places import Place, read_place, text_of

NAME = Text().with_variant(Text(collation="C"), "postgresql")
#: SQLite counts up only columns of exactly this type
SERIAL = BigInteger().with_variant(Integer(), "sqlite")


class ExactText(TypeDecorator[str]):
    """Text from outside, kept to the last character as bytes.

    PostgreSQL refuses text with a NUL and both refuse lone surrogates, which a traceback that
    quotes a broken record may hold. A failure must not be lost for that.
    """

    impl = LargeBinary
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> bytes | None:
        """Text to bytes."""
        return None if value is None else value.encode("utf-8", "surrogatepass")

    def process_result_value(self, value: bytes | None, dialect: Dialect) -> str | None:
        """Bytes to the same text."""
        return None if value is None else value.decode("utf-8", "surrogatepass")


class PlaceText(TypeDecorator[Place]):
    """A place in a lane: more digits than a number has in either database, so it is text."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Place | None, dialect: Dialect) -> str | None:
        """A place to text."""
        return None if value is None else text_of(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> Place | None:
        """Text to the same place."""
        return None if value is None else read_place(value)


metadata = MetaData()

#: one row; locked first by every change of an operator, so that these never race each other
revisions = Table(
    "headrace_revision",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("revision", BigInteger, nullable=False),
)

#: the drivers that share the streams
drivers = Table(
    "headrace_drivers",
    metadata,
    Column("name", NAME, primary_key=True),
    #: grows with each start under this name; an older one is refused
    Column("number", BigInteger, nullable=False),
    #: which processes it is and was, the latest one first, as far as is known
    Column("processes", Text, nullable=False, server_default=""),
    #: grows as long as it lives
    Column("beats", BigInteger, nullable=False),
    #: JSON array of names
    Column("use_cases", Text, nullable=False),
)

#: random keys of this store, made with their row
secrets = Table(
    "headrace_secrets",
    metadata,
    Column("name", NAME, primary_key=True),
    Column("value", LargeBinary, nullable=False),
)

tenants = Table(
    "headrace_tenants",
    metadata,
    Column("name", NAME, primary_key=True),
    Column("state", Text, nullable=False),
    Column("weight", Double, nullable=False),
    Column("records_per_s", Double),
    Column("bytes_per_s", Double),
    Column("burst_s", Double, nullable=False, server_default="1"),
    #: of a suspended one, who did it; see ``stoppers.py``
    Column("stopped_by", Text),
    #: epochs below it are of earlier tenants of this name
    Column("generation", BigInteger, nullable=False, server_default="0"),
    #: NULL for the first of its name
    Column("added_again_s", Double),
    #: whether it has the streams of topics that name no tenant
    Column("reserved", Boolean, nullable=False, server_default=false()),
    #: when it was resumed last; NULL: never
    Column("resumed_s", Double),
)

deployments = Table(
    "headrace_deployments",
    metadata,
    Column("use_case", NAME, primary_key=True),
    Column("module", Text, nullable=False),
    Column("digest", Text, nullable=False),
    Column("topic", Text, nullable=False),
    Column("record_order", Text, nullable=False),
    #: as somebody wrote it: see ``model/starting.py``
    Column("starting_offsets", Text, nullable=False),
    Column("all_tenants", Boolean, nullable=False),
    #: those of whom its pattern finds topics
    Column("creates_tenants", Boolean, nullable=False, server_default=false()),
    Column("priority", Integer, nullable=False),
    #: JSON object
    Column("options", Text, nullable=False),
    Column("bad_record", Text, nullable=False, server_default="suspend"),
    Column("retries", Integer, nullable=False, server_default="3"),
    Column("handler_timeout_s", Double, nullable=False, server_default="30"),
    Column("max_rate_per_lane", Double),
    Column("data_loss", Text, nullable=False, server_default="fail"),
    Column("share", Double, nullable=False, server_default="1"),
    #: of a rerun: JSON object of offsets by lane
    Column("ends_at", Text),
    Column("guarantee", Text, nullable=False, server_default=""),
    Column("sink", Text, nullable=False, server_default=""),
    #: of each lane; 1 is none
    Column("buckets", Integer, nullable=False, server_default="1"),
    #: NULL: its streams go on where they stopped
    Column("restart_after_s", Double),
    Column("max_age_s", Double),
    #: that of the store when it was deployed last
    Column("revision", BigInteger, nullable=False, server_default="0"),
)

#: what drivers say to deployments; gone with their driver
answers = Table(
    "headrace_answers",
    metadata,
    Column("driver", NAME, primary_key=True),
    Column("use_case", NAME, primary_key=True),
    Column("revision", BigInteger, nullable=False),
    Column("digest", Text),
    Column("since_s", Double, nullable=False),
    Column("error", ExactText),
    Column("again", Boolean, nullable=False),
)

streams = Table(
    "headrace_streams",
    metadata,
    Column("use_case", NAME, ForeignKey("headrace_deployments.use_case"), primary_key=True),
    Column("tenant", NAME, ForeignKey("headrace_tenants.name"), primary_key=True),
    Column("topic", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("topic_id", Text),
    #: those of its topics before, youngest last, as a JSON array; NULL for none
    Column("left_ids", Text),
    #: whether it began when its topic was not there, so that all is read that comes
    Column("begun_without_topic", Boolean, nullable=False, server_default=false()),
    Column("epoch", BigInteger, nullable=False),
    Column("reason", Text),
    #: as in tenants
    Column("stopped_by", Text),
    #: the driver that plans it; NULL while it is free
    Column("holder", NAME),
    #: of lanes that follow nothing; above all that its lanes had when it was last sent back
    Column("depth", BigInteger, nullable=False, server_default="0"),
    #: it was left alone for so long, and is to pass over what is too old; NULL: it is not
    Column("silent_s", Double),
    #: since when somebody is to commit it: it was taken while it was free, was resumed, or a lane
    #: of it retried; NULL: it is free, or an earlier version took it
    Column("expected_s", Double),
)

positions = Table(
    "headrace_positions",
    metadata,
    Column("use_case", NAME, primary_key=True),
    Column("tenant", NAME, primary_key=True),
    #: what its log calls it
    Column("lane", NAME, primary_key=True),
    Column("next_offset", PlaceText, nullable=False, server_default="0"),
    Column("epoch", BigInteger, nullable=False),
    #: lanes that it follows: see ``parents.py``; NULL for none, as most logs have it
    Column("parents", Text),
    #: what comes above in the versions of its records
    Column("depth", BigInteger, nullable=False, server_default="0"),
    #: and below, of its next record, where its log has no number for each
    Column("ordinal", BigInteger, nullable=False, server_default="0"),
    #: when it was moved last, be it by decision: see ``moments.py``; NULL: nobody knows
    Column("moved_s", Double),
    #: to where that was; if it is elsewhere, it was moved since, and nobody knows when
    Column("moved_to", PlaceText),
    #: what it passed over last by decision; NULL for nothing
    Column("passed_from", PlaceText),
    Column("passed_until", PlaceText),
    ForeignKeyConstraint(
        ["use_case", "tenant"], ["headrace_streams.use_case", "headrace_streams.tenant"]
    ),
    sqlite_with_rowid=False,
)

#: what was read of slices whose ends only reading tells: see ``reads.py``
reads = Table(
    "headrace_reads",
    metadata,
    Column("use_case", NAME, primary_key=True),
    Column("tenant", NAME, primary_key=True),
    Column("lane", NAME, primary_key=True),
    Column("from_offset", PlaceText, nullable=False),
    Column("until_offset", PlaceText, nullable=False),
    Column("records", BigInteger, nullable=False),
    ForeignKeyConstraint(
        ["use_case", "tenant"], ["headrace_streams.use_case", "headrace_streams.tenant"]
    ),
    sqlite_with_rowid=False,
)

#: pages keep room, so that a row that changes stays on its own
_ROOM = {"fillfactor": 80}

#: what use cases remember of keys: see ``state.py``
state_rows = Table(
    "headrace_state",
    metadata,
    Column("use_case", NAME, primary_key=True),
    Column("tenant", NAME, primary_key=True),
    #: the lane of the log whose keys they are
    Column("part", NAME, primary_key=True),
    #: of the table that the use case names
    Column("name", NAME, primary_key=True),
    Column("key", LargeBinary, primary_key=True),
    Column("value", LargeBinary, nullable=False),
    sqlite_with_rowid=False,
    postgresql_with=_ROOM,
)

#: how much of it came of each lane; one that had some stays, also with nothing
state_sizes = Table(
    "headrace_state_sizes",
    metadata,
    Column("use_case", NAME, primary_key=True),
    Column("tenant", NAME, primary_key=True),
    Column("lane", NAME, primary_key=True),
    Column("row_count", BigInteger, nullable=False),
    Column("byte_count", BigInteger, nullable=False),
    sqlite_with_rowid=False,
    postgresql_with=_ROOM,
)

intents = Table(
    "headrace_intents",
    metadata,
    Column("id", SERIAL, primary_key=True),
    Column("wave_id", Text, nullable=False, unique=True),
    #: JSON object, see ``intents.py``
    Column("wave", Text, nullable=False),
    #: the driver that runs it
    Column("driver", NAME),
    sqlite_autoincrement=True,
)

failures = Table(
    "headrace_failures",
    metadata,
    Column("id", SERIAL, primary_key=True),
    Column("at_s", Double, nullable=False),
    Column("use_case", NAME, nullable=False),
    Column("tenant", NAME, nullable=False),
    Column("lane", NAME, nullable=False, server_default=""),
    Column("topic", Text, nullable=False),
    Column("from_offset", PlaceText, nullable=False, server_default="0"),
    Column("until_offset", PlaceText, nullable=False, server_default="0"),
    #: most records between the two
    Column("records", BigInteger, nullable=False, server_default="0"),
    Column("epoch", BigInteger, nullable=False),
    Column("more", Boolean, nullable=False),
    Column("temporary", Boolean, nullable=False),
    Column("code", Text, nullable=False),
    Column("message", ExactText, nullable=False),
    Column("traceback", ExactText, nullable=False),
    Column("record_offset", PlaceText),
    #: where the lane goes on behind the record
    Column("record_behind", PlaceText),
    Column("raw_key", LargeBinary),
    Column("raw_value", LargeBinary),
    Column("retry_after_s", Double),
    Column("attempts", Integer, nullable=False, server_default="1"),
    Column("state", Text, nullable=False, server_default="retried"),
    #: milliseconds since 1970
    Column("record_timestamp_ms", BigInteger),
    #: how often it failed there
    Column("times", Integer, nullable=False, server_default="1"),
    #: of record and texts, nearly
    Column("kept_bytes", BigInteger, nullable=False, server_default="0"),
    Column("record_kept", Boolean, nullable=False, server_default=true()),
    ForeignKeyConstraint(
        ["use_case", "tenant"], ["headrace_streams.use_case", "headrace_streams.tenant"]
    ),
    sqlite_autoincrement=True,
)

#: what a tenant keeps is counted at each failure of it
Index("headrace_failures_tenants", failures.c.tenant, failures.c.id)
_OPEN = text("state = 'open'")
#: an open failure stops its lane, so a lane has one at most, whoever writes
open_failures = Index(
    "headrace_open_failures",
    failures.c.use_case,
    failures.c.tenant,
    failures.c.lane,
    unique=True,
    sqlite_where=_OPEN,
    postgresql_where=_OPEN,
)

failure_headers = Table(
    "headrace_failure_headers",
    metadata,
    Column("failure_id", SERIAL, ForeignKey("headrace_failures.id"), primary_key=True),
    #: place among the record's headers; a name may come twice
    Column("place", Integer, primary_key=True, autoincrement=False),
    Column("name", ExactText, nullable=False),
    Column("value", LargeBinary),
)

keys = Table(
    "headrace_keys",
    metadata,
    Column("prefix", NAME, primary_key=True),
    #: HMAC-SHA-256 of the key
    Column("digest", LargeBinary, nullable=False),
    Column("role", Text, nullable=False),
    Column("tenant", NAME, ForeignKey("headrace_tenants.name")),
    Column("label", ExactText, nullable=False),
    Column("created_at_s", Double, nullable=False),
    Column("expires_at_s", Double),
    Column("revoked_at_s", Double),
    #: of role schemas: those that it sees; NULL: all
    Column("subjects", ExactText),
)

#: who did what; callers choose some of the words, and the tenant may be one that nobody added
audit = Table(
    "headrace_audit",
    metadata,
    Column("id", SERIAL, primary_key=True),
    Column("at_s", Double, nullable=False),
    Column("who", ExactText, nullable=False),
    Column("action", ExactText, nullable=False),
    Column("tenant", ExactText),
    Column("status", Integer, nullable=False),
    Column("detail", ExactText, nullable=False),
    #: of the tenant, if there is one of this name
    Column("generation", BigInteger),
    Index("headrace_audit_tenants", "tenant", "id"),
    sqlite_autoincrement=True,
)


#: what each driver told last; figures for people
reports = Table(
    "headrace_reports",
    metadata,
    Column("driver", NAME, primary_key=True),
    Column("at_s", Double, nullable=False),
    #: see ``report_form.py``
    Column("report", LargeBinary, nullable=False),
)

#: what streams went through, by span of time
points = Table(
    "headrace_points",
    metadata,
    Column("use_case", NAME, primary_key=True),
    Column("tenant", NAME, primary_key=True),
    Column("span_s", Integer, primary_key=True, autoincrement=False),
    #: whole seconds since 1970: spans begin at multiples of their length
    Column("from_s", BigInteger, primary_key=True, autoincrement=False),
    Column("lag_records", BigInteger, nullable=False),
    Column("lag_s", Double, nullable=False),
    Column("records_in", BigInteger, nullable=False),
    Column("records_out", BigInteger, nullable=False),
    Column("task_s", Double, nullable=False),
    Column("delays", BigInteger, nullable=False),
    Column("min_s", Double),
    Column("p50_s", Double),
    Column("p95_s", Double),
    Column("p99_s", Double),
    Column("max_s", Double),
    Column("sketch", LargeBinary, nullable=False),
    sqlite_with_rowid=False,
)
#: old points are looked for every minute, and the last half hour of all streams is asked for
Index("headrace_points_from", points.c.from_s)

#: one row: the highest id that a schema ever had; locked first by every change of the registry's
schema_ids = Table(
    "headrace_schema_ids",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("newest", BigInteger, nullable=False),
)

#: schemas that teams agree on
schemas = Table(
    "headrace_schemas",
    metadata,
    Column("id", BigInteger, primary_key=True, autoincrement=False),
    Column("digest", LargeBinary, nullable=False, unique=True),
    Column("guid", Text, nullable=False, unique=True),
    Column("kind", Text, nullable=False),
    #: to the letter as it was sent
    Column("text", ExactText, nullable=False),
)

schema_references = Table(
    "headrace_schema_references",
    metadata,
    Column("schema_id", BigInteger, ForeignKey("headrace_schemas.id"), primary_key=True),
    #: place among the references
    Column("place", Integer, primary_key=True, autoincrement=False),
    Column("name", ExactText, nullable=False),
    Column("subject", NAME, nullable=False),
    Column("version", Integer, nullable=False),
    Index("headrace_schema_referred", "subject", "version"),
)

schema_versions = Table(
    "headrace_schema_versions",
    metadata,
    Column("subject", NAME, primary_key=True),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("schema_id", BigInteger, ForeignKey("headrace_schemas.id"), nullable=False),
    Column("deleted", Boolean, nullable=False),
    Index("headrace_schema_versions_schemas", "schema_id"),
)

#: what is set for a subject; the empty name stands for all
schema_settings = Table(
    "headrace_schema_settings",
    metadata,
    Column("subject", NAME, primary_key=True),
    Column("setting", Text, primary_key=True),
    Column("value", Text, nullable=False),
)
