"""The demo's visits in streams of Kinesis: what is known of where they are, and what is refused."""

import inspect
import threading
import time
from itertools import pairwise
from types import SimpleNamespace

import pytest
import structlog
from typer.testing import CliRunner

from headrace.cli.app import app
from headrace.connectors.kinesis.shards import ShardOf
from headrace.connectors.kinesis.spots import END, beginning, passed
from headrace.demo import in_delta, in_streams
from headrace.demo.avro_visits import AvroVisits, encoding_of
from headrace.demo.scenario import KINESIS, Journal
from headrace.demo.shards import STREAMS, DemoStreams
from headrace.demo.staying import _visits_coming
from headrace.demo.streams import KinesisVisits
from headrace.demo.tables import Asked
from headrace.demo.visits import read_visits
from headrace.errors import BrokerUnavailable, ConfigError, ServerError
from headrace.model.places import FIRST
from headrace.model.streams import State
from headrace.testing.clock import FakeClock
from headrace.testing.kinesis.service import FakeKinesis
from headrace.testing.schemas_fake import MemorySchemas
from headrace.use_cases import UseCase

VISITS = list(read_visits())[:600]


@pytest.fixture
def kinesis():
    return FakeKinesis(FakeClock(), throttles=False)


@pytest.fixture
def told():
    return []


@pytest.fixture
def streams(kinesis, told):
    made = KinesisVisits(DemoStreams(kinesis), told.append)
    made.streams.make()
    return made


def sent(streams, visits=VISITS):
    """All of them; returns what was acknowledged."""
    problems = []
    for visit in streams.unsent(visits):
        streams.send(visit, b"%d" % visit.line, problems.append)
    streams.flush()
    return problems


def lines_of(kinesis, stream, number):
    """The lines of a shard, in its order."""
    return [int(record.data) for record in kinesis.streams[stream].shards[number].records]


def test_each_visit_is_where_it_is_said_to_be_and_shards_were_split_and_merged(
    streams, kinesis, told
):
    assert sent(streams) == [None] * len(VISITS)
    placed = streams.placed(VISITS)
    assert {visit.line for visit in placed} == {visit.line for visit in VISITS}
    for stream in STREAMS:
        for number in range(5):
            its = [one.line for one in placed if (one.topic, one.partition) == (stream, number)]
            assert its == lines_of(kinesis, stream, number)
            assert streams.counts()[stream.removesuffix(".visits"), number] == len(its)
    assert all("of each stream" in line for line in told)
    assert len(told) == 2
    count = str(len(leads(VISITS)))
    assert streams.told() == [
        ("shards split and merged", "7 and 7", "7 and 7"),
        ("leads in order over splits and merges", count, count),
    ]


def leads(visits):
    return {(visit.tenant, visit.lead) for visit in visits}


def test_a_lead_keeps_its_order_from_a_shard_to_those_that_follow_it(streams):
    sent(streams)
    placed = streams.placed(VISITS)
    moved = 0
    for tenant, lead in leads(VISITS):
        its = [one for one in placed if (one.tenant, one.lead) == (tenant, lead)]
        assert [one.line for one in its] == sorted(one.line for one in its)
        moved += any(one.shard != other.shard for one, other in pairwise(its))
    assert moved > 10


def test_a_lead_whose_order_the_service_did_not_keep_is_told(streams):
    sent(streams)
    longest = max(streams._leads.values(), key=len)
    longest.reverse()
    (_, (_, wanted, found)) = streams.told()
    assert int(found) == int(wanted) - 1


def test_no_request_has_two_visits_of_a_lead(streams, kinesis, monkeypatch):
    requests, put = [], kinesis.put_records

    def counted(**request):
        requests.append([record["PartitionKey"] for record in request["Records"]])
        return put(**request)

    monkeypatch.setattr(kinesis, "put_records", counted)
    monkeypatch.setattr("headrace.demo.streams._EVERY_S", 3_600.0)
    sent(streams)
    assert max(map(len, requests)) > 10
    assert all(len(keys) == len(set(keys)) for keys in requests)


def test_what_is_not_taken_ends_the_demo_and_is_not_acknowledged(streams, kinesis):
    refused = VISITS[0]
    kinesis.fate_of = lambda key, _: "InternalFailure" if key == refused.lead else None
    acknowledged = []
    with pytest.raises(BrokerUnavailable, match="did not take a visit: InternalFailure"):
        streams.send(refused, b"", acknowledged.append)
    assert acknowledged == []


