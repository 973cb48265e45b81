"""What is asked of a consumer, and what its answers mean."""

from collections import defaultdict
from types import SimpleNamespace

import pytest
from confluent_kafka import OFFSET_INVALID, KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaPartition

from headrace.connectors.kafka.partitions import TopicPartition
from headrace.connectors.kafka.watermarks import END, PORTION, START, Watermarks
from headrace.errors import BrokerUnavailable

ACME, BOLT, COVE = (TopicPartition(f"{name}.visits", 0) for name in ("acme", "bolt", "cove"))
ALL = [ACME, BOLT, COVE]
A_TIME_MS = 1_700_000_000_000


class FakeConsumer:
    """Knows offsets; raises what it is told to when one of some partitions is asked for."""

    def __init__(self, offsets):
        self.offsets = offsets
        self.raises = {}
        self.refused = {}
        #: by partition, the broker; -1 is none
        self.leaders = {ACME: 1, BOLT: 2, COVE: 3}
        self.unsound = {}
        self.hang = 0
        self.calls = []
        self.looks = []
        self.polls = 0

    def list_topics(self, topic=None, *, timeout):
        self.looks.append((topic, timeout))
        if self.hang:
            self.hang -= 1
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))
        found = defaultdict(dict)
        for lane, leader in self.leaders.items():
            found[lane.topic][lane.partition] = SimpleNamespace(leader=leader)
        described = {
            name: SimpleNamespace(error=self.unsound.get(name), partitions=partitions)
            for name, partitions in found.items()
            if topic in (None, name)
        }
        return SimpleNamespace(topics=described)

    def offsets_for_times(self, asked, timeout):
        lanes = [TopicPartition(place.topic, place.partition) for place in asked]
        self.calls.append((lanes, timeout))
        for lane in lanes:
            if lane in self.raises:
                raise KafkaException(KafkaError(self.raises[lane]))
        return [self._answer(lane, place.offset) for lane, place in zip(lanes, asked, strict=True)]

    def _answer(self, lane, at):
        answer = KafkaPartition(*lane, self.offsets.get(lane, at))
        if lane not in self.refused:
            return answer
        return FailedPartition(answer, KafkaError(self.refused[lane]))

    def poll(self, timeout):
        assert timeout == 0
        self.polls += 1

    def close(self):
        pass


class FailedPartition:
    """A partition with an error, which the client's own class does not let anybody set."""

    def __init__(self, partition, error):
        self.topic, self.partition, self.offset = partition.topic, partition.partition, 7
        self.error = error


@pytest.fixture
def edges():
    made = Watermarks({"bootstrap.servers": "127.0.0.1:1"}, timeout_s=5.0)
    made._client.consumer.close()
    made._client._consumers = [FakeConsumer({ACME: 7, BOLT: 8, COVE: 9})]
    return made


def asked_of(edges):
    return [lanes for lanes, _ in edges._client.consumer.calls]


@pytest.mark.parametrize("at", [START, END, A_TIME_MS])
def test_a_partition_of_which_nothing_is_said_has_no_offset(edges, at):
    del edges._client.consumer.offsets[BOLT]
    assert edges.of([ACME, BOLT], at) == {ACME: 7}
    edges._client.consumer.offsets[BOLT] = OFFSET_INVALID
    assert edges.of([ACME, BOLT], at) == {ACME: 7}


def test_a_time_after_the_last_record_has_the_end_for_its_answer(edges):
    edges._client.consumer.offsets[BOLT] = END
    assert edges.of([ACME, BOLT], A_TIME_MS) == {ACME: 7, BOLT: END}


def test_a_partition_with_an_error_has_no_offset(edges):
    edges._client.consumer.refused[BOLT] = KafkaError.LEADER_NOT_AVAILABLE
    assert edges.of([ACME, BOLT], END) == {ACME: 7}


def test_the_quick_way_ends_with_the_first_portion_that_nobody_answers(edges):
    many = [TopicPartition("acme.visits", partition) for partition in range(2 * PORTION)]
    edges._client.consumer.raises[many[0]] = KafkaError._TIMED_OUT
    assert edges.of(many, END) == {}
    assert asked_of(edges) == [many[:PORTION]]


def test_a_broker_that_is_away_costs_only_its_own_partitions_their_answer(edges):
    edges._client.consumer.raises[ACME] = KafkaError._TIMED_OUT
    assert edges.carefully(ALL, END) == {BOLT: 8, COVE: 9}


