"""Records into a stream: in which requests they go, and what becomes of those not taken."""

from collections import defaultdict
from dataclasses import replace
from types import SimpleNamespace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace import use_case
from headrace.connectors.amazon_clients import AmazonService
from headrace.connectors.kinesis import put
from headrace.connectors.kinesis import sink as sinks
from headrace.connectors.kinesis.put import MOST_BYTES, MOST_RECORDS
from headrace.errors import ConfigError, SinkUnavailable
from headrace.model.lane_names import named
from headrace.model.places import place_at
from headrace.model.streams import LaneId, Slice
from headrace.operating.repeats import repeated
from headrace.ports import Connections, Effect, Server, Site
from headrace.sinks import KinesisStream
from headrace.testing.clock import FakeClock
from headrace.testing.kinesis.service import FakeKinesis
from headrace.testing.kinesis.state import ServiceError

SLOW, BROKEN = "ProvisionedThroughputExceededException", "InternalFailure"


class Service(AmazonService):
    """The fake, which notes what it is asked."""

    def __init__(self, kinesis):
        super().__init__("connection there", lambda: kinesis)
        self.requests = []
        #: raised by the next requests, after they were done where ``is_done`` says so
        self.errors, self.is_done = [], False

    def _client(self):
        return self._new()

    def asked(self, operation, request, until_s=float("inf")):
        if operation == "put_records":
            self.requests.append(request["Records"])
        error = self.errors.pop(0) if self.errors else None
        if error is not None and not self.is_done:
            raise error
        told = super().asked(operation, request, until_s)
        if error is not None:
            raise error
        return told


class World:
    """A stream, or one of each tenant, and what is written there."""

    def __init__(self, patch, shards=1):
        self.clock = FakeClock()
        self.kinesis = FakeKinesis(self.clock, throttles=False)
        for name in ("visits", "acme.visits", "bolt.visits"):
            self.kinesis.create_stream(StreamName=name, ShardCount=shards)
        self.service = Service(self.kinesis)
        self.slept = []
        patch.setattr(sinks, "service_of", lambda *_, **__: self.service)
        patch.setattr(put, "time", SimpleNamespace(sleep=self.slept.append))

    def write(self, *effects, sink=None, in_company=False):
        site = Site(Connections({}, "", servers={"there": Server("")}), None, in_company=in_company)
        writer = (sink or KinesisStream("visits", at="there")).open(site)
        return writer.write(effects)

    def there(self, stream="visits"):
        """Data of each key, in the order of its shard."""
        found = defaultdict(list)
        for shard in self.kinesis.streams[stream].shards.values():
            for kept in shard.records:
                found[kept.key].append(kept.data)
        return dict(found)


@pytest.fixture
def world(monkeypatch):
    return World(monkeypatch)


def effect(*rows, tenant="acme", lane=0, **more):
    """Of rows such as ``"a1"``, whose key is their first character."""
    piece = Slice(
        LaneId("keep", tenant, named("visits", lane)), "visits", place_at(0), place_at(1), 1
    )
    table = pa.table({"key": [row[0] for row in rows], "value": list(rows)})
    return Effect((piece,), (place_at(1),), table, **more)


def codes(written):
    return [(one.row, one.error and one.error.code) for one in written.refused]


# --- requests


def test_no_request_has_two_records_of_a_key(world):
    assert world.write(effect("a1", "b1", "a2", "c1", "a3", "b2"))[0].error is None
    for request in world.service.requests:
        keys = [one["PartitionKey"] for one in request]
        assert len(keys) == len(set(keys))
    assert world.there() == {"a": [b"a1", b"a2", b"a3"], "b": [b"b1", b"b2"], "c": [b"c1"]}
    assert len(world.service.requests) == 3  # one goes alone, to know whether anybody is there


def test_requests_have_no_more_records_and_bytes_than_the_service_takes(world):
    many = effect("a")
    many = replace(
        many,
        output=pa.table(
            {"key": [f"{number}" for number in range(1200)], "value": ["v" * 12_000] * 1200}
        ),
    )
    assert world.write(many)[0].error is None
    sizes = [
        sum(len(one["Data"]) + len(one["PartitionKey"]) for one in request)
        for request in world.service.requests
    ]
    assert max(map(len, world.service.requests)) <= MOST_RECORDS
    assert max(sizes) <= MOST_BYTES
    assert sum(map(len, world.service.requests)) == 1200