def test_how_many_visits_are_before_a_place(streams, kinesis):
    sent(streams)
    (tenant, number), count = max(streams.counts().items(), key=lambda lane: lane[1])
    records = kinesis.streams[f"{tenant}.visits"].shards[number].records
    lane, third = (tenant, number), records[2].number
    assert streams.reached(lane, FIRST) == 0
    assert streams.reached(lane, beginning(records[0].number - 1)) == 0
    assert streams.reached(lane, passed(third)) == 3
    assert streams.reached(lane, END) == count == len(records)
    assert streams.reached(("nobody", 0), END) == 0


def test_all_is_read_when_each_shard_is_also_one_that_a_stream_has_not_heard_of(streams):
    sent(streams)
    home = {f"kinesis:home.visits[{number}]": END for number in range(5)}

    def is_read(lanes, state=State.ACTIVE):
        held = SimpleNamespace(
            state=state,
            tenant=SimpleNamespace(name="home"),
            lanes={name: SimpleNamespace(position=place) for name, place in lanes.items()},
        )
        return streams.is_read(SimpleNamespace(board=SimpleNamespace(streams={"one": held})))

    assert is_read(home)
    assert not is_read({name: place for name, place in home.items() if "[4]" not in name})
    assert not is_read({**home, "kinesis:home.visits[4]": FIRST})
    assert is_read({}, State.SUSPENDED)


def test_a_stream_that_does_not_settle_is_told(streams, kinesis, monkeypatch):
    monkeypatch.setattr("headrace.demo.shards._SETTLES_WITHIN_S", 0.0)
    summary = {"StreamDescriptionSummary": {"StreamStatus": "UPDATING"}}
    monkeypatch.setattr(kinesis, "describe_stream_summary", lambda **_: summary)
    with pytest.raises(BrokerUnavailable, match="not ready"):
        streams.streams.split()


def test_what_the_service_refuses_is_told_in_our_words(streams):
    with pytest.raises(Exception, match="nobody") as caught:
        streams.streams.held(ShardOf("nobody.visits", 0))
    assert type(caught.value).__module__ == "headrace.errors"


def test_after_the_report_visits_go_on_to_come_in_the_same_streams(streams, monkeypatch):
    monkeypatch.setattr("headrace.demo.staying.RATE_PER_S", 1_000.0)
    sent(streams, VISITS[:10])
    with _visits_coming(streams, AvroVisits(MemorySchemas())):
        until_s = time.monotonic() + 30
        while sum(streams.counts().values()) < 15:
            assert time.monotonic() < until_s
            time.sleep(0.01)


def test_a_tenant_with_a_new_producer_has_the_newest_version_from_the_beginning():
    old = next(visit for visit in VISITS if visit.tenant == "home")
    written = {name: AvroVisits(MemorySchemas(), {name}) for name in ("home", "blog")}
    for made in written.values():
        made.prepare([old])
    versions = {name: encoding_of(version) for name, version in (("home", 2), ("blog", 1))}
    for name, made in written.items():
        made.value(old, threading.Event())
        assert [*made.ids.schemas.values()] == [versions[name].registers.schema]


def test_the_use_cases_are_those_of_kafka_but_for_what_they_read():
    def of(module):
        return dict(inspect.getmembers(module, lambda found: isinstance(found, UseCase)))

    assert of(in_streams).keys() == of(in_delta).keys()
    for name, use_case in of(in_streams).items():
        ours = of(in_delta)[name]
        assert use_case.topic == f"kinesis:{ours.topic}"
        assert (use_case.handler, use_case.sink) == (ours.handler, ours.sink)


def test_what_is_missing_is_said_before_anything_starts(monkeypatch):
    Asked(cassandra=True, replicate=True).check()
    Asked(kinesis=True).check()
    for more in ({"cassandra": True}, {"replicate": True}):
        with pytest.raises(ConfigError, match="leave out --with"):
            Asked(kinesis=True, **more).check()
    monkeypatch.setattr("headrace.embedded.kinesis_program.shutil.which", lambda _: None)
    Asked().check()
    with pytest.raises(ServerError, match="install nodejs 20 or later"):
        Asked(kinesis=True).check()
    monkeypatch.setattr("headrace.demo.tables.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"needs boto3, .*headrace\[demo,delta,kinesis\]"):
        Asked(kinesis=True).check()


def test_the_journal_says_what_visits_go_through_and_an_old_one_went_through_kafka(tmp_path):
    path = tmp_path / "journal.json"
    Journal(path, [], log=KINESIS).write()
    assert Journal.read(path).log == KINESIS
    path.write_text('{"done": ["late"], "verified": false}')
    assert Journal.read(path).log == "Kafka"


def test_what_a_kill_would_lose_is_not_killed():
    try:
        done = CliRunner().invoke(app, ["demo", "--log", "kinesis", "--chaos"])
    finally:
        structlog.reset_defaults()  # a command sends logs to the standard error that it was given
    assert done.exit_code != 0
    assert "a kill would lose them" in " ".join(done.stderr.split())
