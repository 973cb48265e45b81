"""Records divided among tenants' topics, of which some refuse, in a Kafka that is played.

Brokers are played with what matters here: messages are in a partition before their transaction is
committed, the end of one is behind them at once, and what refuses is said message by message.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import count
from random import Random
from types import SimpleNamespace
from zlib import crc32

import pyarrow as pa
import pytest
from confluent_kafka import OFFSET_BEGINNING, KafkaError, KafkaException

from headrace.connectors.kafka import (
    mark_topics,
    parked_topics,
    sink_line,
    sink_transactions,
)
from headrace.connectors.kafka.parked_topics import ParkedTopics
from headrace.connectors.kafka.sink_line import TopicProducer
from headrace.connectors.kafka.sink_transaction_line import MORE, Mark, OutcomeLost
from headrace.connectors.kafka.tenant_topics import TenantTopics
from headrace.errors import ConfigError, SinkUnavailable
from headrace.model.lane_names import named
from headrace.model.streams import LaneId, Slice
from headrace.ports import Connections, Effect, Site
from headrace.splitting import ByKey, split

TENANTS = ["acme", "bolt", "corp"]
SOURCE, PARTITIONS, WIDER = "shared.all", 2, 4
STREAM, MARKS = "clicks:shared.all", "headrace.marks.6.clicks.shared.all"
#: where a shard begins: no offset has room for it
WIDE = 10**60
BACK = split(topic=SOURCE, to="{tenant}.visits", tenant=ByKey()).parked.sink
PARKED = "{}.visits.split.parked"
SINK = TenantTopics("{tenant}.visits", "{tenant}.visits.split.parked", "split-parked", "strangers")


class Killed(BaseException):
    """The process is no more."""


class Kafka:
    """Topics, what is in them, and marks."""

    def __init__(self):
        self.widths = {SOURCE: PARTITIONS, "strangers": 1}
        self.widths |= {f"{tenant}.visits": 2 for tenant in TENANTS}
        #: (topic, partition) -> entries, each the state of its transaction and a message or None
        self.logs = defaultdict(list)
        self.marks = defaultdict(dict)
        #: topic -> what it says of every message
        self.refusing = {}
        #: topic -> most bytes of a message, where it has another limit than Kafka's own
        self.most_bytes = {SOURCE: 20_000_000}
        #: of a message that is refused is told after those that the client gave up because of it
        self.gives_up = False
        self.unmakable = False
        self.dies = None
        #: transactions that are committed, which partitions do not know of yet
        self.untold = []
        #: how many of these there may be; brokers tell partitions after a commit is answered
        self.most_untold = 0

    def make(self, _config, partitions, _timeout_s, topic_config=None):
        if self.unmakable:
            return dict.fromkeys(partitions, ConfigError("no right"))
        if most_bytes := (topic_config or {}).get("max.message.bytes"):
            self.most_bytes |= dict.fromkeys(partitions, int(most_bytes))
        self.widths |= {name: self.widths.get(name, count) for name, count in partitions.items()}
        return {}

    def grow(self, _config, partitions, _timeout_s):
        if self.unmakable:
            return {
                name: ConfigError(f"topic {name}: give it {count}, or grant Alter on it")
                for name, count in partitions.items()
            }
        self.widths |= partitions
        return {}

    def refuses(self, topic, key, value):
        """What a topic says of a message; None: it takes it."""
        too_large = len(key) + len(value) > self.most_bytes.get(topic, 1_000_000)
        return KafkaError.MSG_SIZE_TOO_LARGE if too_large else self.refusing.get(topic)

    def unwritable(self, _config, topics):
        denied = KafkaError.TOPIC_AUTHORIZATION_FAILED
        return {name for name in topics if self.refusing.get(name) == denied}

    def offsets(self, _settings, places, at):
        first = at == OFFSET_BEGINNING
        return {place: 0 if first else len(self.logs[place]) for place in places}

    def tell(self, most=0):
        """Let partitions know of commits, and readers see them."""
        while len(self.untold) > most:
            now, places = self.untold.pop(0)
            now.state = "committed"
            for place in places:
                self.logs[place].append((now, None))

    def append(self, topic, key, message, partition=None):
        place = topic, crc32(key) % self.widths[topic] if partition is None else partition
        self.logs[place].append(message)
        return place

    def committed(self, topic):
        """The committed messages of each partition, in order, by their offsets."""
        found = {
            place: [(at, e[1]) for at, e in enumerate(log) if e[1] and e[0].state == "committed"]
            for place, log in self.logs.items()
            if place[0] == topic
        }
        return {place: log for place, log in found.items() if log}


class Producer:
    """A transactional producer of the Kafka above."""

    def __init__(self, kafka):
        self.kafka, self.waiting = kafka, []

    def list_topics(self, timeout):
        return SimpleNamespace(topics=dict.fromkeys(self.kafka.widths))

    def begin_transaction(self):
        self.now, self.places, self.offsets = SimpleNamespace(state="open"), set(), ()

    def produce(self, topic, value, key, on_delivery, partition=None, **more):
        self.waiting.append((topic, value, key, partition, more, on_delivery))

    def __len__(self):
        return len(self.waiting)

    def poll(self, timeout):
        waiting, self.waiting = (self.waiting, []) if timeout else ([], self.waiting)
        for code, (topic, value, key, partition, more, told) in self._judged(waiting):
            if code is None:
                message = SimpleNamespace(key=key, value=value, **more)
                self.places.add(self.kafka.append(topic, key, (self.now, message), partition))
            found = SimpleNamespace(topic=lambda topic=topic: topic, offset=lambda: 0)
            told(None if code is None else KafkaError(code), found)

    def _judged(self, waiting):
        """Messages with what is said of each."""
        if self.kafka.unwritable(None, {topic for topic, *_ in waiting}):
            # For which topic a transaction is refused the client does not say.
            return [(KafkaError._PURGE_QUEUE, message) for message in waiting]
        found = [(self.kafka.refuses(one[0], one[2], one[1]), one) for one in waiting]
        if not self.kafka.gives_up or not any(code for code, _ in found):
            return found
        refused = [(code, message) for code, message in found if code]
        return [(KafkaError._PURGE_QUEUE, one) for code, one in found if not code] + refused

    def send_offsets_to_transaction(self, offsets, group):
        if not {offset.topic for offset in offsets} <= self.kafka.widths.keys():
            unknown = KafkaError.UNKNOWN_TOPIC_OR_PART
            raise KafkaException(KafkaError(unknown, "none", txn_requires_abort=True))
        self.offsets = [(group, offset) for offset in offsets]

    def commit_transaction(self):
        if self.kafka.dies == "before":
            raise Killed
        for group, offset in self.offsets:
            assert offset.partition < self.kafka.widths[offset.topic], "brokers keep no such offset"
            self.kafka.marks[group][offset.topic, offset.partition] = Mark.read(
                offset.offset, offset.metadata
            )
        self.now.state = "committing"
        self.kafka.untold.append((self.now, self.places))
        self.kafka.tell(self.kafka.most_untold)
        if self.kafka.dies == "after":
            raise Killed

    def abort_transaction(self):
        self.now.state = "aborted"
        for place in self.places:
            self.kafka.logs[place].append((self.now, None))


class Line:
    """A line to the Kafka above."""

    def __init__(self, kafka, config):
        self.producer, self.settings, self.kafka = Producer(kafka), config, kafka
        self.sender = TopicProducer.__new__(TopicProducer)
        self.sender.producer, self.sender.unmade = self.producer, {}
        self.sender.topics, self.marked = set(kafka.widths), {}

    def marks(self, group, lanes):
        return {lane: mark for lane in lanes if (mark := self.kafka.marks[group].get(lane))}

    def member(self, group):
        return group

    def widths(self):
        return dict(self.kafka.widths)


class Places(dict):
    """Where lanes are; those of a stream begin far out."""

    def __missing__(self, lane):
        return _begin(lane)


class Positions:
    """Where lanes are."""

    def __init__(self):
        self.at = Places()

    def advance(self, moves):
        return [self.at[move.lane] == move.from_offset for move in moves]


class Service:
    """A splitter, and what brings back what it parked, over the Kafka above."""

    def __init__(self, monkeypatch, topic=SOURCE):
        self.kafka, self.positions, self.topic = Kafka(), Positions(), topic
        self.waves, self.lines, self.epoch = 0, {}, 1
        monkeypatch.setattr(sink_transactions, "line_for", self._line_for)
        monkeypatch.setattr(sink_transactions, "give_up", lambda config: self.lines.clear())
        monkeypatch.setattr(sink_line, "_NEW_TOPIC_WAIT_S", 0.0)
        monkeypatch.setattr(sink_line, "_MADE_TOPIC_WAIT_S", 1.0)
        monkeypatch.setattr(parked_topics, "_offsets", self.kafka.offsets)
        monkeypatch.setattr(sink_transactions, "unwritable_topics", self.kafka.unwritable)
        for module in (parked_topics, mark_topics):
            monkeypatch.setattr(module, "unmakable_topics", self.kafka.make)
            monkeypatch.setattr(module, "ungrown_topics", self.kafka.grow)
        self.source = defaultdict(list)
        #: lanes that have records of a partition one after the other: numbers, and which are first
        self.lanes = {partition: [(partition, 0)] for partition in range(PARTITIONS)}
        self._numbers = count(PARTITIONS)

    def _line_for(self, config):
        return self.lines.setdefault(config["transactional.id"], Line(self.kafka, config))

    def send(self, partition, tenant, key):
        at = len(self.source[partition])
        self.source[partition].append((tenant, key, f"{partition}:{at}".encode()))

    def split(self, *partitions, most=3, dies=None):
        """Divide some records of lanes; killed or not, the same wave comes again if it was."""
        pieces, tables = [], []
        for partition in partitions:
            lane, start, rows = self._next_of(partition)
            if rows := rows[:most]:
                pieces.append(Slice(lane, self.topic, start, start + len(rows), self.epoch))
                tables.append(_table(rows, start - _begin(lane)))
        return self._wave(pieces, tables, SINK.open, dies)

    def reshard(self, partition):
        """What comes from now on is in another lane, which follows the one that there was."""
        self.lanes[partition].append((next(self._numbers), len(self.source[partition])))

    def widen(self, partitions):
        """Somebody gives the shared topic more partitions."""
        self.kafka.widths[self.topic] = partitions
        self.lanes |= {number: [(number, 0)] for number in range(len(self.lanes), partitions)}

    def widen_parked(self, tenant):
        """And a topic of parked records, if there is one."""
        if PARKED.format(tenant) in self.kafka.widths:
            self.kafka.widths[PARKED.format(tenant)] = WIDER

    def _widest(self):
        """How many partitions a topic of parked records may have."""
        return max(PARTITIONS, *(self.kafka.widths.get(PARKED.format(t), 0) for t in TENANTS))

    def _next_of(self, partition):
        """The first lane of which something is left, where it is, and what that is."""
        ends = [first for _, first in self.lanes[partition][1:]] + [len(self.source[partition])]
        for (number, first), end in zip(self.lanes[partition], ends, strict=True):
            lane = LaneId("split", "shared", named(self.topic, number))
            start = self.positions.at[lane]
            rows = self.source[partition][first + start - _begin(lane) : end]
            if rows:
                break
        return lane, start, rows

    def bring(self, tenant, partition, dies=None):
        """Bring what is parked of a tenant in a partition."""
        topic = f"{tenant}.visits.split.parked"
        lane = LaneId("split-parked", tenant, named(topic, partition))
        log = self.kafka.logs[topic, partition]
        start = self.positions.at[lane]
        opens = [at for at, entry in enumerate(log) if entry[0].state in ("open", "committing")]
        until = min(opens, default=len(log))
        found = self.kafka.committed(topic).get((topic, partition), ())
        rows = [message for at, message in found if start <= at < until]
        if not rows:
            return None
        table = pa.table({"key": [row.key for row in rows], "value": [row.value for row in rows]})
        piece = Slice(lane, topic, start, until, epoch=1)

        return self._wave([piece], [table], BACK.open, dies)

    def _wave(self, pieces, tables, opened, dies):
        self.waves += 1
        given = [
            Effect((piece,), (piece.until_offset,), table)
            for piece, table in zip(pieces, tables, strict=True)
        ]
        if not given:
            return None
        for dying in (dies, None):
            self.kafka.dies = dying
            site = Site(Connections({}, ""), self.positions, f"run-{self.waves}", "a-0")
            try:
                outcomes = opened(site).write(given)
            except Killed:
                # Who takes the id ends what was left open.
                for line in self.lines.values():
                    if getattr(line.producer, "now", None) and line.producer.now.state == "open":
                        line.producer.abort_transaction()
                self.lines.clear()
                continue
            break
        for effect, outcome in zip(given, outcomes, strict=True):
            if outcome.error is None:
                self.positions.at[effect.slices[0].lane] = effect.reached[0]
        self.told = [outcome.error and outcome.error.message for outcome in outcomes]
        return [outcome.error and outcome.error.code for outcome in outcomes]

    def finish(self):
        """All that refuses takes again, and everything is divided and brought."""
        self.kafka.refusing.clear()
        self.kafka.widths |= {f"{tenant}.visits": 2 for tenant in TENANTS}
        self.kafka.most_untold = 0
        self.kafka.tell()
        self.lines.clear()
        for _ in range(100):
            moved = [self.split(partition) for partition in sorted(self.lanes)]
            moved += [self.bring(t, p) for t in TENANTS for p in range(self._widest())]
            if not any(moved):
                return
        raise AssertionError("it does not come to an end")

    def judge(self):
        """What is wrong with the tenants' topics: each record once, those of a key in order."""
        for tenant, topic in [*((name, f"{name}.visits") for name in TENANTS), (None, "strangers")]:
            found = self.kafka.committed(topic).values()
            values = [message.value for log in found for _, message in log]
            sent = [row[2] for lane in self.source.values() for row in lane if row[0] == tenant]
            assert sorted(values) == sorted(sent), tenant
            for log in found:
                by_key = defaultdict(list)
                for _, message in log:
                    lane, at = message.value.split(b":")
                    by_key[lane, message.key].append(int(at))
                assert all(places == sorted(places) for places in by_key.values()), (tenant, by_key)


