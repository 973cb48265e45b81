"""What is in Kafka, for thousands of lanes at once, without reading a record.

The planner needs the end of every lane that may have something new, so one call must answer for all
of them, and one partition without a leader must not hold up the rest. There are two ways to ask.
The quick one is good for partitions that are well. What it leaves out is asked carefully, and asked
so from then on until there is an answer (see ``watermarks``); what had none is asked for once a
second at most, since thousands of tenants may have no topic yet, and every other one's turn waits.

No answer is kept between calls: how often to ask is the cycle's decision.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient

from headrace.connectors.kafka.clients import end_clients, opened
from headrace.connectors.kafka.config import admin_config, servers
from headrace.connectors.kafka.faults import ErrorKind, first_error, kind_of, of_client
from headrace.connectors.kafka.offsets import OFFSETS
from headrace.connectors.kafka.partitions import TopicPartition, by_partition
from headrace.connectors.kafka.watermarks import END, START, Watermarks
from headrace.errors import BrokerUnavailable
from headrace.model.lane_names import in_order, named
from headrace.model.places import Place, Places, place_at
from headrace.model.topic_names import TOPIC_NAME
from headrace.ports import TopicInfo

#: topics of one description request: the answers of thousands would block a broker's thread long
_TOPICS_PER_REQUEST = 500
_ASK_AGAIN_S = 1.0


class KafkaLog:
    """``headrace.ports.Log`` on a real cluster."""

    def __init__(self, config: Mapping[str, str], timeout_s: float = 5.0) -> None:
        """Connect lazily.

        Args:
            config: client properties.
            timeout_s: how long one round of requests may take.

        Raises:
            ConfigError: librdkafka does not accept a property.
        """
        self._config = admin_config(config)
        self._timeout_s = timeout_s
        self._refusal: KafkaError | None = None
        #: partitions that had no answer the last time, or one that is doubted
        self._unanswered: set[TopicPartition] = set()
        #: the monotonic second from which on they are asked for again
        self._ask_again_s = 0.0
        # A connection to a broker that hangs is given up no sooner; 60 s, if not told.
        settings = {"socket.timeout.ms": str(max(1000, round(timeout_s * 1000))), **self._config}
        self._admin = opened(AdminClient, settings, error_cb=self._remember)
        self._edges = Watermarks(self._config, timeout_s)

    def __repr__(self) -> str:
        return f"KafkaLog({servers(self._config)})"

    def of(self, topic: str) -> KafkaLog:
        """This one has all topics."""
        return self

    @property
    def places(self) -> Places:
        """Offsets, whose records are counted by subtracting them."""
        return OFFSETS

    @property
    def tells_ends(self) -> bool:
        """Brokers know where partitions end."""
        return True

    @property
    def tells_starts(self) -> bool:
        """Offsets before the first one are gone."""
        return True

    def topics(self, names: Collection[str]) -> dict[str, TopicInfo]:
        """Id and lanes of each topic that exists."""
        wanted = [name for name in dict.fromkeys(names) if TOPIC_NAME.fullmatch(name)]
        found, failures = self._describe(wanted)
        self._raise_if_all_failed(found, failures.values())
        return {
            name: TopicInfo(
                str(topic.topic_id),
                tuple(in_order(named(name, one.id) for one in topic.partitions)),
            )
            for name, topic in found.items()
        }

    def all_topics(self) -> Collection[str]:
        """Names of all topics that we may see."""
        try:
            found = self._admin.list_topics(timeout=self._timeout_s).topics
        except KafkaException as exc:
            self._raise_if_refused()
            raise of_client(first_error(exc), self._config) from exc
        return list(found)

    def absent(self, names: Collection[str]) -> Collection[str]:
        """Topics that are surely not there; nobody says so of one that may not be described."""
        wanted = [name for name in dict.fromkeys(names) if TOPIC_NAME.fullmatch(name)]
        _, failures = self._describe(wanted)
        unknown = KafkaError.UNKNOWN_TOPIC_OR_PART
        return {name for name, failure in failures.items() if failure.code() == unknown}

    def end_offsets(self, lanes: Collection[str]) -> dict[str, Place]:
        """The offset after the last record that a ``read_committed`` reader may see."""
        return self._offsets(lanes, END)

    def start_offsets(self, lanes: Collection[str]) -> dict[str, Place]:
        """The first offset that retention has left."""
        return self._offsets(lanes, START)

    def offsets_at(self, lanes: Collection[str], timestamp_s: float) -> dict[str, Place]:
        """The first offset whose record is not older; the end offset where there is none."""
        # The ends first: a record that comes between the two questions must not be before the end.
        ends = self.end_offsets(lanes)
        offsets = self._offsets(lanes, max(0, round(timestamp_s * 1000)) or START)
        found = {lane: ends.get(lane) if at == END else at for lane, at in offsets.items()}
        return {lane: at for lane, at in found.items() if at is not None}

    def doubt(self, lanes: Collection[str]) -> None:
        """Forget who leads these: the next offsets are of whom the cluster says does now."""
        self._unanswered |= by_partition(lanes).keys()
        self._ask_again_s = 0.0

    def close(self) -> None:
        """Give up connections."""
        self._edges.close()
        clients = [self._admin]
        del self._admin
        end_clients(clients)

    def _offsets(self, lanes: Collection[str], at: int) -> dict[str, Place]:
        names = by_partition(lanes)
        found = self._offsets_of(names.keys(), at)
        return {names[partition]: place_at(offset) for partition, offset in found.items()}

    def _offsets_of(
        self, partitions: Collection[TopicPartition], at: int
    ) -> dict[TopicPartition, int]:
        wanted = {partition for partition in partitions if TOPIC_NAME.fullmatch(partition.topic)}
        found = self._edges.of(list(wanted - self._unanswered), at)
        left = wanted - found.keys()
        now_s = time.monotonic()
        if not left or (found and left <= self._unanswered and now_s < self._ask_again_s):
            return found
        try:
            carefully = self._edges.carefully(left, at)
        except BrokerUnavailable:
            if not found:
                raise
            carefully = {}
        self._unanswered = (self._unanswered | left) - carefully.keys()
        self._ask_again_s = now_s + _ASK_AGAIN_S
        return found | carefully

    def _describe(self, names: list[str]) -> tuple[dict[str, Any], dict[str, KafkaError]]:
        futures: dict[str, Future[Any]] = {}
        for first in range(0, len(names), _TOPICS_PER_REQUEST):
            chunk = TopicCollection(names[first : first + _TOPICS_PER_REQUEST])
            futures |= self._admin.describe_topics(chunk, request_timeout=self._timeout_s)
        answers, failures = self._gather(futures)
        if (
            failures
            and not answers
            and all(kind_of(failure) is ErrorKind.UNREACHABLE for failure in failures.values())
        ):
            self._look_for_brokers()
        return answers, failures

    def _look_for_brokers(self) -> None:
        """Ask any broker which brokers there are.

        Descriptions go to the broker that librdkafka took for the controller when it last asked.
        Should that one be dead, it waits for it, and does not ask again for minutes.
        """
        with suppress(KafkaException):
            self._admin.list_topics(timeout=self._timeout_s)

    def _gather(
        self, futures: Mapping[Any, Future[Any]]
    ) -> tuple[dict[Any, Any], dict[Any, KafkaError]]:
        # The client's own time-out ends every future; this one is for a client that does not.
        give_up_s = time.monotonic() + self._timeout_s + 1.0
        answers: dict[Any, Any] = {}
        failures: dict[Any, KafkaError] = {}
        for name, future in futures.items():
            try:
                answers[name] = future.result(max(0.0, give_up_s - time.monotonic()))
            except KafkaException as exc:
                failures[name] = first_error(exc)
            except TimeoutError:
                failures[name] = KafkaError(KafkaError._TIMED_OUT)
        return answers, failures

    def _raise_if_all_failed(
        self, found: Collection[Any], failures: Collection[KafkaError]
    ) -> None:
        if found:
            self._refusal = None
        if found or not failures:
            return
        self._raise_if_refused()
        for error in failures:
            if kind_of(error) is ErrorKind.CREDENTIALS:
                raise of_client(error, self._config)
        if all(kind_of(failure) is ErrorKind.UNREACHABLE for failure in failures):
            raise BrokerUnavailable(
                f"no Kafka broker answers at {servers(self._config)} "
                f"within {self._timeout_s:g} s: {next(iter(failures)).str()}"
            )

    def _raise_if_refused(self) -> None:
        self._admin.poll(0)
        if self._refusal is not None:
            raise of_client(self._refusal, self._config)

    def _remember(self, error: KafkaError) -> None:
        if kind_of(error) is ErrorKind.CREDENTIALS:
            self._refusal = error
