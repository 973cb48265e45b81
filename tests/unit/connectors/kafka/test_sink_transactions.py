"""What is done about each way a transaction can end."""

from dataclasses import replace

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, KafkaException

from headrace.connectors.kafka import sink_transaction_line, sink_transactions
from headrace.connectors.kafka.config import transaction_config
from headrace.connectors.kafka.sink import KafkaTopicWriter
from headrace.connectors.kafka.sink_line import TopicProducer
from headrace.connectors.kafka.sink_transaction_line import Mark, OutcomeLost
from headrace.connectors.kafka.sink_transactions import KafkaTransactionWriter
from headrace.errors import SinkRefused, StoreUnavailable
from headrace.model.streams import LaneId, Slice
from headrace.ports import Connections, Effect, Site, Written
from headrace.sinks import KafkaTopic

WAVE = "run-1-0"
FENCED = KafkaError(KafkaError._FENCED, "fenced", fatal=True)
TIMED_OUT = KafkaError(KafkaError._TIMED_OUT, "timed out", retriable=True)
ABORTABLE = KafkaError(KafkaError.NOT_COORDINATOR, "moved", txn_requires_abort=True)
NO_RIGHT = KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED, "no", txn_requires_abort=True)


class Broker:
    """What stands in Kafka, and what goes wrong on the way there."""

    def __init__(self):
        self.committed, self.marks = [], {}
        #: (call, error) in the order in which calls of that name fail; None lets one pass
        self.errors = []
        #: a commit that fails is done all the same
        self.answer_lost = False
        #: values that the broker refuses when they arrive
        self.refused = set()
        #: values that it never answers for
        self.unanswered = set()
        self.taken = 0

    def fails(self, call):
        for entry in self.errors:
            if entry[0] == call:
                self.errors.remove(entry)
                if entry[1] is not None:
                    raise KafkaException(entry[1])
                return


class Producer:
    """A transactional producer that sends nothing."""

    def __init__(self, broker):
        self.broker = broker
        self.sent, self.offsets, self.waiting = [], [], []

    def begin_transaction(self):
        self.broker.fails("begin")
        self.sent, self.offsets, self.waiting = [], [], []

    def produce(self, topic, value, key, headers, on_delivery):
        self.broker.fails("produce")
        self.waiting.append((topic, value, on_delivery))

    def __len__(self):
        return len(self.waiting)

    def poll(self, timeout):
        for topic, value, told in self.waiting if timeout else ():
            refused = value in self.broker.refused
            error = KafkaError(KafkaError.MSG_SIZE_TOO_LARGE) if refused else None
            told(error, Message(topic, value not in self.broker.unanswered))
            if not refused:
                self.sent.append(value)
        self.waiting = [] if timeout else self.waiting

    def purge(self):
        self.waiting = []

    def send_offsets_to_transaction(self, offsets, _member):
        self.broker.fails("offsets")
        self.offsets = offsets

    def commit_transaction(self):
        if self.broker.answer_lost:
            self._commit()
        self.broker.fails("commit")
        self._commit()

    def _commit(self):
        self.broker.committed += self.sent
        for offset in self.offsets:
            self.broker.marks[offset.topic, offset.partition] = Mark(offset.offset, offset.metadata)

    def abort_transaction(self):
        self.broker.fails("abort")


class Message:
    def __init__(self, topic, stored):
        self._topic, self._stored = topic, stored

    def offset(self):
        return 0 if self._stored else None

    def topic(self):
        return self._topic


class FakeSender(TopicProducer):
    """It sends to the broker above; every topic is known."""

    def __init__(self, producer):
        self.producer = producer
        self.topics, self.unmade = {"acme.scores", "bolt.scores", "cern.scores"}, {}

    def learn(self, effects, pattern, make=None):
        pass


class FakeLine:
    """A line to the broker above."""

    def __init__(self, broker, settings):
        self.producer, self.settings, self._broker = Producer(broker), settings, broker
        self.sender = FakeSender(self.producer)
        self.marked = {}
        broker.taken += 1
        broker_fails(broker, "take")

    def marks(self, _group, _lanes):
        broker_fails(self._broker, "marks")
        return self._broker.marks

    def member(self, _group):
        return b""


def broker_fails(broker, call):
    try:
        broker.fails(call)
    except KafkaException as exc:
        raise sink_transaction_line.as_error(exc.args[0]) from exc


class Positions:
    """Lanes that are at offset 0 under epoch 1."""

    def __init__(self):
        self.away = set()
        self.error = None

    def advance(self, moves):
        if self.error is not None:
            raise self.error
        return [
            (move.from_offset, move.to_offset, move.epoch) == (0, 0, 1)
            and move.lane.tenant not in self.away
            for move in moves
        ]