def test_a_broker_that_is_slow_has_what_is_left_of_the_time(edges):
    edges._client.consumer.raises[ACME] = KafkaError._TIMED_OUT
    edges.carefully(ALL, END)
    assert asked_of(edges) == [[ACME], [BOLT], [COVE], [ACME]]
    first_s, *_, last_s = [timeout_s for _, timeout_s in edges._client.consumer.calls]
    assert first_s <= 0.5 < last_s <= 5.0


def test_brokers_that_are_slow_share_what_is_left_of_the_time(edges):
    edges._client.consumer.raises |= dict.fromkeys([ACME, BOLT], KafkaError._TIMED_OUT)
    edges.carefully(ALL, END)
    assert asked_of(edges)[3:] == [[ACME], [BOLT]]
    assert edges._client.consumer.calls[3][1] <= 2.5


def test_a_broker_that_was_waited_for_in_vain_is_not_soon_waited_for_again(edges):
    edges._client.consumer.raises[ACME] = KafkaError._TIMED_OUT
    edges.carefully(ALL, END)
    edges._client.consumer.calls.clear()
    assert edges.carefully(ALL, END) == {BOLT: 8, COVE: 9}
    assert asked_of(edges) == [[ACME], [BOLT], [COVE]]
    edges._in_vain_s.clear()
    edges.carefully(ALL, END)
    assert asked_of(edges)[3:] == [[ACME], [BOLT], [COVE], [ACME]]


def test_no_answer_of_the_brokers_of_some_partitions_is_no_answer_and_no_error(edges):
    edges._client.consumer.raises |= dict.fromkeys([ACME, BOLT], KafkaError._TRANSPORT)
    assert edges.carefully([ACME, BOLT], END) == {}


def test_that_nobody_says_where_partitions_are_is_told_by_address(edges):
    edges._client.consumer.hang = 2
    with pytest.raises(BrokerUnavailable, match=r"127\.0\.0\.1:1"):
        edges.carefully(ALL, END)
    assert edges._client.consumer.calls == []


def test_a_broker_that_does_not_say_where_partitions_are_is_not_the_only_one(edges):
    edges._client.consumer.hang = 1
    assert len(edges.carefully(ALL, END)) == 3


def test_a_partition_that_is_refused_takes_no_answer_from_the_others(edges):
    many = {
        TopicPartition("acme.visits", partition): partition for partition in range(PORTION + 50)
    }
    edges._client.consumer.offsets = dict(many)
    edges._client.consumer.leaders = dict.fromkeys(many, 1)
    refused = TopicPartition("acme.visits", 321)
    edges._client.consumer.raises[refused] = KafkaError.NOT_LEADER_FOR_PARTITION
    assert edges.carefully(list(many), END) == {
        lane: offset for lane, offset in many.items() if lane != refused
    }


def test_a_broker_that_refuses_everything_is_not_asked_for_each_partition(edges):
    many = [TopicPartition("acme.visits", partition) for partition in range(PORTION)]
    edges._client.consumer.leaders = dict.fromkeys(many, 1)
    refused = dict.fromkeys(many, KafkaError.NOT_LEADER_FOR_PARTITION)
    edges._client.consumer.raises = refused
    assert edges.carefully(many, END) == {}
    assert len(edges._client.consumer.calls) <= 40


def test_what_is_not_there_and_what_nobody_leads_is_not_asked_for(edges):
    edges._client.consumer.leaders |= {BOLT: -1}
    edges._client.consumer.unsound = {"cove.visits": KafkaError(KafkaError._UNKNOWN_TOPIC)}
    strangers = [TopicPartition("acme.visits", 8), TopicPartition("nobody", 0)]
    assert edges.carefully([*ALL, *strangers], END) == {ACME: 7}
    assert asked_of(edges) == [[ACME]]


def test_few_topics_are_looked_up_by_name_and_many_at_once(edges):
    edges.of(ALL, END)
    assert edges._client.consumer.looks == []
    edges.carefully([ACME], END)
    edges.carefully([TopicPartition(f"topic-{number}", 0) for number in range(9)], END)
    assert [name for name, _ in edges._client.consumer.looks] == ["acme.visits", None]


def test_what_the_client_has_to_say_is_heard_also_when_nobody_answers(edges):
    edges._client.consumer.raises[ACME] = KafkaError._TIMED_OUT
    edges.of([ACME], END)
    assert edges._client.consumer.polls == 1


def test_nobody_to_ask_is_nothing_told(edges):
    assert edges.carefully([], END) == {}
    assert edges.of([], END) == {}
