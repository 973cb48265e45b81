"""What becomes of effects that are there already when they are made again, sink by sink.

Only the use case knows its sink, so this can be told where its module can be loaded. That a record
is read again, and how many are, is told without it (``again.py``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from headrace.connectors.kafka.tenant_topics import TenantTopics
from headrace.ports import Sink
from headrace.sinks import (
    CassandraTable,
    DeltaTable,
    DynamoTable,
    Email,
    HBaseTable,
    KafkaTopic,
    KinesisStream,
    ParquetFiles,
    RedisHashes,
    SearchIndex,
    SolrIndex,
    SqlTable,
)

_CALLED: Final = {
    RedisHashes: "hashes",
    SearchIndex: "index",
    DynamoTable: "table",
    HBaseTable: "table",
}
_SENT: Final[dict[type, str]] = {
    KafkaTopic: "messages",
    TenantTopics: "messages",
    KinesisStream: "records",
    Email: "mails",
}
_REPLACED: Final = ": rows that are as new as those there, or newer, replace them"
_BUT: Final[dict[type, str]] = {
    HBaseTable: "; of what is as new a delete stays, and so does a null"
}


def repeated(sink: Sink | None) -> str:
    """What it means for this sink, in one sentence."""
    match sink:
        case SqlTable():
            told = f"table {sink.name}{_in_a_table(sink)}"
        case CassandraTable():
            told = (
                f"table {sink.name}: rows that are newer than those there replace them; of what is "
                "as new the larger value of each column stays"
            )
        case RedisHashes() | SearchIndex() | DynamoTable() | HBaseTable():
            told = f"{_word_of(_CALLED, sink)} {sink.name}{_REPLACED}{_word_of(_BUT, sink)}"
        case SolrIndex():
            told = (
                f"index {sink.name}: rows that are newer than those there replace them; of what is "
                "as new that which is there stays"
            )
        case DeltaTable():
            told = f"Delta table {sink.folder}: rows come a second time"
        case ParquetFiles():
            told = "files: rows come a second time, unless a slice is cut as it was"
        case KafkaTopic() | TenantTopics() | KinesisStream() | Email():
            told = f"{_word_of(_SENT, sink)}: they are sent a second time"
        case None:
            told = "what the handler writes by itself is written a second time"
        case _:
            told = f"{type(sink).__name__}: what it does is done a second time"
    return told


def _word_of(words: Mapping[type, str], sink: Sink) -> str:
    """What is said of sinks of this kind, also of one that somebody made of it."""
    return next((word for kind, word in words.items() if isinstance(sink, kind)), "")


def _in_a_table(sink: SqlTable) -> str:
    if not sink.key:
        return " has no key: its rows come a second time"
    if sink.update:
        return ": its update is made a second time to the rows that are there"
    if sink.keeps_newest:
        return _REPLACED
    return ": rows of the same key are written over"