def _begin(lane):
    return WIDE if lane.name.startswith(STREAM) else 0


def _table(rows, start):
    tenants, keys, values = zip(*rows, strict=True)
    return pa.table(
        {
            "tenant": pa.array(tenants, pa.string()),
            "key": pa.array(keys, pa.binary()),
            "value": pa.array(values, pa.binary()),
            "place": range(start, start + len(rows)),
        }
    )


@pytest.fixture
def service(monkeypatch):
    return Service(monkeypatch)


MISSING = "missing"
KINDS = [KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.MSG_SIZE_TOO_LARGE, MISSING]


def _steps(chance, count, *, reshards=False):
    """Some steps of a service: records come, and are divided, brought, refused and taken."""
    for _ in range(count):
        tenant, lane = chance.choice(TENANTS), chance.randrange(PARTITIONS)
        dies = chance.choice([None, None, None, "before", "after"])
        yield chance.choice(
            [
                *[("send", lane, tenant, chance.choice([b"x", b"y", b"z"]))] * 6,
                *[("split", chance.choice([(0,), (1,), (0, 1)]), dies)] * 4,
                *[("bring", tenant, lane, dies)] * 3,
                ("refuse", tenant, chance.choice(KINDS)),
                ("take", tenant),
                ("send", lane, None, b"x"),
                *[("tell", chance.randrange(3))] * 2,
                ("forget",),
                *([("reshard", lane)] if reshards else []),
            ]
        )


