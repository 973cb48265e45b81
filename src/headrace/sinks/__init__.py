"""Where results go: one file a sink, its guarantee stated there. ``docs/sinks.md`` compares them.

Every sink keeps the promises of ``headrace.ports.SinkWriter`` and passes the same suite,
``headrace.testing.sink_contract``.
"""

from headrace.sinks.email import Email
from headrace.sinks.kafka_topic import KafkaTopic
from headrace.sinks.parquet_files import ParquetFiles
from headrace.sinks.sql_table import SqlTable

__all__ = ["Email", "KafkaTopic", "ParquetFiles", "SqlTable"]