@pytest.fixture
def broker(monkeypatch):
    made = Broker()
    lines = {}

    def line_for(settings):
        name = settings["transactional.id"]
        if name not in lines:
            lines[name] = FakeLine(made, settings)
        return lines[name]

    monkeypatch.setattr(sink_transactions, "line_for", line_for)
    monkeypatch.setattr(
        sink_transactions, "give_up", lambda settings: lines.pop(settings["transactional.id"], 0)
    )
    return made


@pytest.fixture
def positions():
    return Positions()


@pytest.fixture
def written(broker, positions):
    def outcomes(*effects, wave_id=WAVE, encode=None):
        site = Site(Connections({}, ""), positions, wave_id, "a-0")
        return KafkaTransactionWriter("{tenant}.scores", site, encode=encode).write(effects)

    return outcomes


@pytest.fixture
def write(written):
    def codes(*effects, wave_id=WAVE):
        return [
            "superseded" if outcome.superseded else outcome.error and outcome.error.code
            for outcome in written(*effects, wave_id=wave_id)
        ]

    return codes


def effect(tenant, *values, reached=9):
    piece = Slice(LaneId("score", tenant, f"{tenant}.visits[0]"), f"{tenant}.visits", 0, 9, epoch=1)
    return Effect((piece,), (reached,), pa.table({"value": list(values)}))


def merged(tenant, reached, *values):
    """An effect of two lanes whose records are in one order."""
    pieces = (
        Slice(
            LaneId("score", tenant, f"{tenant}.visits[{partition}]"),
            f"{tenant}.visits",
            0,
            9,
            epoch=1,
        )
        for partition in (0, 1)
    )
    return Effect(tuple(pieces), reached, pa.table({"value": pa.array(values, pa.string())}))


def test_messages_and_offsets_are_committed_together(broker, write):
    assert write(effect("acme", "a"), effect("bolt", "b")) == [None, None]
    assert broker.committed == ["a", "b"]
    assert broker.marks["acme.visits", 0] == Mark(9, WAVE)
    assert broker.marks["bolt.visits", 0] == Mark(9, WAVE)


def test_what_an_earlier_attempt_committed_is_not_sent_again(broker, write):
    write(effect("acme", "a"))
    assert write(effect("acme", "a"), effect("bolt", "b")) == [None, None]
    assert broker.committed == ["a", "b"]


@pytest.mark.parametrize("first", [WAVE, f"{WAVE}.1"])
@pytest.mark.parametrize("later", [f"{WAVE}.1", f"{WAVE}.2"])
def test_a_part_of_a_wave_knows_what_the_whole_or_another_part_has_committed(
    broker, write, first, later
):
    """A part is divided again under a name of its own, which is not that of the part."""
    write(effect("acme", "a"), wave_id=first)
    assert write(effect("acme", "a"), wave_id=later) == [None]
    assert broker.committed == ["a"]


@pytest.mark.parametrize("other", ["run-1-00", "run-1", "run-1-00.1", "x"])
def test_offsets_of_another_wave_mean_nothing(broker, write, other):
    broker.marks["acme.visits", 0] = Mark(9, other)
    assert write(effect("acme", "a")) == [None]
    assert broker.committed == ["a"]


@pytest.mark.parametrize("reached", [(9, 3), (9, 9), (2, 0)])
@pytest.mark.parametrize("values", [["a"], []], ids=["with messages", "without"])
def test_what_an_earlier_attempt_committed_of_merged_lanes_is_done_as_far_as_that_came(
    broker, written, reached, values
):
    """A topic that was compacted meanwhile has fewer records, and they are merged otherwise."""
    first, again = merged("acme", (5, 9), "a", "b"), merged("acme", reached, *values)
    assert [outcome.reached for outcome in written(first)] == [None]
    assert written(again) == [Written(reached=(5, 9))]
    assert broker.committed == ["a", "b"]


def test_what_an_earlier_attempt_committed_is_not_encoded_again(broker, written):
    """By a schema that is newer now a row may not be written any more, and nobody may answer."""
    written(effect("acme", "a"))

    def refuses(given):
        if given.slices[0].lane.tenant == "acme":
            raise SinkRefused("the value of row 0: column n: int is not int")
        return given

    outcomes = written(effect("acme", "a"), effect("bolt", "b"), encode=refuses)
    assert outcomes == [Written(reached=(9,)), Written()]
    assert broker.committed == ["a", "b"]