def _widening(chance, count):
    """Such steps, while both the shared topic and those of parked records get more partitions."""
    for tenant in TENANTS:
        yield from (("refuse", tenant, KINDS[0]), ("send", 0, tenant, b"x"), ("split", (0,), None))
    wide = PARTITIONS
    for step in _steps(chance, count):
        yield step
        tenant, place = chance.choice(TENANTS), chance.randrange(wide)
        match chance.randrange(8):
            case 0:
                wide = chance.randint(wide, WIDER)
                yield ("widen", wide)
            case 1:
                yield ("widen_parked", tenant)
            case 2:
                yield ("bring", tenant, place, None)
            case 3 | 4:
                yield ("send", place, tenant, chance.choice([b"x", b"y"]))
            case 5 | 6:
                yield ("split", (place,), None)


def _play(service, steps):
    for name, *more in steps:
        match name:
            case "send" | "reshard" | "widen" | "widen_parked":
                getattr(service, name)(*more)
            case "split":
                partitions, dies = more
                codes = service.split(*partitions, dies=dies)
                assert codes is None or set(codes) == {None}, "a tenant's topic holds up the others"
            case "bring":
                tenant, partition, dies = more
                service.bring(tenant, partition, dies)
            case "refuse":
                topic = f"{more[0]}.visits"
                if more[1] is MISSING:
                    service.kafka.widths.pop(topic, None)
                    service.lines.clear()
                else:
                    service.kafka.refusing[topic] = more[1]
            case "take":
                topic = f"{more[0]}.visits"
                service.kafka.refusing.pop(topic, None)
                service.kafka.widths[topic] = 2
            case "tell":
                service.kafka.most_untold = more[0]
                service.kafka.tell(more[0])
            case "forget":
                service.kafka.marks["headrace.tx.split"].clear()


