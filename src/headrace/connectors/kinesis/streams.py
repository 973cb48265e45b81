"""What whoever reads a shard knows of its stream: how long it keeps records, and shards' keys.

Both change seldom, and both cost requests that are rationed for a whole account. So each is asked
for when it is needed, which is hardly ever, and remembered for a while.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from headrace.connectors.kinesis.client import ODD_CLOCK_MS, Kinesis, moment, translated
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
    #: by name: when it was asked about, how long it keeps records, when it was made
    _known: dict[str, tuple[float, int, int]] = field(default_factory=dict)
    _keys: dict[ShardOf, HashRange] = field(default_factory=dict)

    def kept_ms(self, stream: str) -> int:
        """How long a stream keeps records.

        Raises:
            HeadraceError: nobody says so.
        """
        return self._asked(stream)[0]

    def may_have_lost(self, shard: ShardOf) -> bool:
        """Whether retention may have taken records of a shard, so far as it is old enough for that.

        Raises:
            HeadraceError: nobody says so.
        """
        kept_ms, made_ms = self._asked(shard.stream)
        horizon_ms = round(self.clock.now_s() * 1000) - kept_ms + ODD_CLOCK_MS
        if made_ms > horizon_ms:
            return False
        return shard.number in {
            one.number for one in listed(self.client, shard.stream, there_ms=horizon_ms)
        }

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

    def _asked(self, stream: str) -> tuple[int, int]:
        """How long it keeps records, and when it was made."""
        now_s = self.clock.monotonic_s()
        asked_s, kept_ms, made_ms = self._known.get(stream, (float("-inf"), 0, 0))
        if now_s - asked_s > _REMEMBERED_S:
            try:
                told = self.client.describe_stream_summary(StreamName=stream)
            except Exception as error:
                raise translated(error, f"stream {stream}") from error
            summary = told["StreamDescriptionSummary"]
            kept_ms = int(summary["RetentionPeriodHours"]) * _HOUR_MS
            made_ms = round(summary["StreamCreationTimestamp"].timestamp() * 1000)
            self._known[stream] = now_s, kept_ms, made_ms
        return kept_ms, made_ms


def listed(client: Kinesis, stream: str, there_ms: int | None = None) -> list[Shard]:
    """The shards of a stream, parents before what follows them.

    Args:
        client: who is asked.
        stream: its name.
        there_ms: only those that took records at this moment, in milliseconds since 1970.

    Raises:
        HeadraceError: it has none, or nobody says so.
    """
    try:
        pages = _pages(client, stream, there_ms)
        return [*in_order(read_shard(told) for page in pages for told in page)]
    except ValueError as error:
        raise ConfigError(f"stream {stream}: {error}") from error
    except Exception as error:
        raise translated(error, f"stream {stream}") from error


def _pages(
    client: Kinesis, stream: str, there_ms: int | None
) -> Iterator[list[Mapping[str, object]]]:
    if there_ms is None:
        told = client.list_shards(StreamName=stream)
    else:
        only = {"Type": "AT_TIMESTAMP", "Timestamp": moment(there_ms)}
        told = client.list_shards(StreamName=stream, ShardFilter=only)
    yield told["Shards"]
    while told.get("NextToken"):
        told = client.list_shards(NextToken=told["NextToken"])
        yield told["Shards"]