def test_a_record_that_is_larger_than_others_may_be_together_goes_alone(world):
    large = pa.table({"key": ["a", "b", "c"], "value": ["a", "x" * (MOST_BYTES + 1), "c"]})
    sink = KinesisStream("visits", at="there", most_bytes=10 * 2**20)
    world.kinesis.put_records = lambda *, StreamName, Records: {  # noqa: N803
        "Records": [{"SequenceNumber": "1"} for _ in Records]
    }
    assert world.write(replace(effect("a"), output=large), sink=sink)[0].error is None
    keys = [[one["PartitionKey"] for one in request] for request in world.service.requests]
    assert keys == [["a"], ["b"], ["c"]]


# --- what is not taken


@given(st.randoms(use_true_random=False), st.lists(st.sampled_from("abcd"), max_size=60))
def test_whatever_is_refused_and_when_no_key_is_out_of_order_and_the_rest_comes_again(chance, keys):
    rows = [f"{key}{number:03}" for number, key in enumerate(keys)]
    with pytest.MonkeyPatch.context() as patch:
        world = World(patch, shards=2)
        world.kinesis.fate_of = lambda *_: chance.choice([None, None, SLOW, BROKEN])
        for _ in range(200):
            if not rows:
                break
            (written,) = world.write(effect(*rows))
            left = {one.row for one in written.refused}
            if written.error is not None:
                assert written.error.temporary
                left = set(range(len(rows)))
            rows = [row for number, row in enumerate(rows) if number in left]
        else:
            raise AssertionError("it never ends")
        for found in world.there().values():
            assert found == sorted(set(found))
        assert sum(map(len, world.there().values())) == len(keys)


def test_what_is_behind_a_record_that_was_not_taken_waits_and_other_keys_go_on(world):
    world.kinesis.fate_of = lambda _, data: BROKEN if data == b"a2" else None
    (written,) = world.write(effect("b1", "a1", "a2", "b2", "a3", "b3", "a4"))
    assert codes(written) == [(2, "SinkUnavailable"), (4, None), (6, None)]
    assert world.there() == {"a": [b"a1"], "b": [b"b1", b"b2", b"b3"]}
    assert world.slept == []


def test_what_comes_too_soon_is_sent_again_while_others_go_on(world):
    fates = iter([SLOW, SLOW])
    world.kinesis.fate_of = lambda key, _: next(fates, None) if key == "a" else None
    assert world.write(effect("b1", "a1", "b2", "a2", "b3"))[0].error is None
    assert world.there() == {"a": [b"a1", b"a2"], "b": [b"b1", b"b2", b"b3"]}
    order = [one["Data"] for request in world.service.requests for one in request]
    assert order.index(b"b3") < len(order) - order[::-1].index(b"a1") - 1
    assert len(world.slept) == 2


@pytest.mark.parametrize(("in_company", "patience_s"), [(False, 5.0), (True, 0.5)])
def test_what_is_too_much_for_long_is_named_when_the_patience_is_over(
    world, in_company, patience_s
):
    world.kinesis.fate_of = lambda key, _: SLOW if key == "a" else None
    (written,) = world.write(effect("b1", "a1", "a2", "b2"), in_company=in_company)
    assert codes(written) == [(1, "SinkUnavailable"), (2, None)]
    assert world.there() == {"b": [b"b1", b"b2"]}
    assert 0 < sum(world.slept) <= patience_s


def test_a_request_that_is_too_much_as_a_whole_is_sent_again(world):
    world.service.errors = [None, ServiceError(SLOW, "slowly")]
    assert world.write(effect("a1", "b1", "c1"))[0].error is None
    assert world.there() == {"a": [b"a1"], "b": [b"b1"], "c": [b"c1"]}


