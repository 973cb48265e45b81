"""Dead letters go back to their lanes, once, whatever happens on the way."""

import contextlib
import os
import sys
from dataclasses import replace

import pytest
from apart import run_apart
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

from headrace.connectors.kafka import KafkaDeadLetters, KafkaLog, KafkaSliceReader
from headrace.connectors.kafka.partitions import TopicPartition as Lane
from headrace.connectors.kafka.redrive import Redriven, redrive
from headrace.connectors.kafka.seals import Message, sealed
from headrace.errors import BrokerUnavailable, ConfigError, Fenced, TopicMissing
from headrace.model.streams import LaneId, Slice, StreamId
from headrace.model.topic_lists import listed
from headrace.model.topic_names import dead_letters_topic
from headrace.ports import Connections, Effect, Site
from headrace.sinks import KafkaTopic
from headrace.testing.dead_letters_contract import letter
from headrace.testing.log_contract.rows import numbered, values
from headrace.testing.log_fake import Row

pytestmark = pytest.mark.kafka
KEY = b"of the store"
PAGES = StreamId("pages", "acme")
BILLS = StreamId("bills", "acme")


@pytest.fixture
def connections(topics):
    return Connections(topics.config, database_url="", seal_key=KEY)


def few_at_once(monkeypatch, count=2):
    monkeypatch.setattr(
        sys.modules["headrace.connectors.kafka.dead_letters_read"], "_BATCH_LETTERS", count
    )


def sent_to(topics, topic):
    return [message.value() for message in topics.messages(topic)]


def numbered_letters(topic, offsets, **kwargs):
    return [letter(topic, offset, value=b"%d" % offset, **kwargs) for offset in offsets]


def kept_elsewhere(topics, found):
    """Keep letters in a worker that knows nothing of those that others kept."""
    with contextlib.closing(KafkaDeadLetters(topics.config)) as others:
        others.keep(found)


def test_letters_go_back_to_their_partition_as_they_came(topics, letters, connections):
    topic = topics.make(3)
    headers = (("trace", b"\xfe"), ("trace", None))
    letters.keep([letter(topic, 7, partition=2, key=None, value=b"\xff", headers=headers)])
    assert redrive(connections, PAGES, topic) == Redriven(1, (), 0)
    (back,) = topics.messages(topic)
    assert (back.partition(), back.key(), back.value()) == (2, None, b"\xff")
    wanted = sealed(Message(None, b"\xff", headers), Lane(topic, 2), "pages", 1, KEY)
    assert back.headers() == list(wanted.headers)
    assert [name for name, _ in back.headers()[2:]] == [
        "headrace.redrive.use-case",
        "headrace.redrive.count",
        "headrace.redrive.seal",
    ]


def test_letters_of_an_earlier_tenant_of_the_name_stay(topics, letters, connections):
    topic = topics.make(1)
    letters.keep(numbered_letters(topic, [3, 4], epoch=6))
    letters.keep(numbered_letters(topic, [3, 5], epoch=7))
    assert redrive(connections, PAGES, topic, generation=7, dry_run=True) == Redriven(2, (), 0)
    assert redrive(connections, PAGES, topic, generation=7) == Redriven(2, (), 0)
    assert sent_to(topics, topic) == [b"3", b"5"], "also one that the earlier one had as well"


def test_letters_go_back_in_the_order_of_their_offsets(topics, letters, connections):
    topic = topics.make(2)
    for partition in (1, 0):
        letters.keep(numbered_letters(topic, [5, 3, 9, 4], partition=partition))
    redrive(connections, PAGES, topic)
    assert sent_to(topics, topic) == [b"3", b"4", b"5", b"9"] * 2


def test_a_second_redrive_sends_only_what_is_new(topics, letters, connections):
    topic = topics.make()
    letters.keep(numbered_letters(topic, [1, 2]))
    redrive(connections, PAGES, topic)
    letters.keep(numbered_letters(topic, [3]))
    assert redrive(connections, PAGES, topic).sent == 1
    assert redrive(connections, PAGES, topic).sent == 0
    assert sent_to(topics, topic) == [b"1", b"2", b"3"]