def test_what_is_not_encoded_and_was_not_committed_is_refused_alone(broker, written):
    def refuses(given):
        if given.slices[0].lane.tenant == "acme":
            raise SinkRefused("the value of row 0: column n: int is not int")
        return given

    outcomes = written(effect("acme", "a"), effect("bolt", "b"), encode=refuses)
    assert [outcome.error and outcome.error.code for outcome in outcomes] == ["SinkRefused", None]
    assert broker.committed == ["b"]


def test_a_lane_that_moved_on_is_left_alone_and_the_others_are_written(broker, positions, write):
    positions.away = {"acme"}
    assert write(effect("acme", "a"), effect("bolt", "b")) == ["superseded", None]
    assert broker.committed == ["b"]


def test_a_lane_that_is_sent_elsewhere_while_its_messages_are_under_way_is_left_alone(
    broker, positions, write
):
    def sought(call):
        if call == "offsets":
            positions.away.add("acme")

    broker.fails = sought
    assert write(effect("acme", "a"), effect("bolt", "b")) == ["superseded", None]
    assert broker.committed == ["b"]


def test_a_store_that_does_not_answer_before_the_commit_leaves_nothing_open(
    broker, positions, write
):
    calls = []

    def locked(call):
        calls.append(call)
        positions.error = StoreUnavailable("locked") if call == "offsets" else None

    broker.fails = locked
    assert write(effect("acme", "a")) == ["StoreUnavailable"]
    assert (calls[-1], broker.committed) == ("abort", [])


def test_what_is_done_is_done_though_the_store_does_not_answer(broker, positions, write):
    write(effect("acme", "a"))
    positions.error = StoreUnavailable("locked")
    assert write(effect("acme", "a"), effect("bolt", "b")) == [None, "StoreUnavailable"]


def test_a_commit_whose_answer_is_lost_is_found_to_be_done(broker, write):
    broker.answer_lost, broker.errors = True, [("commit", TIMED_OUT)]
    assert write(effect("acme", "a")) == [None]
    assert broker.committed == ["a"]
    assert broker.taken == 2, "the producer is never used again"


@pytest.mark.parametrize("error", [TIMED_OUT, FENCED, ABORTABLE], ids=["time", "fenced", "abort"])
def test_a_commit_that_was_not_done_is_tried_again_by_a_new_producer(broker, write, error):
    broker.errors = [("commit", error)]
    assert write(effect("acme", "a")) == [None]
    assert broker.committed == ["a"]
    assert broker.taken == 2


@pytest.mark.parametrize("call", ["take", "marks", "begin", "offsets", "commit"])
def test_a_producer_that_is_shut_out_again_and_again_knows_nothing(broker, write, call):
    broker.errors = [(call, FENCED)] * 3
    assert write(effect("acme", "a"), effect("bolt", "b")) == ["SinkUnavailable"] * 2
    assert broker.committed == []


def test_an_abortable_error_before_the_commit_is_aborted_and_temporary(broker, write):
    broker.errors = [("offsets", ABORTABLE)]
    assert write(effect("acme", "a")) == ["SinkUnavailable"]
    assert (broker.committed, broker.taken) == ([], 1)


def test_an_abort_that_fails_costs_the_producer_and_another_try(broker, write):
    broker.errors = [("offsets", ABORTABLE), ("abort", FENCED)]
    assert write(effect("acme", "a")) == [None]
    assert (broker.committed, broker.taken) == (["a"], 2)


@pytest.mark.parametrize("call", ["take", "marks", "offsets"])
def test_a_missing_right_is_for_a_person_to_mend(broker, write, call):
    broker.errors = [(call, NO_RIGHT)]
    assert write(effect("acme", "a")) == ["TargetMissing"]
    assert broker.committed == []


def test_one_effect_that_the_broker_refuses_leaves_the_others_written(broker, write):
    broker.refused = {"b"}
    names = ["acme", "bolt", "cern"]
    outcomes = write(*(effect(name, name[0]) for name in names))
    assert outcomes == [None, "SinkRefused", None]
    assert broker.committed == ["a", "c"]
    assert ("bolt.visits", 0) not in broker.marks


def test_a_look_at_an_effect_knows_the_limit_that_the_writer_has(broker, positions):
    site = Site(Connections({"message.max.bytes": "3000"}, ""), positions, WAVE, "a-0")
    writer = KafkaTopic("{tenant}.scores", transactional=True).open(site)
    writer.check_effect(effect("acme", b"x" * 2000))
    # Nothing is sent of what has exactly so many bytes, without the name of its effect.
    for size in (4000, 3000 - 128):
        with pytest.raises(SinkRefused, match="bytes allows 3000"):
            writer.check_effect(effect("acme", b"", b"x" * size))
        (refused,) = writer.write([effect("acme", b"", b"x" * size)])
        assert refused.error.code == "SinkRefused"