@pytest.mark.parametrize("seed", range(200))
def test_each_record_comes_once_and_in_order_whoever_refuses_and_dies(service, seed):
    _play(service, _steps(Random(seed), 80))
    service.finish()
    service.judge()


@pytest.mark.parametrize("seed", range(60))
def test_so_it_is_while_topics_get_more_partitions(service, seed):
    _play(service, _widening(Random(seed), 80))
    service.finish()
    service.judge()


@pytest.mark.parametrize("seed", range(200))
def test_so_it_is_of_a_stream_whose_shards_follow_each_other(monkeypatch, seed):
    service = Service(monkeypatch, STREAM)
    _play(service, _steps(Random(seed), 80, reshards=True))
    service.finish()
    service.judge()


def test_what_a_shard_parked_goes_before_what_follows_in_another(monkeypatch):
    service = Service(monkeypatch, STREAM)
    # Somebody divided a topic of Kafka by this name before, so it is not of one partition.
    service.kafka.widths["acme.visits.split.parked"] = 4
    _parked_then_taken(service)
    service.reshard(0)
    service.send(0, "acme", b"x")
    assert service.split(0) == [None]
    assert not service.kafka.committed("acme.visits")
    service.finish()
    service.judge()
    (log,) = service.kafka.committed("acme.visits").values()
    assert [message.value for _, message in log] == [b"0:0", b"0:1", b"0:2"]


