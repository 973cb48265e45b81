"""What a redrive reads and what it sends, without Kafka; a real one is in the integration tests."""

import sys
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.connectors.kafka.dead_letter_headers import headers_of
from headrace.connectors.kafka.dead_letters_read import PLACE_HEADER
from headrace.connectors.kafka.partitions import TopicPartition
from headrace.connectors.kafka.redrive import Redriven, redrive
from headrace.connectors.kafka.seals import USE_CASE_HEADER, Message, sealed
from headrace.errors import ConfigError, Temporary
from headrace.model.streams import StreamId
from headrace.ports import Connections
from headrace.testing.dead_letters_contract import letter
from headrace.testing.log_fake import MemoryLog, MemoryReader, Row

module = sys.modules["headrace.connectors.kafka.redrive"]
reading = sys.modules["headrace.connectors.kafka.dead_letters_read"]
TOPIC = "acme.visits"
LETTERS = f"{TOPIC}.dlq"
PAGES = StreamId("pages", "acme")
CONNECTIONS = Connections({"bootstrap.servers": "b:1"}, "", seal_key=b"of the store")


class Cluster:
    """Letters in memory, and what was sent of them."""

    def __init__(self):
        self.log = MemoryLog()
        self.log.create_topic(LETTERS)
        self.sent = []
        self.place = None
        #: transactions that are still committed; then a redrive is killed
        self.lives = 1_000_000
        self.letters_read = 0

    def keep(self, *letters):
        rows = [
            Row(
                kept.error.raw_value,
                kept.error.raw_key,
                tuple(headers_of(kept, 10**6)),
                kept.error.timestamp_ms or 0,
            )
            for kept in letters
        ]
        self.log.append(LETTERS, 0, rows)

    def redrive(self, **options):
        return redrive(CONNECTIONS, PAGES, TOPIC, **options)

    # what a redrive opens

    def take_over(self):
        pass

    def places(self, partitions):
        return (
            {}
            if self.place is None
            else {partition.partition: self.place for partition in partitions}
        )

    def send(self, partition, messages, place):
        if not self.lives:
            raise Temporary("killed")
        self.lives -= 1
        self.sent += messages
        self.place = place
        mark = ((USE_CASE_HEADER, b"pages"), (PLACE_HEADER, b"%d" % place))
        self.log.append(LETTERS, partition, [Row(None, headers=mark)])

    def close(self):
        pass

    def read(self, slices, batch_records):
        for batch in MemoryReader(self.log).read(slices, batch_records):
            self.letters_read += len(batch.records)
            yield batch


def clustered(monkeypatch, batch_letters):
    made = Cluster()
    monkeypatch.setattr(module, "KafkaLog", lambda _: made.log)
    monkeypatch.setattr(module, "KafkaSliceReader", lambda _: made)
    monkeypatch.setattr(module, "RedriveLine", lambda *_: made)
    monkeypatch.setattr(reading, "_BATCH_LETTERS", batch_letters)
    return made


@pytest.fixture
def cluster(monkeypatch):
    return clustered(monkeypatch, 5)


def letters(*offsets, **kwargs):
    return [letter(TOPIC, offset, value=b"%d" % offset, **kwargs) for offset in offsets]


def values(messages):
    return [message.value for message in messages]


@pytest.mark.parametrize("dry_run", [False, True])
def test_letters_beyond_the_limit_are_counted_up_to_a_bound(cluster, monkeypatch, dry_run):
    monkeypatch.setattr(module, "_MOST_LEFT", 20)
    cluster.keep(*letters(*range(100)))
    cluster.place = 0
    done = cluster.redrive(limit=10, dry_run=dry_run)
    assert (done.sent, done.left) == (10, 20)
    # All are looked for together; then they are read again as far as needed.
    assert cluster.letters_read == 130


def test_repeats_are_not_sent_by_a_later_redrive_with_a_limit(cluster):
    cluster.keep(*letters(1, 2), *letters(1, 2))
    assert cluster.redrive(limit=1) == Redriven(1, (), 1)
    assert cluster.redrive(limit=1) == Redriven(1, (), 0)
    assert cluster.redrive() == Redriven(0, (), 0)
    assert values(cluster.sent) == [b"1", b"2"]


