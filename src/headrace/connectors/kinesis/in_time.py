"""Amazon's client for Kinesis, of which each answer comes in time or not at all.

The client's own limit is one of each wait for the next bytes. A server that sends a byte now and
then would hold a task, or a thread of the driver's, for as long as it likes.
"""

from __future__ import annotations

from typing import Any

from headrace.connectors.amazon_clients import AmazonService
from headrace.connectors.kinesis.client import Answer


class KinesisInTime:
    """``Kinesis`` as a service that is given up when its time is over; safe in several threads."""

    def __init__(self, service: AmazonService) -> None:
        """Take what waits for its answers; contacts nobody."""
        self._service = service

    def describe_stream_summary(self, **asked: Any) -> Answer:
        """When a stream was made, and how long it keeps records."""
        return self._answer("describe_stream_summary", asked)

    def list_shards(self, **asked: Any) -> Answer:
        """Its shards, a page at a time."""
        return self._answer("list_shards", asked)

    def get_shard_iterator(self, **asked: Any) -> Answer:
        """Where to read a shard from."""
        return self._answer("get_shard_iterator", asked)

    def get_records(self, **asked: Any) -> Answer:
        """Records from there."""
        return self._answer("get_records", asked)

    def close(self) -> None:
        """Give up its connections."""
        self._service.close()

    def _answer(self, operation: str, asked: dict[str, Any]) -> Answer:
        told: Answer = self._service.asked(operation, asked)
        return told