def test_each_use_case_has_its_own_letters_and_its_own_place(topics, letters, connections):
    topic = topics.make()
    letters.keep(numbered_letters(topic, [1, 3], use_case="pages"))
    letters.keep(numbered_letters(topic, [2], use_case="bills"))
    assert redrive(connections, PAGES, topic).sent == 2
    assert redrive(connections, BILLS, topic).sent == 1
    assert sent_to(topics, topic) == [b"1", b"3", b"2"]


def test_a_place_that_kafka_forgot_is_found_again(topics, letters, connections):
    topic, other = topics.make(), topics.make()
    for name in (topic, other):
        letters.keep(numbered_letters(name, [1, 2]))
        letters.keep(numbered_letters(name, [1], use_case="bills"))
        redrive(connections, PAGES, name)
    topics.forget_group("headrace.redrive.pages")
    letters.keep(numbered_letters(topic, [3]))
    assert redrive(connections, PAGES, topic).sent == 1
    assert sent_to(topics, topic) == [b"1", b"2", b"3"]
    assert redrive(connections, BILLS, topic).sent == 1


def test_a_limit_leaves_the_rest_for_the_next_time(topics, letters, connections, monkeypatch):
    few_at_once(monkeypatch)
    topic = topics.make()
    letters.keep(numbered_letters(topic, range(7)))
    assert redrive(connections, PAGES, topic, limit=3) == Redriven(3, (), 4)
    assert redrive(connections, PAGES, topic, limit=10) == Redriven(4, (), 0)
    assert sent_to(topics, topic) == [b"%d" % number for number in range(7)]


def test_a_dry_run_counts_and_changes_nothing(topics, letters, connections):
    topic = topics.make()
    letters.keep(numbered_letters(topic, range(3)))
    assert redrive(connections, PAGES, topic, limit=2, dry_run=True) == Redriven(2, (), 1)
    assert sent_to(topics, topic) == []
    assert redrive(connections, PAGES, topic).sent == 3


def test_a_letter_kept_twice_is_sent_once(topics, letters, connections):
    topic = topics.make()
    letters.keep(numbered_letters(topic, [1, 2]))
    kept_elsewhere(topics, numbered_letters(topic, [1, 2]))
    letters.keep([letter(topic, 1, value=b"of the topic made again")])
    assert redrive(connections, PAGES, topic).sent == 3


def test_repeats_are_sent_once_also_by_redrives_with_a_limit(topics, letters, connections):
    topic = topics.make()
    letters.keep(numbered_letters(topic, [1, 2]))
    kept_elsewhere(topics, numbered_letters(topic, [1, 2]))
    for left in (1, 0):
        assert redrive(connections, PAGES, topic, limit=1) == Redriven(1, (), left)
    topics.forget_group("headrace.redrive.pages")
    kept_elsewhere(topics, numbered_letters(topic, [2, 1, 3]))
    assert redrive(connections, PAGES, topic, limit=1) == Redriven(1, (), 0)
    assert sent_to(topics, topic) == [b"1", b"2", b"3"]


def returned(topic, offset, count):
    message = Message(b"key", b"value", (("own", b"1"),))
    marked = sealed(message, Lane(topic, 0), "pages", count, KEY)
    return letter(topic, offset, headers=marked.headers)


def test_a_record_that_came_back_is_counted_on(topics, letters, connections):
    topic = topics.make()
    letters.keep([returned(topic, 8, 2)])
    redrive(connections, PAGES, topic)
    (back,) = topics.messages(topic)
    assert back.headers() == list(returned(topic, 8, 3).error.raw_headers)


def test_a_record_that_came_back_too_often_is_refused_by_name_and_kept(
    topics, letters, connections
):
    topic = topics.make()
    letters.keep([returned(topic, 8, 3), letter(topic, 10)])
    result = redrive(connections, PAGES, topic)
    assert result.sent == 1
    (often,) = result.refused
    assert often.startswith(
        f"{dead_letters_topic(topic)}[0] offset 0: record 8 was sent back 3 times"
    )
    assert redrive(connections, PAGES, topic) == Redriven(0, (), 0)
    kept = [
        message
        for message in topics.messages(dead_letters_topic(topic))
        if message.value() is not None
    ]
    assert len(kept) == 2


def test_no_letters_at_all_is_nothing_to_do(topics, connections):
    assert redrive(connections, PAGES, topics.make()) == Redriven(0, (), 0)


