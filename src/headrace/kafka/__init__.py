"""All talk to Kafka: what is in the log, and the reader of slices inside a task.

The driver asks ``KafkaLog`` for offsets and never sees a record. A task makes a
``KafkaSliceReader`` with ``KafkaReaderFactory`` and reads exactly the slices of its bin. Client
properties pass through ``client_config`` once, where they come in. Records that cannot be handled
are kept in a topic beside their own (``KafkaDeadLetters``) and sent back from there
(``headrace.kafka.redrive``). ``GroupMirror`` shows positions as consumer groups. Writing results to
topics is a sink (``headrace.sinks.KafkaTopic``), not this room's work.
"""

from headrace.kafka.config import client_config, producer_config
from headrace.kafka.dead_letters import KafkaDeadLetters, KafkaDeadLettersFactory
from headrace.kafka.group_mirror import GroupMirror
from headrace.kafka.letter_topics import letters_topic
from headrace.kafka.log import KafkaLog
from headrace.kafka.reader import KafkaReaderFactory, KafkaSliceReader
from headrace.kafka.topics import create_topics

__all__ = [
    "GroupMirror",
    "KafkaDeadLetters",
    "KafkaDeadLettersFactory",
    "KafkaLog",
    "KafkaReaderFactory",
    "KafkaSliceReader",
    "client_config",
    "create_topics",
    "letters_topic",
    "producer_config",
]
