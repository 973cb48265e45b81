"""Where results go: the sinks that a use case can name. ``docs/sinks.md`` compares them.

Each stands with whatever else talks to the same kind of server, below ``headrace.connectors``.

Every sink keeps the promises of ``headrace.ports.SinkWriter`` and passes the same suite,
``headrace.testing.sink_contract``. ``failed`` and ``identity`` are for sinks of your own.

Each is imported when it is used: together they bring SQLAlchemy, Kafka's client and what else talks
to a server, and most use cases name one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.late_imports import imported_late

if TYPE_CHECKING:
    from headrace.connectors.cassandra.table import CassandraTable
    from headrace.connectors.delta.sink import DeltaTable
    from headrace.connectors.dynamodb.table import DynamoTable
    from headrace.connectors.email.sink import Email
    from headrace.connectors.files.parquet import ParquetFiles
    from headrace.connectors.hbase.table import HBaseTable
    from headrace.connectors.kafka.sink import KafkaTopic
    from headrace.connectors.kinesis.sink import KinesisStream
    from headrace.connectors.outcomes import failed, identity
    from headrace.connectors.redis.hashes import RedisHashes
    from headrace.connectors.search.index import SearchIndex
    from headrace.connectors.solr.index import SolrIndex
    from headrace.connectors.sql.table import SqlTable

__all__ = [
    "CassandraTable",
    "DeltaTable",
    "DynamoTable",
    "Email",
    "HBaseTable",
    "KafkaTopic",
    "KinesisStream",
    "ParquetFiles",
    "RedisHashes",
    "SearchIndex",
    "SolrIndex",
    "SqlTable",
    "failed",
    "identity",
]

if not TYPE_CHECKING:  # a type checker would take any name for one of it
    __getattr__, __dir__ = imported_late(
        __name__,
        {
            "headrace.connectors.cassandra.table": ("CassandraTable",),
            "headrace.connectors.delta.sink": ("DeltaTable",),
            "headrace.connectors.dynamodb.table": ("DynamoTable",),
            "headrace.connectors.email.sink": ("Email",),
            "headrace.connectors.files.parquet": ("ParquetFiles",),
            "headrace.connectors.hbase.table": ("HBaseTable",),
            "headrace.connectors.kafka.sink": ("KafkaTopic",),
            "headrace.connectors.kinesis.sink": ("KinesisStream",),
            "headrace.connectors.outcomes": (
                "failed",
                "identity",
            ),
            "headrace.connectors.redis.hashes": ("RedisHashes",),
            "headrace.connectors.search.index": ("SearchIndex",),
            "headrace.connectors.solr.index": ("SolrIndex",),
            "headrace.connectors.sql.table": ("SqlTable",),
        },
    )