def test_a_redrive_that_is_overtaken_stops_and_nothing_is_doubled(
    topics, letters, connections, monkeypatch
):
    few_at_once(monkeypatch)
    topic = topics.make()
    letters.keep(numbered_letters(topic, range(8)))
    later = []

    def overtake(sent):
        if not later:
            later.append(redrive(connections, PAGES, topic))

    with pytest.raises(Fenced, match="a later one has begun"):
        redrive(connections, PAGES, topic, progress=overtake)
    assert later == [Redriven(6, (), 0)]
    assert sent_to(topics, topic) == [b"%d" % number for number in range(8)]


KILLED = """
import os, sys
import headrace.connectors.kafka.redrive
from confluent_kafka import ConsumerGroupTopicPartitions, Producer, TopicPartition
from headrace.connectors.kafka import redrive_line
from headrace.model.streams import StreamId
from headrace.ports import Connections

sys.modules["headrace.connectors.kafka.dead_letters_read"]._BATCH_LETTERS = 2
times = []

class Dying(Producer):
    def send_offsets_to_transaction(self, *args):
        super().send_offsets_to_transaction(*args)
        times.append(1)
        if len(times) == 2:
            os._exit(7)

redrive_line.Producer = Dying
connections = Connections({"bootstrap.servers": sys.argv[1]}, "", seal_key=b"of the store")
headrace.connectors.kafka.redrive.redrive(connections, StreamId("pages", "acme"), sys.argv[2])
"""


def test_a_redrive_killed_in_a_transaction_goes_on_where_it_was(topics, letters, connections):
    topic = topics.make()
    letters.keep(numbered_letters(topic, range(6)))
    assert run_apart(KILLED, topics.config["bootstrap.servers"], topic) == 7
    assert redrive(connections, PAGES, topic).sent == 4
    assert sent_to(topics, topic) == [b"%d" % number for number in range(6)]


def test_no_broker_is_an_error_to_try_again(monkeypatch):
    monkeypatch.setattr(KafkaLog.__init__, "__defaults__", (0.5,))
    nowhere = Connections({"bootstrap.servers": "127.0.0.1:1"}, database_url="", seal_key=KEY)
    with pytest.raises(BrokerUnavailable):
        redrive(nowhere, PAGES, "acme.visits")


def test_a_record_too_large_for_its_topic_now_says_what_to_do(topics, letters, connections):
    topic = topics.make(1, {"max.message.bytes": "3000"})
    letters.keep([letter(topic, 1, value=os.urandom(4000))])
    with pytest.raises(ConfigError, match=f"raise max.message.bytes of {topic}"):
        redrive(connections, PAGES, topic)


def test_letters_of_a_partition_that_is_gone_stay_and_say_what_to_do(topics, letters, connections):
    topic = topics.make(2)
    letters.keep([letter(topic, 1, partition=1)])
    topics.delete(topic)
    topics.make_named(topic, 1)
    with pytest.raises(TopicMissing, match="partition 1 is not there; make it"):
        redrive(connections, PAGES, topic)
    admin = AdminClient(topics.config)
    admin.create_partitions([NewPartitions(topic, 2)])[topic].result(20)
    assert redrive(connections, PAGES, topic).sent == 1


def test_letters_of_a_topic_that_was_made_again_are_read_from_their_start(
    topics, letters, connections
):
    topic = topics.make()
    letters.keep(numbered_letters(topic, range(5)))
    redrive(connections, PAGES, topic)
    topics.delete(dead_letters_topic(topic))
    letters.close()
    letters.keep(numbered_letters(topic, [7]))
    assert redrive(connections, PAGES, topic).sent == 1


def test_a_place_past_the_end_is_not_believed(topics, letters, connections):
    topic = topics.make()
    letters.keep(numbered_letters(topic, [1, 2]))
    redrive(connections, PAGES, topic)
    letters.keep(numbered_letters(topic, [3]))
    past = TopicPartition(dead_letters_topic(topic), 0, 1000)
    group = ConsumerGroupTopicPartitions("headrace.redrive.pages", [past])
    admin = AdminClient(topics.config)
    admin.alter_consumer_group_offsets([group])[group.group_id].result(20)
    assert redrive(connections, PAGES, topic).sent == 1
    assert sent_to(topics, topic) == [b"1", b"2", b"3"]


# reading


