"""Every place where a part can be exchanged, as a promise.

The cycle knows only these Protocols, so it runs the same on real Kafka, Spark and PostgreSQL and
on the fakes in ``headrace.testing``. Each has one contract suite there, which the fake and the
real thing both pass. Arrow tables cross these lines inside tasks; none reaches the driver.
"""

from headrace.ports.connections import Connections, Server
from headrace.ports.dead_letters import DeadLetter, DeadLetters, DeadLettersFactory
from headrace.ports.encodings import (
    Encoded,
    Encoding,
    IdPlaces,
    SchemaToRegister,
    SubjectNames,
    Unencoded,
)
from headrace.ports.engine import Engine, PackedCode, WaveResult
from headrace.ports.failures import Failures
from headrace.ports.formats import (
    Decoded,
    Format,
    Payloads,
    Undecoded,
    Waiting,
    names_writers,
    needs_registry,
)
from headrace.ports.keys import Audit, Keys
from headrace.ports.log import STILL_TO_COME, Clock, Log, TopicInfo
from headrace.ports.membership import Membership
from headrace.ports.mirror import PositionsMirror
from headrace.ports.positions import (
    HostPositions,
    Positions,
    PositionsFactory,
    advance_groups,
)
from headrace.ports.progress import Finished, Progress
from headrace.ports.reading import (
    RECORD_SCHEMA,
    REDRIVE_HEADERS,
    ReaderFactory,
    SliceBatch,
    SliceReader,
)
from headrace.ports.registry import Registry
from headrace.ports.schema_subjects import (
    GivenNumbers,
    KeptSchema,
    NewSchema,
    Room,
    SchemaReference,
    SchemaSubjects,
    SubjectSeen,
    SubjectSetting,
    SubjectVersion,
)
from headrace.ports.schemas import (
    NoRegistry,
    NumberedSchemas,
    RegisteredSchema,
    Registering,
    RegistryClient,
    SchemaId,
    SchemaIds,
    SchemaKind,
    Schemas,
    SchemasFactory,
    WrittenSchema,
)
from headrace.ports.sink import (
    AskedFirst,
    Effect,
    RefusedRow,
    Sink,
    SinkFacts,
    SinkWriter,
    Site,
    Written,
    asks_first,
    compares_lanes,
    facts_of,
    keeps_state,
    marks_partitions,
    needs_shared_folder,
    topic_of,
)
from headrace.ports.state import KeptState, KeyedState
from headrace.ports.statistics import Statistics
from headrace.ports.store import Store
from headrace.ports.tenants import NoTenants, Tenants, TenantsFactory

__all__ = [
    "RECORD_SCHEMA",
    "REDRIVE_HEADERS",
    "STILL_TO_COME",
    "AskedFirst",
    "Audit",
    "Clock",
    "Connections",
    "DeadLetter",
    "DeadLetters",
    "DeadLettersFactory",
    "Decoded",
    "Effect",
    "Encoded",
    "Encoding",
    "Engine",
    "Failures",
    "Finished",
    "Format",
    "GivenNumbers",
    "HostPositions",
    "IdPlaces",
    "KeptSchema",
    "KeptState",
    "KeyedState",
    "Keys",
    "Log",
    "Membership",
    "NewSchema",
    "NoRegistry",
    "NoTenants",
    "NumberedSchemas",
    "PackedCode",
    "Payloads",
    "Positions",
    "PositionsFactory",
    "PositionsMirror",
    "Progress",
    "ReaderFactory",
    "RefusedRow",
    "RegisteredSchema",
    "Registering",
    "Registry",
    "RegistryClient",
    "Room",
    "SchemaId",
    "SchemaIds",
    "SchemaKind",
    "SchemaReference",
    "SchemaSubjects",
    "SchemaToRegister",
    "Schemas",
    "SchemasFactory",
    "Server",
    "Sink",
    "SinkFacts",
    "SinkWriter",
    "Site",
    "SliceBatch",
    "SliceReader",
    "Statistics",
    "Store",
    "SubjectNames",
    "SubjectSeen",
    "SubjectSetting",
    "SubjectVersion",
    "Tenants",
    "TenantsFactory",
    "TopicInfo",
    "Undecoded",
    "Unencoded",
    "Waiting",
    "WaveResult",
    "Written",
    "WrittenSchema",
    "advance_groups",
    "asks_first",
    "compares_lanes",
    "facts_of",
    "keeps_state",
    "marks_partitions",
    "names_writers",
    "needs_registry",
    "needs_shared_folder",
    "topic_of",
]