def test_a_value_that_is_no_utf8_is_a_refusal_of_its_own_effect(broker, write):
    broken = pa.array([b"\xff"]).view(pa.string())
    piece = effect("bolt", "x")
    outcomes = write(effect("acme", "a"), Effect(piece.slices, (9,), pa.table({"value": broken})))
    assert outcomes == [None, "SinkRefused"]
    assert broker.committed == ["a"]


def test_a_missing_topic_is_a_refusal_of_its_own_effect(broker, write):
    assert write(effect("nobody", "x"), effect("acme", "a")) == ["TargetMissing", None]


def test_buckets_of_a_partition_are_refused_alone(broker, written):
    of_bucket = effect("acme", "a")
    (piece,) = of_bucket.slices
    lane = piece.lane._replace(name=f"{piece.lane.name}#1/4")
    of_bucket = replace(of_bucket, slices=(replace(piece, lane=lane),))
    refused, done = written(of_bucket, effect("bolt", "b"))
    assert "still divided into buckets" in refused.error.message
    assert not refused.error.temporary
    assert (done, broker.committed) == (Written(), ["b"])


def test_an_effect_without_rows_needs_no_transaction(broker, write):
    assert write(_empty()) == [None]
    assert broker.taken == 0


def _empty():
    return Effect(effect("acme", "a").slices, (9,), pa.table({}))


def test_without_a_recorded_wave_messages_are_sent_as_they_come():
    site = Site(Connections({}, ""), None)
    assert isinstance(KafkaTopic("t", transactional=True).open(site), KafkaTopicWriter)


def test_only_with_transactions_it_can_do_exactly_once():
    assert KafkaTopic("t").exactly_once is None
    assert KafkaTopic("t", transactional=True).exactly_once == "intent"


def test_messages_are_through_before_their_transaction_times_out():
    for given in ({}, {"message.timeout.ms": "60000"}):
        made = transaction_config(given, "headrace.x")
        assert int(made["message.timeout.ms"]) < int(made["transaction.timeout.ms"])
        assert (made["acks"], made["enable.idempotence"]) == ("all", "true")


@pytest.fixture
def opened(monkeypatch):
    """Lines by id, in the order in which they were opened; what was closed."""
    opened, closed = [], []

    class Opened:
        def __init__(self, settings):
            opened.append(settings["transactional.id"])
            self.settings, self.producer = settings, self

        def close(self):
            closed.append(self.settings["transactional.id"])
            if self.settings.get("broken"):
                raise KafkaException(FENCED)

        def purge(self):
            pass

    monkeypatch.setattr(sink_transaction_line, "TransactionLine", Opened)
    monkeypatch.setattr(sink_transaction_line, "_lines", type(sink_transaction_line._lines)())
    monkeypatch.setattr(sink_transaction_line, "_MOST_LINES", 2)
    return opened, closed


def test_a_worker_keeps_the_producers_it_used_last(opened):
    settings = {name: {"transactional.id": name} for name in "abc"}
    for name in "abaca":
        sink_transaction_line.line_for(settings[name])
    assert opened == (["a", "b", "c"], ["b"])


def test_one_that_broke_since_it_was_used_lets_go_without_a_word(opened):
    settings = {name: {"transactional.id": name, "broken": name == "a"} for name in "abc"}
    for name in "abc":
        line = sink_transaction_line.line_for(settings[name])
    assert line.settings["transactional.id"] == "c"
    assert opened[1] == ["a"]


def test_a_producer_that_was_given_up_is_made_anew(opened):
    settings = {"transactional.id": "a"}
    sink_transaction_line.line_for(settings)
    sink_transaction_line.give_up(settings)
    sink_transaction_line.line_for(settings)
    assert opened[0] == ["a", "a"]


@pytest.mark.parametrize("error", [TIMED_OUT, FENCED])
def test_what_no_person_has_to_mend_leaves_the_outcome_open(error):
    assert isinstance(sink_transaction_line.as_error(error), OutcomeLost)


def test_nothing_is_committed_with_a_message_that_no_broker_answered_for(broker, write):
    broker.unanswered = {"b"}
    assert write(effect("acme", "a", "b"), effect("bolt", "c")) == ["SinkUnavailable"] * 2
    assert broker.committed == []