def read_by(topics, topic, use_case, end, batch_records=100):
    """What a use case is given of a topic."""
    piece = Slice(LaneId(use_case, "acme", f"{topic}[0]"), topic, 0, end, epoch=1)
    with contextlib.closing(KafkaSliceReader(topics.config, seal_key=KEY)) as reader:
        return list(reader.read([piece], batch_records))


def test_what_was_sent_back_is_given_to_its_use_case_only(topics, letters, connections):
    topic = topics.make()
    topics.write(topic, 0, [Row(b"plain", headers=(("trace", b"1"),)), *numbered(2)])
    letters.keep([letter(topic, 1, value=b"again")])
    redrive(connections, PAGES, topic)
    topics.write(topic, 0, numbered(1, first=9))
    end = 5 + 1  # a transaction ends with a record of its own
    for batch_records in (1, 100):
        mine, others = (
            read_by(topics, topic, use_case, end, batch_records) for use_case in ("pages", "bills")
        )
        assert values(mine) == [b"plain", b"0", b"1", b"again", b"9"]
        assert values(others) == [b"plain", b"0", b"1", b"9"]
        assert (others[-1].reached, others[-1].last) == (end, True)


def test_a_sender_hides_nothing_by_headers_of_a_redrive(topics, letters, connections):
    topic, other = topics.make(), topics.make()
    letters.keep([letter(other, 1, value=b"of another topic")])
    redrive(connections, PAGES, other)
    (stolen,) = topics.messages(other)
    rows = [
        Row(b"plain", headers=(("headrace.redrive.use-case", b"pages"),)),
        Row(stolen.value(), stolen.key(), tuple(stolen.headers())),
        Row(b"changed", stolen.key(), tuple(stolen.headers())),
    ]
    topics.write(topic, 0, rows)
    for use_case in ("pages", "bills"):
        given = values(read_by(topics, topic, use_case, 3))
        assert given == [b"plain", b"of another topic", b"changed"]


def test_a_handler_that_passes_headers_on_hides_nothing_from_those_downstream(
    topics, letters, connections
):
    topic, scores = topics.make(), topics.make()
    letters.keep([letter(topic, 1, value=b"again", headers=(("trace", b"1"),))])
    redrive(connections, PAGES, topic)
    (batch,) = read_by(topics, topic, "pages", 2)
    assert values([batch]) == [b"again"]
    output = batch.records.select(["key", "value", "headers"])
    with contextlib.closing(KafkaTopic(scores).open(Site(connections, None))) as sink:
        (written,) = sink.write([Effect((batch.slice,), (batch.reached,), output)])
    assert written.error is None
    (message,) = topics.messages(scores)
    assert [name for name, _ in message.headers()] == ["trace", "headrace.slice"]
    assert values(read_by(topics, scores, "bills", 1)) == [b"again"]


def test_of_a_stream_of_several_topics_letters_of_each_go_back_to_their_own(
    topics, letters, connections
):
    one, other = topics.make(2), topics.make()
    both = listed([one, f"{other}[0]"])
    found = [letter(one, 3, partition=1, value=b"a"), letter(other, 4, value=b"b")]
    letters.keep([replace(each, slice=replace(each.slice, topic=both)) for each in found])
    assert redrive(connections, PAGES, both, dry_run=True) == Redriven(2, (), 0)
    assert redrive(connections, PAGES, both, limit=1) == Redriven(1, (), 1)
    assert redrive(connections, PAGES, both) == Redriven(1, (), 0)
    assert (sent_to(topics, one), sent_to(topics, other)) == ([b"a"], [b"b"])


def test_a_topic_of_several_that_is_gone_keeps_no_letter_of_the_others(
    topics, letters, connections
):
    one, other = sorted([topics.make(), topics.make()])
    both = listed([one, other])
    found = [letter(one, 3, value=b"a"), letter(other, 4, value=b"b")]
    letters.keep([replace(each, slice=replace(each.slice, topic=both)) for each in found])
    topics.delete(one)
    done = redrive(connections, PAGES, both)
    assert (done.sent, len(done.refused)) == (1, 1)
    assert f"topic {one}: partition 0 is not there" in done.refused[0]
    assert sent_to(topics, other) == [b"b"]
    with pytest.raises(TopicMissing):
        redrive(connections, PAGES, one)