@pytest.mark.parametrize("whole", [True, False])
def test_what_a_shard_parks_that_was_sent_back_goes_before_what_follows(monkeypatch, whole):
    """The shard that follows has a mark of before, which tells that nothing of it is parked."""
    service = Service(monkeypatch, STREAM)
    service.send(0, "acme", b"x")
    service.split(0)
    service.reshard(0)
    service.send(0, "acme", b"x")
    service.split(0)
    first, after = service.positions.at
    del service.positions.at[first]
    if whole:
        del service.positions.at[after]
    service.epoch += 1
    service.kafka.refusing["acme.visits"] = KafkaError.MSG_SIZE_TOO_LARGE
    service.split(0)
    service.kafka.refusing.clear()
    service.send(0, "acme", b"x")
    service.finish()
    (log,) = service.kafka.committed("acme.visits").values()
    again = [b"0:0", b"0:1", b"0:2"] if whole else [b"0:0", b"0:2"]
    assert [message.value for _, message in log] == [b"0:0", b"0:1", *again]


def test_of_a_shard_is_told_in_a_topic_of_ours_how_far_it_came(monkeypatch):
    service = Service(monkeypatch, STREAM)
    service.send(0, "acme", b"x")
    service.split(0)
    assert service.kafka.widths[MARKS] == 1
    mark = service.kafka.marks["headrace.tx.split"][MARKS, 0]
    assert (mark.reached, mark.wave_id) == (WIDE + 1, "run-1")
    service.reshard(0)
    service.send(0, "acme", b"x")
    service.split(0)
    assert service.kafka.widths[MARKS] == PARTITIONS + 1
    assert service.kafka.marks["headrace.tx.split"][MARKS, PARTITIONS].reached == WIDE + 1


