"""Kinesis as a log: streams are topics, shards are lanes that split and merge."""

from headrace.connectors.kinesis.log import KinesisLog
from headrace.connectors.kinesis.reader import KinesisReaderFactory

__all__ = ["KinesisLog", "KinesisReaderFactory"]
