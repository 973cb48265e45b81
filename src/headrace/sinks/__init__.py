"""Where results go: one file a sink, its guarantee stated there. ``docs/sinks.md`` compares them.

Every sink keeps the promises of ``headrace.ports.SinkWriter`` and passes the same suite,
``headrace.testing.sink_contract``. ``failed`` and ``identity`` are for sinks of your own.
"""

from headrace.sinks.email import Email
from headrace.sinks.kafka_topic import KafkaTopic
from headrace.sinks.outcomes import failed, identity
from headrace.sinks.parquet_files import ParquetFiles
from headrace.sinks.sql_table import SqlTable

__all__ = ["Email", "KafkaTopic", "ParquetFiles", "SqlTable", "failed", "identity"]