def test_a_topic_of_marks_that_somebody_deleted_is_made_again(monkeypatch):
    """A worker goes on with the producer that knew it."""
    service = Service(monkeypatch, STREAM)
    service.send(0, "acme", b"x")
    assert service.split(0) == [None]
    del service.kafka.widths[MARKS]
    service.send(0, "acme", b"x")
    assert service.split(0) == ["SinkUnavailable"]
    assert service.split(0) == [None]
    service.judge()


def test_a_shard_of_too_high_a_number_is_refused_and_holds_up_no_other(monkeypatch):
    service = Service(monkeypatch, STREAM)
    service.lanes[0] = [(mark_topics.MOST_SHARDS, 0)]
    service.send(0, "acme", b"x")
    service.send(1, "bolt", b"x")
    assert service.split(0, 1) == ["TargetMissing", None]
    assert service.kafka.widths[MARKS] == 2


def test_a_topic_of_marks_that_cannot_be_made_is_told_before_anything_is_sent(monkeypatch):
    service = Service(monkeypatch, STREAM)
    service.kafka.unmakable = True
    service.send(0, "acme", b"x")
    assert service.split(0) == ["ConfigError"]
    assert not service.kafka.committed("acme.visits")


def test_no_two_streams_have_one_topic_of_marks():
    names = ["a:1.b.c", "a.1:b.c", "a:b.c", "a.b:c", "a-b:c", "a:b-c"]
    lanes = [LaneId("split", "shared", named(name, 0)) for name in names]
    found = {mark_topics.mark_of(Slice(lane, "x", 0, 1, epoch=1)) for lane in lanes}
    assert len(found) == len(names)


def _parked_then_taken(service):
    """What is parked is not brought yet when its tenant's topic takes again."""
    service.send(0, "acme", b"x")
    service.kafka.refusing["acme.visits"] = KafkaError.MSG_SIZE_TOO_LARGE
    service.split(0)
    service.kafka.refusing.clear()
    service.send(0, "acme", b"x")
    service.split(0)


def test_what_comes_behind_parked_records_follows_them(service):
    _parked_then_taken(service)
    assert not service.kafka.committed("acme.visits")
    service.bring("acme", 0)
    service.send(0, "acme", b"x")
    service.split(0)
    service.judge()
    (log,) = service.kafka.committed("acme.visits").values()
    assert [message.value for _, message in log] == [b"0:0", b"0:1", b"0:2"]
    assert service.kafka.marks["headrace.tx.split"][SOURCE, 0].parked == ()


def test_a_key_of_10_mb_is_parked_where_its_tenant_takes_none_and_holds_up_nobody(service):
    large = b"k" * 10_000_000
    for name in TENANTS:
        service.send(0, name, b"x")
        service.send(0, name, large)
        service.send(0, name, b"x")
    service.kafka.most_bytes["bolt.visits"] = 20_000_000
    while service.split(0, most=4):
        assert service.told == [None]
    done = {name: service.kafka.committed(f"{name}.visits").values() for name in TENANTS}
    assert sum(map(len, done["bolt"])) == 3
    assert service.bring("acme", 0) == ["SinkRefused"]
    assert "acme.visits" in service.told[0]
    assert len(service.told[0]) < 500
    service.kafka.most_bytes |= {f"{name}.visits": 20_000_000 for name in TENANTS}
    service.finish()
    service.judge()


def test_a_message_that_is_refused_is_told_where_others_were_given_up_because_of_it(service):
    service.send(0, "acme", b"x")
    service.send(0, "acme", b"k" * 10_000_000)
    service.split(0)
    service.kafka.gives_up = True
    assert service.bring("acme", 0) == ["SinkRefused"]
    assert service.split(0) is None


def test_partitions_that_somebody_adds_leave_what_is_parked_in_its_order(service):
    """The shared topic got more first, so that its new ones were parked with the old ones."""
    service.kafka.refusing["acme.visits"] = KafkaError.MSG_SIZE_TOO_LARGE
    service.send(0, "acme", b"x")
    service.split(0)
    service.widen(4)
    service.send(2, "acme", b"x")
    service.split(2)
    service.widen_parked("acme")
    service.kafka.refusing.clear()
    service.send(2, "acme", b"x")
    service.split(2)
    service.bring("acme", 2)
    service.finish()
    service.judge()