def test_a_record_of_another_lane_that_was_refused_holds_back_its_key_for_now(world):
    world.kinesis.fate_of = lambda _, data: BROKEN if data == b"a1" else None
    one, other = world.write(effect("b1", "a1"), effect("a2", "b2", lane=1))
    assert codes(one) == [(1, "SinkUnavailable")]
    assert codes(other) == [(0, "SinkUnavailable")]
    assert world.there() == {"b": [b"b1", b"b2"]}


def test_where_nobody_answers_nothing_more_is_sent(world):
    world.service.errors = [None, ConnectionError("away")]
    (written,) = world.write(effect("a1", "b1", "a2", "b2"))
    assert codes(written) == [(row, "SinkUnavailable") for row in (1, 2, 3)]
    assert len(world.service.requests) == 2


def test_what_came_too_soon_is_not_waited_for_where_nobody_answers(world):
    world.kinesis.fate_of = lambda key, _: SLOW if key == "a" else None
    world.service.errors = [None, None, ConnectionError("away")]
    (written,) = world.write(effect("c1", "a1", "b1", "b2"))
    assert codes(written) == [(1, "SinkUnavailable"), (3, "SinkUnavailable")]
    assert "no answer" in written.refused[0].error.message
    assert world.slept == []


def test_at_most_once_sends_nothing_again_that_may_be_there(world):
    world.service.errors, world.service.is_done = [None, TimeoutError("late")], True
    (written,) = world.write(effect("a1", "a2", "a3", may_repeat=False))
    assert written.error.temporary
    assert written.refused == ()
    assert world.there() == {"a": [b"a1", b"a2"]}


def test_one_that_the_service_refuses_for_good_is_found_and_the_others_are_there(world):
    put_all = world.kinesis.put_records

    def refuses(*, StreamName, Records):  # noqa: N803
        if any(one["Data"] == b"c1" for one in Records):
            raise ServiceError("InvalidArgumentException", "a record is larger than may be")
        return put_all(StreamName=StreamName, Records=Records)

    world.kinesis.put_records = refuses
    (written,) = world.write(effect("a1", "b1", "c1", "d1", "c2"))
    assert codes(written) == [(2, "SinkRefused"), (4, None)]
    assert world.there() == {"a": [b"a1"], "b": [b"b1"], "d": [b"d1"]}


@pytest.mark.parametrize(
    ("code", "said", "as_what"),
    [
        ("ResourceNotFoundException", "no stream", "TargetMissing"),
        ("AccessDeniedException", "not authorized", "TargetMissing"),
        ("KMSDisabledException", "the key is off", "TargetMissing"),
        ("UnrecognizedClientException", "who", "TargetMissing"),
        ("InvalidSignatureException", "does not match", "TargetMissing"),
        ("InvalidSignatureException", "Signature expired: 2026 is x", "SinkUnavailable"),
        ("ExpiredTokenException", "old", "SinkUnavailable"),
        ("InternalFailure", "oh", "SinkUnavailable"),
        ("ValidationException", "no", "SinkRefused"),
    ],
)
def test_what_the_service_says_stops_waits_or_refuses(world, code, said, as_what):
    world.service.errors = [ServiceError(code, said)]
    (written,) = world.write(effect("a1"))
    assert written.error.code == as_what
    assert "2026 is x" not in written.error.message
    assert world.there() == {}


@pytest.mark.parametrize("answer", [{}, {"Records": []}, {"Records": [{}]}, None, "<html>"])
def test_an_answer_that_is_none_counts_for_nothing(world, answer):
    world.kinesis.put_records = lambda **_: answer
    assert world.write(effect("a1"))[0].error.code == "SinkUnavailable"


# --- tenants


def test_a_stream_that_is_gone_stops_its_tenant_alone(world):
    world.kinesis.delete_stream(StreamName="bolt.visits")
    sink = KinesisStream("{tenant}.visits", at="there")
    acme, bolt = world.write(effect("a1"), effect("a1", tenant="bolt"), sink=sink)
    assert acme.error is None
    assert bolt.error.code == "TargetMissing"
    assert "no such stream" in bolt.error.message
    assert world.there("acme.visits") == {"a": [b"a1"]}


