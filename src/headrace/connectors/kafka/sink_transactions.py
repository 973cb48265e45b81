"""Messages that readers see once: a group of effects in one Kafka transaction.

The wave was written down before it runs, so whoever runs it again has the very same slices. What is
left is to know, then, what an earlier attempt has done, and to shut that attempt out if it lives.

*What was done* stands in Kafka itself. The transaction that carries the messages also carries how
far each lane has come, as offsets of the group ``headrace.tx.<use case>``, with the wave's id as
their metadata. So both are there or neither is. Before anything else these offsets are read: under
this wave's id, or that of a wave it is a part of, they say that the effect is there already, and
how far it came. That counts, whatever this attempt has made of the records: of a topic that is
compacted meanwhile less may be left, and merged lanes then come less far; and by a schema that is
newer now a row may not be written any more. So only what is left is encoded. Under any other id
offsets mean nothing, since a lane may have been sent back. The group is no place to plan from;
nobody joins it.

*Who is shut out* follows from the transactional id, ``headrace.<use case>.<fence>``, that all
attempts at a bin share. Whoever takes the id (``init_transactions``) ends what others have open
under it, and they are refused from then on. The order is what makes it right: take the id, then
read the offsets, then ask the store whether the lane is still at this slice under this epoch (a
move to where it is), then send. An attempt that was shut out too late has committed before the id
was taken, and its offsets are seen; one that wakes up after its wave was settled finds the lane
moved on. A stream that is sought, or removed and added again, has a new wave with another id, which
shuts nobody out. So the store is asked once more when messages and offsets are under way, just
before the commit: a lane that was sent elsewhere by then is left alone, and whoever comes later
waits, where it reads the offsets, until this transaction has ended.

*When nobody knows*: a commit that timed out may still happen, and librdkafka's transactions can not
always tell (it has no KIP-890). So such a producer is given up, a new one takes the id, which
settles whatever was open, and the offsets tell. Should that fail as well, the answer is
``SinkUnavailable``: the driver keeps recorded slices that met such trouble, and runs them again.

What it needs from Kafka: a wave that is run again within ``offsets.retention.minutes`` and
``transactional.id.expiration.ms`` (a week each). It does not hide messages from readers of
uncommitted ones. Of effects that are refused the others are found by halving the group.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaPartition

from headrace.connectors.kafka.clients import BROKEN, settled
from headrace.connectors.kafka.config import transaction_config
from headrace.connectors.kafka.faults import ErrorKind, kind_of
from headrace.connectors.kafka.mark_topics import mark_of, unmarkable
from headrace.connectors.kafka.partitions import TopicPartition
from headrace.connectors.kafka.sink_line import MakeTopics, OnError
from headrace.connectors.kafka.sink_messages import (
    MAX_BYTES_DEFAULT,
    Encode,
    own_topic,
    sendable,
    topics_of,
    translated,
)
from headrace.connectors.kafka.sink_transaction_line import (
    Mark,
    OutcomeLost,
    TransactionLine,
    as_error,
    give_up,
    line_for,
)
from headrace.connectors.kafka.topic_rights import unwritable_topics
from headrace.connectors.outcomes import failed, told
from headrace.connectors.standing import gone
from headrace.connectors.wave_marks import done_before, leaves_a_mark
from headrace.errors import (
    ConfigError,
    HeadraceError,
    Permanent,
    SinkUnavailable,
    TargetMissing,
)
from headrace.model.buckets import bucket_of
from headrace.model.places import Place
from headrace.model.streams import Slice
from headrace.ports import Effect, Site, Written
from headrace.process.crash_points import reached

#: producers that are tried, each new one after the last was shut out or its commit not answered;
#: parts of one divided wave share a fence, so that they may shut each other out
_TRIES = 3

#: of a use case that had order ``key`` before it had this sink
_DIVIDED = ConfigError(
    "its partitions are still divided into buckets, and a Kafka transaction cannot tell "
    "what of these is done: deploy it with order lane and the sink or guarantee it had, until "
    "'headrace streams list' shows no buckets, or seek the whole stream"
)

Effects = Mapping[int, Effect]
Outcomes = dict[int, Written]


class KafkaTransactionWriter:
    """Writes effects group by group, each in a transaction with its offsets."""

    def __init__(
        self,
        topic: str,
        site: Site,
        make: MakeTopics | None = None,
        encode: Encode | None = None,
    ) -> None:
        self._topic = topic
        self._make, self._encode = make, encode
        self._wave_id, self._fence = site.wave_id, site.fence
        self._positions = site.positions
        #: effects of which no more is known than that the client gave their messages up
        self._given_up: set[int] = set()
        self._properties = dict(site.connections.kafka)
        self._most_bytes = int(self._properties.get("message.max.bytes", MAX_BYTES_DEFAULT))

    def write(self, effects: Sequence[Effect]) -> Sequence[Written]:
        """Write all effects that can be written; see ``SinkWriter.write``."""
        every = dict(enumerate(effects))
        divided = {index: _DIVIDED for index, effect in every.items() if _is_divided(effect)}
        given = {index: effect for index, effect in every.items() if index not in divided}
        asked = {index: effect for index, effect in given.items() if leaves_a_mark(effect)}
        _, errors = self._sendable({i: given[i] for i in given.keys() - asked.keys()})
        outcomes = _failed({**divided, **errors}) | self._all(asked)
        return [outcomes.get(index, Written()) for index in every]

    def already(self, effects: Sequence[Effect]) -> Sequence[tuple[Place, ...] | None]:
        """How far the same wave came before; see ``AskedFirst.already``."""
        asked = {index: effect for index, effect in enumerate(effects) if not _is_divided(effect)}
        for _ in range(_TRIES if asked else 0):
            try:
                done = self._done(line_for(self._settings(asked)), asked)
            except OutcomeLost:
                give_up(self._settings(asked))
            else:
                return [done.get(index) for index in range(len(effects))]
        if not asked:
            return [None] * len(effects)
        raise SinkUnavailable(f"topic {self._topic}: it does not say what stands there already")

    def check_effect(self, effect: Effect) -> None:
        """See that an effect can be sent, by the rules and the limit of ``write``.

        Raises:
            HeadraceError: it cannot.
        """
        _, errors = self._sendable({0: effect})
        for error in errors.values():
            raise error

    def close(self) -> None:
        """Keep the producer for the next bin; it is between two transactions."""

    def _all(self, effects: Effects) -> Outcomes:
        """Write effects, and begin anew with a new producer where one is lost."""
        if not effects:
            return {}
        why = ""
        for _ in range(_TRIES):
            try:
                return self._attempt(effects)
            except OutcomeLost as lost:
                why = str(lost)
                give_up(self._settings(effects))
            except HeadraceError as error:
                return dict.fromkeys(effects, failed(error))
        unknown = SinkUnavailable(
            f"topic {self._topic}: whether a transaction was committed is not known ({why}); "
            "the same slices run again and tell"
        )
        return dict.fromkeys(effects, failed(unknown))

    def _attempt(self, effects: Effects) -> Outcomes:
        line = line_for(self._settings(effects))
        outcomes = self._standing(line, effects)
        ready, refused = self._sendable({i: effects[i] for i in effects if i not in outcomes})
        outcomes |= _failed(refused)
        ready = self._addressed(line, ready)
        outcomes |= self._misdirected(line, ready)
        outcomes |= _failed(unmarkable(line, self._properties, ready))
        ready = {i: effect for i, effect in ready.items() if i not in outcomes}
        errors = self._transaction(line, ready) if ready else {}
        if len(ready) > 1 and any(isinstance(error, Permanent) for error in errors.values()):
            half = len(ready) // 2
            for part in (islice(ready, half), islice(ready, half, None)):
                outcomes |= self._all({i: effects[i] for i in part})
            return outcomes
        if errors:
            first = next(iter(errors.values()))
            outcomes |= _failed({i: errors.get(i, first) for i in ready})
        return outcomes

    def _sendable(self, effects: Effects) -> tuple[dict[int, Effect], dict[int, HeadraceError]]:
        return sendable(effects, self._topic, self._most_bytes, self._encode)

    def _standing(self, line: TransactionLine, effects: Effects) -> Outcomes:
        """What is decided before anything is sent: done by an earlier attempt, or not ours."""
        done = self._done(line, effects)
        outcomes = {index: Written(reached=reached) for index, reached in done.items()}
        left = {index: effects[index] for index in effects if index not in outcomes}
        try:
            return outcomes | gone(self._positions, left)
        except HeadraceError as error:
            return outcomes | dict.fromkeys(left, failed(error))

    def _done(self, line: TransactionLine, effects: Effects) -> dict[int, tuple[Place, ...]]:
        """How far earlier attempts came with those effects of which they wrote anything."""
        lanes = {mark_of(piece) for effect in effects.values() for piece in effect.slices}
        marks = self._marks(line, effects, lanes)
        found = {
            index: done_before(
                [marks.get(mark_of(piece)) for piece in effect.slices], effect, self._wave_id
            )
            for index, effect in effects.items()
        }
        return {index: reached for index, reached in found.items() if reached is not None}

    def _marks(
        self, line: TransactionLine, effects: Effects, lanes: set[TopicPartition]
    ) -> dict[tuple[str, int], Mark]:
        return line.marks(self._group(effects), lanes)

    def _mark(self, piece: Slice, reached: Place) -> Mark:
        """What is left behind in Kafka of a slice."""
        return Mark(reached, self._wave_id)

    def _addressed(self, line: TransactionLine, effects: dict[int, Effect]) -> dict[int, Effect]:
        """Effects whose rows name the topics that they go to now."""
        return effects

    def _misdirected(self, line: TransactionLine, effects: Effects) -> Outcomes:
        outcomes: Outcomes = {}
        try:
            line.sender.learn(effects.values(), self._topic, self._make)
        except SinkUnavailable as error:
            return dict.fromkeys(effects, failed(error))
        for index, effect in effects.items():
            try:
                line.sender.demand(effect, self._topic)
            except HeadraceError as error:
                outcomes[index] = failed(error)
        return outcomes

    def _transaction(self, line: TransactionLine, effects: Effects) -> dict[int, HeadraceError]:
        """Commit messages and offsets; or say what is wrong with whom, and nothing was sent.

        Raises:
            OutcomeLost: the producer was shut out, the commit may have happened, or a lane was
                sent elsewhere meanwhile.
        """
        errors: dict[int, HeadraceError] = {}
        self._given_up.clear()
        try:
            line.producer.begin_transaction()
            self._send(line, effects, errors)
            if not errors:
                # While the messages are under way: the offsets count only if these are committed.
                line.producer.send_offsets_to_transaction(
                    [
                        KafkaPartition(*mark_of(piece), mark.offset, mark.text)
                        for effect in effects.values()
                        for piece, reached in zip(effect.slices, effect.reached, strict=True)
                        for mark in (self._mark(piece, reached),)
                    ],
                    line.member(self._group(effects)),
                )
            settled(line.producer)
        except KafkaException as exc:
            # A topic of marks may have been deleted: then it is made again.
            line.marked.clear()
            judged = _judged(exc.args[0])
            # What one message met tells more than what it did to the transaction.
            settled(line.producer)
            if not errors:
                errors |= dict.fromkeys(effects, judged)
        errors |= {} if errors else self._asked_again(effects)
        if errors:
            # What the abort purges is told as an error too.
            errors, says_nothing = dict(errors), errors.keys() <= self._given_up
            self._abort(line, errors)
            return self._denied(effects, errors) if says_nothing else errors
        reached("mid-write", _use_case(effects))
        try:
            line.producer.commit_transaction()
        except KafkaException as exc:
            raise OutcomeLost(exc.args[0].str()) from exc
        return {}

    def _asked_again(self, effects: Effects) -> dict[int, HeadraceError]:
        """Why nothing may be committed, asked when later readers of the offsets wait for this.

        Raises:
            OutcomeLost: a lane is elsewhere by now; another attempt finds out which.
        """
        try:
            if gone(self._positions, effects):
                raise OutcomeLost("a lane was sent elsewhere meanwhile")
        except HeadraceError as error:
            return dict.fromkeys(effects, error)
        return {}

    def _send(
        self, line: TransactionLine, effects: Effects, errors: dict[int, HeadraceError]
    ) -> None:
        for index, effect in effects.items():
            try:
                note = self._noted(errors, index, own_topic(effect, self._topic))
                line.sender.send(effect, self._topic, note)
            except BROKEN:
                raise
            except Exception as error:
                errors.setdefault(index, told(error, f"topic {self._topic}"))
            if errors:
                break

    def _noted(self, errors: dict[int, HeadraceError], index: int, own: str) -> OnError:
        def note(error: KafkaError, topic: str) -> None:
            said, known = self._said(error, topic, own), errors.get(index)
            if known is None and kind_of(error) is ErrorKind.PURGED:
                self._given_up.add(index)
            # What the client gives up because of a message is told before that message, at times.
            if known is None or (isinstance(said, Permanent) and not isinstance(known, Permanent)):
                errors[index] = said
            if isinstance(said, Permanent):
                self._given_up.discard(index)

        return note

    def _said(self, error: KafkaError, topic: str, own: str) -> HeadraceError:
        """What is wrong with an effect of which a message was not taken."""
        return translated(error, topic, own)

    def _denied(
        self, effects: Effects, errors: dict[int, HeadraceError]
    ) -> dict[int, HeadraceError]:
        """What is wrong, once brokers were asked where we may write.

        Where a topic is denied the client gives up all messages, and does not say for which topic.
        """
        topics = {
            index: topics_of(effect, own_topic(effect, self._topic))
            for index, effect in effects.items()
        }
        denied = self._unwritable(set().union(*topics.values()))
        return errors | {
            index: TargetMissing(
                f"topic {min(names & denied)}: we may not write to it; "
                "grant Write and Describe on it"
            )
            for index, names in topics.items()
            if names & denied
        }

    def _unwritable(self, topics: set[str]) -> set[str]:
        return unwritable_topics(self._properties, topics)

    def _abort(self, line: TransactionLine, errors: Mapping[int, HeadraceError]) -> None:
        try:
            line.producer.abort_transaction()
        except KafkaException as exc:
            if not any(isinstance(error, Permanent) for error in errors.values()):
                raise OutcomeLost(exc.args[0].str()) from exc
            give_up(line.settings)

    def _group(self, effects: Effects) -> str:
        return f"headrace.tx.{_use_case(effects)}"

    def _settings(self, effects: Effects) -> dict[str, str]:
        name = f"headrace.{_use_case(effects)}.{self._fence}"
        return transaction_config(self._properties, name)


def _is_divided(effect: Effect) -> bool:
    """Whether it is of buckets, which have no offsets of their own in Kafka."""
    return any(bucket_of(piece.lane.name) is not None for piece in effect.slices)


def _failed(errors: Mapping[int, HeadraceError]) -> Outcomes:
    return {index: failed(error) for index, error in errors.items()}


def _use_case(effects: Effects) -> str:
    return next(iter(effects.values())).slices[0].lane.use_case


def _judged(error: KafkaError) -> HeadraceError:
    """An error of a call inside a transaction that was not asked to commit yet.

    Raises:
        OutcomeLost: the producer can not be used any more.
    """
    refused = as_error(error)
    if isinstance(refused, OutcomeLost) and error.txn_requires_abort():
        return translated(error, "transaction")
    if isinstance(refused, OutcomeLost):
        raise refused
    return refused