def test_a_partition_that_is_new_is_parked_in_one_of_its_own(service):
    parked = PARKED.format("acme")
    service.kafka.refusing["acme.visits"] = KafkaError.MSG_SIZE_TOO_LARGE
    service.send(0, "acme", b"x")
    service.split(0)
    service.widen(4)
    service.send(2, "acme", b"x")
    service.split(2)
    assert service.kafka.widths[parked] == 4
    assert service.kafka.committed(parked).keys() == {(parked, 0), (parked, 2)}


def test_where_a_topic_of_parked_records_gets_no_more_partitions_the_new_one_waits(service):
    for name in ("acme", "bolt"):
        service.kafka.refusing[f"{name}.visits"] = KafkaError.MSG_SIZE_TOO_LARGE
    service.send(0, "acme", b"x")
    service.split(0)
    service.kafka.unmakable = True
    service.widen(3)
    for name in ("acme", "corp"):
        service.send(2, name, b"x")
    assert service.split(2, most=1) == ["TargetMissing"]
    assert "give it 3, or grant Alter" in service.told[0]
    assert not service.kafka.committed("corp.visits")
    service.kafka.widths[PARKED.format("acme")] = 3
    assert service.split(2) == [None]
    service.finish()
    service.judge()


def test_of_a_tenant_whose_topic_takes_all_no_partition_is_asked_for(service):
    """Once something of it was parked, and brought; what is new finds nobody to wait for."""
    _parked_then_taken(service)
    service.bring("acme", 0)
    service.kafka.unmakable = True
    service.widen(3)
    service.send(2, "acme", b"x")
    assert service.split(2) == [None]
    assert [len(log) for log in service.kafka.committed("acme.visits").values()] == [3]


def test_the_judge_finds_a_record_that_passes_by_what_is_parked(service, monkeypatch):
    monkeypatch.setattr(ParkedTopics, "waiting", lambda *_: {})
    _parked_then_taken(service)
    service.finish()
    with pytest.raises(AssertionError):
        service.judge()


def test_a_mark_tells_of_whom_something_is_parked():
    for parked in ((), ("acme",), ("acme", "b-2")):
        for reached, offset in ((7, 7), (WIDE, 0)):
            for epoch in (None, 3) if offset == 0 else (None,):
                mark = Mark(reached, "run-1-0.2", parked, epoch)
                assert mark.offset == offset
                assert Mark.read(offset, mark.text) == mark


def test_a_mark_of_very_many_tenants_fits_and_says_that_there_are_more():
    names = tuple(f"tenant-{number}" for number in range(1_000))
    mark = Mark(7, "run-1-0", names)
    assert len(mark.text) < 2_100
    told = Mark.read(7, mark.text).parked
    assert told[-1] == MORE
    assert told[:-1] == names[: len(told) - 1]


def test_where_a_mark_does_not_name_all_each_topic_of_parked_records_is_asked_about(service):
    service.kafka.refusing["bolt.visits"] = KafkaError.MSG_SIZE_TOO_LARGE
    service.send(0, "bolt", b"x")
    service.split(0)
    service.kafka.refusing.clear()
    marks = service.kafka.marks["headrace.tx.split"]
    marks[SOURCE, 0] = Mark(1, "run-9", ("acme", MORE))
    service.send(0, "bolt", b"x")
    service.split(0)
    assert not service.kafka.committed("bolt.visits")
    service.finish()
    service.judge()


def test_a_topic_of_parked_records_that_a_broker_does_not_tell_of_yet_is_waited_for(service):
    service.kafka.marks["headrace.tx.split"][SOURCE, 0] = Mark(1, "run-9", ("acme",))
    service.send(0, "acme", b"x")
    service.split(0)
    assert not service.kafka.committed("acme.visits")
    assert service.kafka.committed("acme.visits.split.parked")


