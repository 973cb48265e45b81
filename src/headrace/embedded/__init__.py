"""Real servers for one machine: Kafka and a mail server, each in a folder.

Trying Headrace must need nothing but Python and Java. Each server here is the real thing, started
as a child that ends with its parent, with its data in one folder that it can come back to.

Start at ``EmbeddedKafka`` and ``EmbeddedSmtp``. Other jars, such as those of Spark's own Kafka
source, come from ``jars.jars``. Nothing here is meant for production.
"""

from headrace.embedded.kafka_broker import EmbeddedKafka
from headrace.embedded.smtp import EmbeddedSmtp

__all__ = ["EmbeddedKafka", "EmbeddedSmtp"]
