"""One assignment from start to end: some lanes read together until each is complete or has failed.

librdkafka retries almost everything by itself and in silence: a topic that was deleted, a partition
without a leader and a broker that is down all look like no messages. A reader that waits for ever
holds a slot for ever. So when nothing has come for a while, the round looks at the cluster: what
two looks in a row find missing has failed, alone; and after ``FetchTimeouts.idle_s`` without any
progress, everything still open has.

The round hands out nothing itself: the reader takes what the lanes hold.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from headrace.connectors.kafka.config import servers
from headrace.connectors.kafka.consumers import Client
from headrace.connectors.kafka.faults import (
    ErrorKind,
    first_error,
    kind_of,
    of_client,
    of_partition,
)
from headrace.connectors.kafka.lane_read import LaneRead, Received
from headrace.errors import (
    BrokerUnavailable,
    ConfigError,
    HeadraceError,
    LeaderUnknown,
    OffsetOutOfRange,
    Temporary,
)
from headrace.model.streams import Slice

_MESSAGES_PER_TURN = 10_000
_WAIT_S = 0.02
_STRIKES = 2


@dataclass(frozen=True, slots=True)
class FetchTimeouts:
    """How long to wait for messages that do not come."""

    #: without any progress for so long, what is open fails with a temporary error
    idle_s: float = 30.0
    #: without any progress for so long, the cluster is looked at
    look_s: float = 1.0
    #: how long a look may take
    look_timeout_s: float = 2.0


class Round:
    """Some lanes, no two of the same partition, read together on one consumer."""

    def __init__(
        self,
        client: Client,
        pieces: Iterable[Slice],
        patience: FetchTimeouts,
        config: Mapping[str, str],
    ) -> None:
        self.lanes = {lane.key: lane for lane in map(LaneRead, pieces)}
        #: bytes of keys, values and headers taken since the start
        self.bytes = 0
        #: the last turn brought nothing that belongs to a slice
        self.quiet = False
        #: the consumer raised and is not to be used again
        self.broken = False
        self._client = client
        self._consumer = client.consumer
        self._patience = patience
        self._config = config
        self._assigned = dict(self.lanes)
        self._open = dict(self.lanes)
        self._unreachable = ""
        self._ended = False
        self.touch()

    def start(self) -> None:
        """Assign all lanes."""
        try:
            self._consumer.assign(
                [TopicPartition(*lane.key, lane.next_offset) for lane in self.lanes.values()]
            )
        except KafkaException as exc:
            self._break(exc)
            return
        topics = {lane.key.topic for lane in self.lanes.values()}
        self._unreachable = self._client.learn(topics, self._patience.look_timeout_s)
        self.touch()

    def turn(self) -> list[LaneRead]:
        """Wait shortly for messages; return the lanes that were completed or failed by it."""
        expected = sum(lane.missing_records for lane in self._open.values())
        try:
            messages = self._consumer.consume(min(expected, _MESSAGES_PER_TURN), _WAIT_S)
            self.quiet = not self._distribute(messages)
        except KafkaException as exc:
            self.quiet = True
            self._break(exc)
        self._judge_faults()
        if self.quiet and any(lane.open for lane in self._open.values()):
            self._wait_or_give_up()
        closed = [lane for lane in self._open.values() if not lane.open]
        for lane in closed:
            del self._open[lane.key]
        return closed

    @property
    def open_lanes(self) -> list[LaneRead]:
        """Lanes of which more is to come."""
        return list(self._open.values())

    def touch(self) -> None:
        """Count waiting from now: the time between two turns was somebody else's."""
        self._moved_s = self._looked_s = time.monotonic()

    def end(self) -> None:
        """Leave the consumer empty and ready for the next round; nothing more is fetched."""
        if self.broken or self._ended:
            return
        self._ended = True
        try:
            self._consumer.unassign()
        except KafkaException as exc:
            self._break(exc)

    def _distribute(self, messages: Sequence[Received]) -> bool:
        """Hand messages to their lanes; return whether any of them was of use."""
        if not messages:
            return False
        useless = 0
        if len(self.lanes) == 1:
            runs: Iterable[tuple[Any, Sequence[Received]]] = [(next(iter(self.lanes)), messages)]
        else:
            runs = ((key, list(run)) for key, run in groupby(messages, _key))
        for key, run in runs:
            lane = self.lanes.get(key)
            if lane is None:
                useless += len(run)
                continue
            header_bytes = lane.header_bytes
            useless += lane.take(run)
            self.bytes += lane.header_bytes - header_bytes
        self.bytes += _bytes_of(messages)
        if useless < len(messages):
            self.touch()
        if useless > len(messages) // 2:
            self._release()
        return useless < len(messages)

    def _release(self) -> None:
        """Stop fetching lanes that are complete: their topics' new records fill the queue."""
        done = [key for key, lane in self._assigned.items() if not lane.open]
        if done and len(done) < len(self._assigned):
            self._consumer.incremental_unassign([TopicPartition(*key) for key in done])
            for key in done:
                del self._assigned[key]

    def _judge_faults(self) -> None:
        for lane in self._open.values():
            if lane.fault is None or not lane.open:
                continue
            if kind_of(lane.fault) is ErrorKind.OUT_OF_RANGE:
                lane.error = self._out_of_range(lane, lane.fault)
            elif not lane.fault.retriable():
                lane.error = of_partition(lane.fault, str(lane.slice), self._config)
            lane.fault = None

    def _wait_or_give_up(self) -> None:
        now_s = time.monotonic()
        if self._client.refusal is not None:
            self._ask_again(self._client.refusal)
        elif now_s - self._moved_s >= self._patience.idle_s:
            for lane in self._open.values():
                lane.error = self._gave_up(lane)
        elif now_s - self._looked_s >= self._patience.look_s:
            self._look()

    def _ask_again(self, refusal: KafkaError) -> None:
        """A refusal may be of a moment that has passed, so it counts if nobody answers now."""
        self._look()
        if self._unreachable:
            self._fail_all(of_client(refusal, self._config))
            # The next one shows its credentials anew.
            self.broken = True

    def _look(self) -> None:
        try:
            topics = self._consumer.list_topics(timeout=self._patience.look_timeout_s).topics
        except KafkaException as exc:
            self._unreachable = first_error(exc).str()
            return
        finally:
            self._looked_s = time.monotonic()
        self._unreachable = ""
        self._client.accepted()
        for lane in self._open.values():
            error = self._found_wrong(lane, topics)
            lane.strikes = lane.strikes + 1 if error else 0
            if lane.strikes >= _STRIKES:
                lane.error = error

    def _found_wrong(self, lane: LaneRead, topics: Mapping[str, Any]) -> HeadraceError | None:
        topic, partition = lane.key
        found = topics.get(topic)
        missing = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)
        if found is None or found.error is not None:
            error = missing if found is None else found.error
            return of_partition(error, str(lane.slice), self._config)
        if partition not in found.partitions:
            return of_partition(missing, str(lane.slice), self._config)
        if found.partitions[partition].leader < 0:
            return LeaderUnknown(f"{lane.slice}: the partition has no leader at the moment")
        return None

    def _gave_up(self, lane: LaneRead) -> HeadraceError:
        waited = f"nothing came for {self._patience.idle_s:g} s"
        if self._unreachable:
            at = servers(self._config)
            return BrokerUnavailable(f"no Kafka broker answers at {at}: {self._unreachable}")
        if lane.eof is None:
            return LeaderUnknown(f"{lane.slice}: {waited}")
        return Temporary(
            f"{lane.slice}: {waited} past {lane.eof}, where the readable log ends; "
            "a transaction is open there, or the log lost its end"
        )

    def _out_of_range(self, lane: LaneRead, fault: KafkaError) -> OffsetOutOfRange:
        """The error, with the log's bounds if they can be had."""
        try:
            start, end = self._consumer.get_watermark_offsets(
                TopicPartition(*lane.key), timeout=self._patience.look_timeout_s
            )
        except KafkaException:
            return OffsetOutOfRange(f"{lane.slice}: {fault.str()}")
        return OffsetOutOfRange(
            f"{lane.slice}: offset {lane.next_offset} cannot be read; "
            f"the log now has {start}..{end} (start to end)"
        )

    def _fail_all(self, error: HeadraceError) -> None:
        for lane in self._open.values():
            lane.error = error

    def _break(self, exc: KafkaException) -> None:
        self.broken = True
        error = first_error(exc)
        refused = kind_of(error) is ErrorKind.BAD_CALL
        self._fail_all(
            ConfigError(f"Kafka: {error.str()}") if refused else of_client(error, self._config)
        )


def _bytes_of(messages: Sequence[Received]) -> int:
    """Of values, which is what the client takes for a message's length, and of keys.

    Headers may only be asked for as `LaneRead` does it, which counts them.
    """
    # Without a call for each message, since there may be a million a second.
    return sum([len(message) + len(message.key() or b"") for message in messages])


def _key(message: Received) -> tuple[str, int]:
    return message.topic(), message.partition()
