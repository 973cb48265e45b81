"""What whoever reads a shard knows of its stream: how long it keeps records, and shards' keys.

Both change seldom, and both cost requests that are rationed for a whole account. So each is asked
for when it is needed, which is hardly ever, and remembered for a while.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from headrace.connectors.kinesis.client import Kinesis, translated
from headrace.connectors.kinesis.shards import HashRange, Shard, ShardOf, in_order, read_shard
from headrace.errors import ConfigError
from headrace.ports import Clock

#: how long something counts as known
_REMEMBERED_S = 60.0
_HOUR_MS = 3_600_000


@dataclass(slots=True)
class Streams:
    """Streams, as they were when somebody asked last."""

    client: Kinesis
    clock: Clock
    _kept_ms: dict[str, tuple[float, int]] = field(default_factory=dict)
    _keys: dict[ShardOf, HashRange] = field(default_factory=dict)

    def kept_ms(self, stream: str) -> int:
        """How long a stream keeps records.

        Raises:
            HeadraceError: nobody says so.
        """
        now_s = self.clock.monotonic_s()
        asked_s, found = self._kept_ms.get(stream, (float("-inf"), 0))
        if now_s - asked_s > _REMEMBERED_S:
            try:
                told = self.client.describe_stream_summary(StreamName=stream)
            except Exception as error:
                raise translated(error, f"stream {stream}") from error
            found = int(told["StreamDescriptionSummary"]["RetentionPeriodHours"]) * _HOUR_MS
            self._kept_ms[stream] = now_s, found
        return found

    def keys_of(self, shard: ShardOf) -> HashRange:
        """Which hash keys a shard has, for ever.

        Raises:
            HeadraceError: nobody says so.
        """
        if shard not in self._keys:
            for one in listed(self.client, shard.stream):
                self._keys[ShardOf(shard.stream, one.number)] = one.keys
        if shard not in self._keys:
            # Retention took it meanwhile, so nothing of it is read any more.
            return HashRange(0, 2**128 - 1)
        return self._keys[shard]


def listed(client: Kinesis, stream: str) -> list[Shard]:
    """The shards of a stream, parents before what follows them.

    Raises:
        HeadraceError: it has none, or nobody says so.
    """
    try:
        return [*in_order(read_shard(told) for page in _pages(client, stream) for told in page)]
    except ValueError as error:
        raise ConfigError(f"stream {stream}: {error}") from error
    except Exception as error:
        raise translated(error, f"stream {stream}") from error


def _pages(client: Kinesis, stream: str) -> Iterator[list[dict[str, object]]]:
    told = client.list_shards(StreamName=stream)
    yield told["Shards"]
    while told.get("NextToken"):
        told = client.list_shards(NextToken=told["NextToken"])
        yield told["Shards"]
