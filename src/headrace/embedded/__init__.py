"""Real servers for one machine: Kafka, databases, search engines, mail and a Spark cluster.

Trying Headrace must need nothing but Python and Java. Each server here is the real thing, started
as a child that ends with its parent, with its data in one folder that it can come back to. Kinesis
alone is played, by a program of Node: nobody has it but Amazon.

Start at ``EmbeddedKafka``, ``EmbeddedPostgres``, ``EmbeddedCassandra``, ``EmbeddedHBase``,
``EmbeddedOpenSearch``, ``EmbeddedSolr``, ``EmbeddedValkey``, ``EmbeddedKinesis``, ``EmbeddedSmtp``
and ``EmbeddedSparkCluster``.
Other jars, such as those of Spark's own Kafka source, come from ``jars.jars``. Nothing here is for
production.
"""

from headrace.embedded.cassandra import EmbeddedCassandra
from headrace.embedded.hbase import EmbeddedHBase
from headrace.embedded.kafka_broker import EmbeddedKafka
from headrace.embedded.kinesis import EmbeddedKinesis
from headrace.embedded.opensearch import EmbeddedOpenSearch
from headrace.embedded.postgres import EmbeddedPostgres
from headrace.embedded.smtp import EmbeddedSmtp
from headrace.embedded.solr import EmbeddedSolr
from headrace.embedded.spark_cluster import EmbeddedSparkCluster
from headrace.embedded.valkey import EmbeddedValkey

__all__ = [
    "EmbeddedCassandra",
    "EmbeddedHBase",
    "EmbeddedKafka",
    "EmbeddedKinesis",
    "EmbeddedOpenSearch",
    "EmbeddedPostgres",
    "EmbeddedSmtp",
    "EmbeddedSolr",
    "EmbeddedSparkCluster",
    "EmbeddedValkey",
]
