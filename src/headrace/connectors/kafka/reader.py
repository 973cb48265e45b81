"""Reads the slices of a bin inside a Spark task.

A bin holds a thousand slices of a few records, or a few of a hundred thousand. Read one after the
other, the small ones cost a round trip each; read all at once, the large ones fill the memory. So
small slices are assigned together, told apart as they arrive and given out whole, while a large
slice is assigned alone and given out as it comes.

No consumer group is joined and no offset is committed. What the slices should be is the planner's
decision, and what to do about one that fails the cycle's.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from headrace.connectors.kafka.batches import first, profile_of, rounds_of, whole
from headrace.connectors.kafka.config import client_config, servers
from headrace.connectors.kafka.consumers import Clients
from headrace.connectors.kafka.faults import slice_error
from headrace.connectors.kafka.lane_read import LaneRead
from headrace.connectors.kafka.partitions import partition_of
from headrace.connectors.kafka.rounds import FetchTimeouts, Round
from headrace.connectors.kafka.tables import table_of
from headrace.errors import ConfigError, TopicMissing
from headrace.model.receipts import SliceError
from headrace.model.streams import Slice
from headrace.ports import Connections, SliceBatch, SliceReader

#: bytes of keys, values and headers held before they are given out, or a round is given up as too
#: heavy
_HELD_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class KafkaReaderFactory:
    """``headrace.ports.ReaderFactory`` for a real cluster.

    Attributes:
        patience: how long the reader waits when nothing comes.
    """

    patience: FetchTimeouts = field(default_factory=FetchTimeouts)

    def open(self, connections: Connections) -> SliceReader:
        """A reader for this worker; it connects at its first read."""
        return KafkaSliceReader(connections.kafka, self.patience, connections.seal_key)


class KafkaSliceReader:
    """``headrace.ports.SliceReader`` on a real cluster."""

    def __init__(
        self,
        config: Mapping[str, str],
        patience: FetchTimeouts | None = None,
        seal_key: bytes = b"",
    ) -> None:
        """Take client properties; ``ConfigError`` if they cannot be used.

        Without a key of seals nothing counts as sent back, and every record is given.
        """
        self._seal_key = seal_key
        self._config = client_config(config)
        self._clients = Clients(self._config)
        self._patience = patience or FetchTimeouts()

    def __repr__(self) -> str:
        return f"KafkaSliceReader({servers(self._config)})"

    def read(self, slices: Sequence[Slice], batch_records: int) -> Iterator[SliceBatch]:
        """Yield the records of each slice; small slices first."""
        readable = []
        for piece in slices:
            if piece.is_empty:
                yield SliceBatch(piece, table_of([]), piece.until_offset, last=True)
            elif (strange := _strange(piece)) is not None:
                yield SliceBatch(piece, table_of([]), piece.from_offset, last=True, error=strange)
            else:
                readable.append(piece)
        waiting = rounds_of(readable)
        while waiting:
            heavy = yield from self._read_round(waiting.pop(0), batch_records)
            waiting[:0] = [[piece] for piece in heavy]

    def close(self) -> None:
        """Give up connections."""
        self._clients.close()

    def _read_round(
        self, pieces: Sequence[Slice], batch_records: int
    ) -> Generator[SliceBatch, None, list[Slice]]:
        """Read some slices together; return those that proved too heavy for that."""
        profile = profile_of(pieces[0])
        try:
            client = self._clients.of(profile)
        except ConfigError as exc:
            error = slice_error(exc)
            for piece in pieces:
                yield SliceBatch(piece, table_of([]), piece.from_offset, last=True, error=error)
            return []
        together = Round(client, pieces, self._patience, self._config)
        try:
            together.start()
            if len(pieces) == 1:
                yield from _stream(together, batch_records, self._seal_key)
                return []
            return (yield from _gather(together, batch_records, self._seal_key))
        finally:
            together.end()
            if together.broken:
                self._clients.drop(profile)


def _strange(piece: Slice) -> SliceError | None:
    """Why no partition can be what a slice is of; None where one may."""
    try:
        partition_of(piece)
    except TopicMissing as exc:
        return slice_error(exc)
    return None


def _stream(alone: Round, batch_records: int, seal_key: bytes) -> Iterator[SliceBatch]:
    (lane,) = alone.lanes.values()
    given_bytes = 0
    while lane.open:
        alone.turn()
        heavy = alone.bytes - given_bytes > _HELD_BYTES
        while lane.open and lane.held and (heavy or len(lane.held) >= batch_records):
            given_bytes = alone.bytes
            yield first(lane, batch_records, seal_key)
            alone.touch()
    alone.end()
    yield from whole([lane], batch_records, seal_key)


def _gather(
    together: Round, batch_records: int, seal_key: bytes
) -> Generator[SliceBatch, None, list[Slice]]:
    ready: list[LaneRead] = []
    given_bytes = 0
    while together.open_lanes:
        ready += together.turn()
        heavy = together.bytes - given_bytes > _HELD_BYTES
        if heavy and not ready:
            return [lane.slice for lane in together.open_lanes]
        if ready and (heavy or together.quiet):
            # Nobody waits for a lane that is silent.
            given_bytes = together.bytes
            yield from whole(ready, batch_records, seal_key)
            ready = []
            together.touch()
    together.end()
    yield from whole(ready, batch_records, seal_key)
    return []
