"""Topics that are not there are told of, but not one by one."""

import pytest
from structlog.testing import capture_logs

from headrace.cycle import topics
from headrace.cycle.missing_topics import EVERY_S, without_its_topic, without_topics
from headrace.model.parked import NOTHING_PARKED
from headrace.model.records import Deployment
from headrace.model.statistics import ShownState
from headrace.model.streams import DataLossPolicy, State, Stream, StreamId, Tenant
from headrace.policies.data_loss import CUT_PATIENCE_S
from headrace.testing.log_fake import MemoryLog, Row


@pytest.fixture
def waiting(world):
    """A driver of two use cases; what it warns of from now on."""
    world.use_cases = [world.make(), world.make(name="other")]
    world.deploy()
    world.start()
    world.turns(2)
    with capture_logs() as lines:
        world.lines = lambda: [line for line in lines if line["log_level"] == "warning"]
        yield world


def added(world, numbers):
    for number in numbers:
        world.store.registry.add_tenant(Tenant(f"t{number:03}"))


def passing(world, seconds):
    for _ in range(int(seconds)):
        world.clock.move(1.0)
        world.turns(1)


def test_three_hundred_new_tenants_without_topics_are_one_line(waiting):
    added(waiting, range(300))
    passing(waiting, 3 * EVERY_S)
    (line,) = waiting.lines()
    assert line["streams"] == 600
    assert line["topics"] == "t000.visits, t001.visits, t002.visits and 297 more"
    assert "headrace streams list --state waiting" in line["event"]


def test_a_single_one_is_told_at_once_with_its_names(waiting):
    added(waiting, [7])
    waiting.store.registry.set_stream_state(StreamId("other", "t007"), State.REMOVED)
    passing(waiting, 3)
    (line,) = waiting.lines()
    assert (line["stream"], line["topic"]) == ("t007/keep", "t007.visits")


def test_those_that_are_added_one_by_one_are_a_line_now_and_then(waiting):
    for number in range(60):
        added(waiting, [number])
        passing(waiting, 1)
    passing(waiting, EVERY_S)
    told = [line.get("streams", 1) for line in waiting.lines()]
    assert sum(told) == 120
    assert len(told) <= 60 / EVERY_S + 2


def test_one_that_came_meanwhile_is_not_told_of(waiting):
    added(waiting, [1])
    passing(waiting, 3)
    added(waiting, [2, 3])
    passing(waiting, 3)
    for number in (2, 3):
        waiting.log.create_topic(f"t{number:03}.visits", 1)
    passing(waiting, 2 * EVERY_S)
    assert [line["topics"] for line in waiting.lines()] == ["t001.visits"]


def test_of_parked_records_a_topic_that_is_not_there_is_no_trouble(world):
    parked = "{tenant}.visits.split.parked"
    world.use_cases = [world.make(name="split-parked")]
    world.store.registry.deploy(Deployment("split-parked", "m.py", "0" * 64, parked))
    world.store.registry.add_tenant(Tenant("acme"))
    with capture_logs() as lines:
        world.start()
        passing(world, 2 * EVERY_S)
    assert [line for line in lines if line["log_level"] == "warning"] == []
    (row,) = world.driver.rows()
    assert (row.state, row.note) == (ShownState.ACTIVE, NOTHING_PARKED)
    world.log.create_topic("acme.visits.split.parked", 1)
    world.log.append("acme.visits.split.parked", 0, [Row(b"x")])
    passing(world, 5)
    assert world.seen == [("acme", 0)]
    (row,) = world.driver.rows()
    assert row.note == ""


def test_who_reads_a_stream_is_not_told_to_make_a_topic_of_kafka():
    name = "clicks:acme.visits"
    told = without_its_topic(Stream(StreamId("keep", "acme"), name, State.ACTIVE))
    assert told.startswith(f"topic {name} is not there yet; make the stream")
    both = Stream(StreamId("keep", "acme"), f"clicks:acme.orders,{name}", State.ACTIVE)
    assert "headrace topics create" not in without_topics(both, [name])
    kafka = Stream(StreamId("keep", "acme"), "acme.visits", State.ACTIVE)
    create = "'headrace topics create keep --inputs --tenant acme' makes it"
    assert without_its_topic(kafka) == f"topic acme.visits is not there yet; {create}"


def test_however_many_wait_a_look_asks_for_some_and_all_come_in_turn(world, monkeypatch):
    """Each customer of a splitter has a stream that waits for a topic of parked records."""
    monkeypatch.setattr(topics, "MOST_WAITING", 10)
    world.use_cases = [world.make()]
    world.deploy()
    names = [f"t{number}" for number in range(35)]
    for name in names:
        world.store.registry.add_tenant(Tenant(name))
    world.start()
    world.turns(40)
    asked, known = [], MemoryLog.topics

    def noted(log, wanted):
        asked.append(len(wanted))
        return known(log, wanted)

    monkeypatch.setattr(MemoryLog, "topics", noted)
    came = {names[0], names[-1]}
    for name in came:
        world.log.create_topic(f"{name}.visits")
    world.turns(4, seconds=topics.WAITING_EVERY_S)
    assert {name for name, _ in world.positions()} == came
    assert max(asked) <= 10


def test_what_a_log_lost_is_believed_however_many_wait_for_topics(world, monkeypatch):
    """Looks that are far apart tell nothing of a log that seems to be cut."""
    monkeypatch.setattr(topics, "MOST_WAITING", 1)
    world.use_cases = [world.make()]
    world.deploy(data_loss=DataLossPolicy.SKIP)
    for number in range(30):
        world.store.registry.add_tenant(Tenant(f"t{number}"))
    world.tenant("acme", 5)
    world.start()
    world.turns(40)
    assert world.positions()["acme", 0] == 5
    world.log.truncate("acme.visits", 0, 2)
    world.turns(round(topics.TOPICS_EVERY_S + 2 * CUT_PATIENCE_S), seconds=1.0)
    assert world.positions()["acme", 0] == 2