def test_a_letter_kept_again_after_its_record_was_sent_is_not_sent_again(cluster):
    cluster.keep(*letters(1))
    cluster.redrive()
    cluster.keep(*letters(1, message="another attempt"))
    assert cluster.redrive() == Redriven(0, (), 0)
    cluster.place = None
    assert cluster.redrive() == Redriven(0, (), 0)


def test_a_record_of_a_topic_made_again_is_another(cluster):
    cluster.keep(*letters(0))
    cluster.redrive()
    cluster.keep(*letters(0, timestamp_ms=1_800_000_000_000))
    assert cluster.redrive().sent == 1


def test_a_record_that_came_back_and_failed_again_is_sent_three_times_in_all(cluster):
    cluster.keep(*letters(7))
    for offset in (20, 30, 40):
        assert cluster.redrive().sent == 1
        cluster.keep(letter(TOPIC, offset, value=b"7", headers=cluster.sent[-1].headers))
    done = cluster.redrive()
    assert done.sent == 0
    assert "record 40 was sent back 3 times and failed again" in done.refused[0]


@pytest.mark.parametrize("count", [b"3", b"many"])
def test_a_count_that_a_sender_wrote_is_not_believed(cluster, count):
    forged = (("headrace.redrive.use-case", b"pages"), ("headrace.redrive.count", count))
    cluster.keep(letter(TOPIC, 1, headers=(("own", b"1"), *forged, ("headrace.redrive.seal", b""))))
    assert cluster.redrive().sent == 1
    plain = Message(b"key", b"value", (("own", b"1"),))
    wanted = sealed(plain, TopicPartition(TOPIC, 0), "pages", 1, CONNECTIONS.seal_key)
    assert cluster.sent == [wanted]


def test_a_record_cannot_mark_a_place(cluster):
    forged = ((USE_CASE_HEADER, b"pages"), (PLACE_HEADER, b"1000"))
    cluster.keep(letter(TOPIC, 1, headers=forged), *letters(2))
    assert cluster.redrive().sent == 2


def test_a_record_that_names_another_use_case_is_sent_back_all_the_same(cluster):
    cluster.keep(letter(TOPIC, 1, headers=((USE_CASE_HEADER, b"bills"),)))
    assert cluster.redrive().sent == 1


OFFSETS = st.lists(st.integers(0, 5), max_size=12)
STEP = st.one_of(
    OFFSETS.map(lambda offsets: ("keep", offsets)),
    st.tuples(st.just("redrive"), st.none() | st.integers(1, 4)),
    st.tuples(st.just("killed"), st.integers(0, 2)),
    st.tuples(st.just("forget"), st.none()),
)


@settings(deadline=None)
@given(steps=st.lists(STEP, max_size=12), together=st.integers(1, 6))
def test_whatever_is_kept_limited_killed_or_forgotten_each_record_is_sent_once(steps, together):
    with pytest.MonkeyPatch.context() as patch:
        made = clustered(patch, 2)
        patch.setattr(reading, "_TOGETHER", together)
        kept = set()
        for step, value in steps:
            if step == "keep":
                made.keep(*letters(*value))
                kept |= set(value)
            elif step == "redrive":
                made.redrive(limit=value)
            elif step == "forget":
                made.place = None
            else:
                made.lives = value
                with suppress(Temporary):
                    made.redrive()
                made.lives = 1_000_000
            assert len(set(values(made.sent))) == len(made.sent)
        made.redrive()
        assert sorted(values(made.sent)) == sorted(b"%d" % number for number in kept)


def test_of_a_list_of_streams_it_is_told_where_the_letters_of_each_are():
    wanted = Connections({}, ""), StreamId("keep", "acme"), "clicks:acme.orders,clicks:acme.visits"
    where = r"letters are in clicks--acme\.orders\.dlq, clicks--acme\.visits\.dlq: put them"
    with pytest.raises(ConfigError, match=where):
        redrive(*wanted)