def test_nothing_is_parked_by_a_guess_of_how_wide_its_topic_is(service, monkeypatch):
    """One broker told of the topic, and the next one that is asked has not heard of it."""
    parked, widths = "acme.visits.split.parked", Line.widths
    unheard = {parked}
    monkeypatch.setattr(
        Line,
        "widths",
        lambda line: {name: width for name, width in widths(line).items() if name not in unheard},
    )
    service.kafka.refusing["acme.visits"] = KafkaError.MSG_SIZE_TOO_LARGE
    service.send(1, "acme", b"x")
    assert service.split(1) == ["SinkUnavailable"]
    assert not service.kafka.committed(parked)
    unheard.clear()
    assert service.split(1) == [None]
    service.kafka.refusing.clear()
    service.send(1, "acme", b"x")
    service.split(1)
    service.finish()
    service.judge()


def test_a_topic_of_parked_records_that_somebody_deleted_is_made_again(service):
    """A worker goes on with the producer that knew it."""
    parked = "acme.visits.split.parked"
    service.kafka.refusing["acme.visits"] = KafkaError.MSG_SIZE_TOO_LARGE
    service.send(1, "acme", b"x")
    assert service.split(1) == [None]
    del service.kafka.widths[parked], service.kafka.logs[parked, 1]
    service.send(1, "acme", b"x")
    assert service.split(1) == ["SinkUnavailable"]
    assert service.split(1) == [None]
    assert service.kafka.widths[parked] == PARTITIONS


def test_where_nothing_can_be_parked_the_lane_waits_and_says_why(service):
    service.kafka.unmakable = True
    service.kafka.refusing["acme.visits"] = KafkaError.TOPIC_AUTHORIZATION_FAILED
    service.send(0, "acme", b"x")
    service.send(0, "bolt", b"x")
    assert service.split(0) == ["TargetMissing"]
    assert not service.kafka.committed("bolt.visits")
    service.kafka.unmakable = False
    service.finish()
    service.judge()


def test_a_topic_of_strangers_that_refuses_parks_nobody(service):
    service.kafka.refusing["strangers"] = KafkaError.TOPIC_AUTHORIZATION_FAILED
    service.send(0, None, b"x")
    assert service.split(0) == ["TargetMissing"]
    service.kafka.refusing.clear()
    assert service.split(0) == [None]
    (log,) = service.kafka.committed("strangers").values()
    assert [message.value for _, message in log] == [b"0:0"]


def test_without_a_wave_that_was_written_down_nothing_is_divided():
    with pytest.raises(ConfigError, match="exactly once, or not"):
        SINK.open(Site(Connections({}, ""), Positions()))


def test_it_says_what_stands_there_of_a_wave_before_anything_is_divided_again(service):
    """Its worker died behind the commit; whoever is a tenant today, nothing is sent again."""
    service.send(0, "acme", b"k")
    service.send(1, "bolt", b"k")
    assert service.split(0, most=1) == [None]
    lanes = [LaneId("split", "shared", named(SOURCE, partition)) for partition in (0, 1)]
    effects = [Effect((Slice(lane, SOURCE, 0, 1, epoch=1),), (1,), pa.table({})) for lane in lanes]

    def already(wave):
        return SINK.open(Site(Connections({}, ""), service.positions, wave, "a-0")).already(effects)

    assert already(f"run-{service.waves}") == [(1,), None]
    assert already(f"run-{service.waves}.part") == [(1,), None]
    assert already("run-9") == [None, None]


def test_it_asks_anew_where_its_producer_was_shut_out(service, monkeypatch):
    lane = LaneId("split", "shared", named(SOURCE, 0))
    effect = Effect((Slice(lane, SOURCE, 0, 1, epoch=1),), (1,), pa.table({}))
    writer = SINK.open(Site(Connections({}, ""), service.positions, "run-1", "a-0"))
    lost, marks = [OutcomeLost("shut out")], Line.marks

    def once_lost(line, group, lanes):
        if lost:
            raise lost.pop()
        return marks(line, group, lanes)

    monkeypatch.setattr(Line, "marks", once_lost)
    assert writer.already([effect]) == [None]
    lost += [OutcomeLost("again")] * 3
    with pytest.raises(SinkUnavailable, match="what stands there"):
        writer.already([effect])