def test_a_service_of_each_tenant_that_is_away_or_not_said_is_its_tenants_alone():
    there = Server("kinesis://eu-central-1?endpoint=http://127.0.0.1:1", "AKIAOURS", "a secret")
    site = Site(Connections({}, "", servers={"k-acme": there}), None, in_company=True)
    sink = KinesisStream("visits", at="k-{tenant}")
    sink.prepare(site)
    writer = sink.open(site)
    acme, bolt = writer.write([effect("a1"), effect("a1", tenant="bolt")])
    assert (acme.error.code, bolt.error.code) == ("SinkUnavailable", "TargetMissing")
    assert "no answer" in acme.error.message
    assert "'k-bolt'" in bolt.error.message
    shown = f"{acme} {writer!r} {sinks.service_of(site.connections, 'k-acme')!r}"
    assert "a secret" not in shown
    assert "AKIAOURS" not in shown


def test_a_connection_that_is_no_kinesis_is_refused_at_the_deploy():
    site = Site(Connections({}, "", servers={"there": Server("dynamodb://eu-central-1")}), None)
    with pytest.raises(ConfigError, match="connection there is no Kinesis"):
        KinesisStream("visits", at="there").prepare(site)
    with pytest.raises(ConfigError, match="nowhere"):
        KinesisStream("visits", at="nowhere").prepare(site)


# --- what is declared


def declared(read, sink, **more):
    def copied(table, context):
        return table

    return use_case(topic=read, sink=sink, **more)(copied)


def test_exactly_once_is_refused_with_words():
    with pytest.raises(ConfigError, match="KinesisStream cannot do exactly-once"):
        declared("{tenant}.visits", KinesisStream("a", at="there"), guarantee="exactly-once")


@pytest.mark.parametrize(
    ("read", "written"),
    [
        ("there:{tenant}.visits", "{tenant}.visits"),
        ("there:{tenant}.visits", "acme.visits"),
        ("there:acme.visits", "{tenant}.visits"),
        ("there:all", "all"),
    ],
)
def test_a_use_case_does_not_write_to_the_stream_that_it_reads(read, written):
    with pytest.raises(ConfigError, match="would come back without end"):
        declared(read, KinesisStream(written, at="there"))


@pytest.mark.parametrize(
    ("read", "written"),
    [
        ("{tenant}.visits", "{tenant}.visits"),
        ("here:{tenant}.visits", "{tenant}.visits"),
        ("there:{tenant}.visits", "{tenant}.seen"),
        ("there:all", "all-of-it"),
    ],
)
def test_it_may_write_to_any_other(read, written):
    assert declared(read, KinesisStream(written, at="there")).topic == read


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": ""},
        {"name": "a b"},
        {"name": "{other}"},
        {"name": "a" * 129},
        {"at": ""},
        {"at": "{tenant}"},
        {"most_bytes": 1000},
        {"most_bytes": 11 * 2**20},
    ],
)
def test_what_no_stream_can_be_is_refused(wrong):
    with pytest.raises(ConfigError):
        KinesisStream(**{"name": "visits", "at": "there", **wrong})


def test_a_stream_that_is_not_there_is_told_at_the_deploy_and_one_that_is_away_waits(world):
    site = Site(Connections({}, "", servers={"there": Server("")}), None)
    KinesisStream("visits", at="there").prepare(site)
    with pytest.raises(ConfigError, match="no such stream"):
        KinesisStream("nobodys", at="there").prepare(site)
    world.service.errors = [ConnectionError("away")]
    with pytest.raises(SinkUnavailable, match="away"):
        KinesisStream("visits", at="there").prepare(site)


def test_what_is_done_again_is_told():
    assert repeated(KinesisStream("a", at="there")) == "records: they are sent a second time"


def test_a_row_that_can_be_no_record_is_named_where_handlers_are_tried():
    sink = KinesisStream("a", at="there")
    for key, value in ((None, "v"), ("", "v"), ("k", None), ("k" * 257, "v"), ("k", "v" * 2**20)):
        table = pa.table({"key": ["k", key], "value": ["v", value]})
        with pytest.raises(Exception, match="row 1"):
            sink.check(table)
    sink.check(pa.table({"key": [b"k"], "value": ["v"]}))
