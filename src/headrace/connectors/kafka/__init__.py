"""All talk to Kafka: what is in the log, the reader of slices inside a task, and the sink.

The driver asks ``KafkaLog`` for offsets and never sees a record. A task makes a
``KafkaSliceReader`` with ``KafkaReaderFactory`` and reads exactly the slices of its bin. Client
properties pass through ``client_config`` once, where they come in. Records that cannot be handled
are kept in a topic beside their own (``KafkaDeadLetters``) and sent back from there
(``redrive``). ``GroupMirror`` shows positions as consumer groups. Results go to topics by the sink
``KafkaTopic`` (``sink`` and what begins with ``sink_``), which users name by ``headrace.sinks``.
"""

from headrace.connectors.kafka.clients import make_producer, told_ports
from headrace.connectors.kafka.config import client_config, producer_config
from headrace.connectors.kafka.dead_letters import KafkaDeadLetters, KafkaDeadLettersFactory
from headrace.connectors.kafka.faults import delivery_error
from headrace.connectors.kafka.group_mirror import GroupMirror
from headrace.connectors.kafka.log import KafkaLog
from headrace.connectors.kafka.offsets import OFFSETS
from headrace.connectors.kafka.reader import KafkaReaderFactory, KafkaSliceReader
from headrace.connectors.kafka.topics import create_topics

__all__ = [
    "OFFSETS",
    "GroupMirror",
    "KafkaDeadLetters",
    "KafkaDeadLettersFactory",
    "KafkaLog",
    "KafkaReaderFactory",
    "KafkaSliceReader",
    "client_config",
    "create_topics",
    "delivery_error",
    "make_producer",
    "producer_config",
    "told_ports",
]
