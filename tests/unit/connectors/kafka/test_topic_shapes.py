"""A sink makes the topics it says how to make, and tells what else to do where brokers refuse."""

from types import SimpleNamespace

import pyarrow as pa
import pytest

from headrace.connectors.kafka import sink, sink_line, topic_shapes
from headrace.connectors.kafka.config import sink_config
from headrace.connectors.kafka.sink_line import TopicProducer
from headrace.connectors.kafka.topic_shapes import TopicShape
from headrace.errors import BrokerUnavailable, ConfigError, SinkUnavailable, TargetMissing
from headrace.model.streams import LaneId, Slice
from headrace.ports import Connections, Effect, Site
from headrace.sinks import KafkaTopic

CONFIG = {"bootstrap.servers": "127.0.0.1:1"}
DENIED = ConfigError("topic acme.scores cannot be made: Topic authorization failed")


class Brokers:
    """What topics there are, and what is said to whoever makes one."""

    def __init__(self, refused=None, shown_after=0):
        self.refused, self.shown_after = refused or {}, shown_after
        self.there, self.asked, self.looks = set(), [], 0

    def make(self, config, partitions, timeout_s, *, replicas, topic_config):
        self.asked.append((partitions, replicas, topic_config))
        self.there |= partitions.keys() - self.refused.keys()
        return {name: error for name, error in self.refused.items() if name in partitions}

    def list_topics(self, timeout):
        self.looks += 1
        shown = self.there if self.looks > self.shown_after else ()
        return SimpleNamespace(topics=dict.fromkeys(shown))

    def poll(self, timeout):
        pass


@pytest.fixture
def brokers(monkeypatch):
    def stand(**given):
        made = Brokers(**given)
        monkeypatch.setattr(topic_shapes, "unmakable_topics", made.make)
        return made

    monkeypatch.setattr(sink_line, "_NEW_TOPIC_WAIT_S", 0.0)
    return stand


def effect(tenant="acme", **columns):
    table = pa.table({"value": ["a"], **columns})
    return Effect((Slice(LaneId("score", tenant, "t[0]"), "t", 0, 9, epoch=1),), (9,), table)


def learned(brokers, *effects, **shape):
    line = TopicProducer(sink_config(CONFIG))
    line.producer = brokers
    made = KafkaTopic("{tenant}.scores", **shape)
    line.learn(effects, made.topic, made._maker(Site(Connections(CONFIG, ""), None)))
    return line


def demanded(line, asked):
    try:
        line.demand(asked, "{tenant}.scores")
    except (TargetMissing, SinkUnavailable) as error:
        return error
    return None


def test_missing_topics_of_tenants_are_made_in_one_request_and_waited_for(brokers):
    there = brokers(shown_after=3)
    line = learned(there, effect(), effect("bolt"), partitions=3, replication=2, retention="7d")
    (asked,) = there.asked
    assert asked == ({"acme.scores": 3, "bolt.scores": 3}, 2, {"retention.ms": "604800000"})
    assert demanded(line, effect()) is None


def test_a_topic_that_a_row_names_is_never_made(brokers):
    there = brokers()
    learned(there, effect(topic=["of-the-sender"]), partitions=1)
    assert there.asked == []


def test_without_partitions_none_is_made(brokers):
    there = brokers()
    line = learned(there, effect())
    assert there.asked == []
    assert isinstance(demanded(line, effect()), TargetMissing)


def test_what_brokers_refuse_hurts_its_tenant_alone_and_names_the_commands(brokers):
    line = learned(brokers(refused={"acme.scores": DENIED}), effect(), effect("bolt"), partitions=1)
    assert demanded(line, effect("bolt")) is None
    error = demanded(line, effect())
    assert isinstance(error, TargetMissing)
    assert "Topic authorization failed" in str(error)
    assert "'headrace topics create score --tenant acme'" in str(error)
    assert "'headrace streams resume acme/score'" in str(error)


def test_a_broker_that_is_away_when_a_topic_is_made_is_waited_for(brokers):
    away = brokers(refused={"acme.scores": BrokerUnavailable("none answers")})
    assert isinstance(demanded(learned(away, effect(), partitions=1), effect()), SinkUnavailable)


def test_one_topic_for_all_tenants_is_made_at_a_deploy(brokers):
    there = brokers()
    site = Site(Connections(CONFIG, ""), None)
    KafkaTopic("all", partitions=4).prepare(site)
    KafkaTopic("{tenant}.scores", partitions=4).prepare(site)
    KafkaTopic("other").prepare(site)
    assert [partitions for partitions, *_ in there.asked] == [{"all": 4}]


def test_a_deploy_says_why_it_cannot_be_made(brokers):
    brokers(refused={"all": DENIED})
    with pytest.raises(ConfigError, match="authorization failed"):
        KafkaTopic("all", partitions=4).prepare(Site(Connections(CONFIG, ""), None))


def test_a_writer_makes_what_it_writes_to(brokers, monkeypatch):
    there = brokers(refused={"acme.scores": DENIED})
    monkeypatch.setattr(sink, "_lines", {})
    monkeypatch.setattr(TopicProducer, "_look", lambda self: None)
    writer = KafkaTopic("{tenant}.scores", partitions=2).open(Site(Connections(CONFIG, ""), None))
    (written,) = writer.write([effect()])
    assert written.error.code == "TargetMissing"
    assert there.asked[0][0] == {"acme.scores": 2}


@pytest.mark.parametrize(
    ("retention", "milliseconds"), [("30m", 1_800_000), ("12h", 43_200_000), ("forever", -1)]
)
def test_retention_is_said_in_words(retention, milliseconds):
    assert TopicShape(1, retention=retention).properties == {"retention.ms": str(milliseconds)}
