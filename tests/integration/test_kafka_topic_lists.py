"""Streams of several topics on a real Kafka: one that comes late, goes, and is made again."""

import json
import re

import pytest
from two_tenants import ACME, Service

from headrace.model.places import number_at
from headrace.model.streams import DataLossPolicy
from headrace.testing.kafka_topics import KafkaTopics
from headrace.testing.log_contract.rows import numbered

pytestmark = [pytest.mark.kafka, pytest.mark.usefixtures("soon")]


class OfTwo(Service):
    """It reads two topics of each tenant, and one partition of a third."""

    def reads(self):
        of = super().reads()
        return [of, f"{of}-clicks", f"{of}-wide[2]"]

    def clicks(self):
        return f"{self.topic('acme')}-clicks"

    def wide(self):
        return f"{self.topic('acme')}-wide"

    def sent(self, topic, records, partition=0):
        self.topics.write(topic, partition, numbered(records, first=1))

    def at(self):
        positions = self.store.progress.load_positions([ACME])
        return {one.lane.name: number_at(one.next_offset) for one in positions}

    def comes_to(self, lane, place):
        self.until(lambda: self.at().get(lane) == place)

    def note(self, table, context):
        if context.tenant == "acme":
            self.told += table["topic"].to_pylist()
        return super().note(table, context)

    def row(self):
        return next(row for row in self.driver.rows() if row.stream == ACME)

    def ids(self):
        return json.loads(self.stream().topic_id)


class ByPattern(OfTwo):
    """It reads all that a tenant has, and makes tenants of those who have something."""

    def reads(self):
        return re.compile(rf"(?P<tenant>[a-z]+)\.{self.name}(-[a-z]+)?")


@pytest.fixture
def serve(tmp_path, kafka):
    made = []

    def begin(kind, **deployed):
        made.append(kind(tmp_path, KafkaTopics(kafka.bootstrap_servers), **deployed))
        return made[0]

    yield begin
    for service in made:
        service.close()


def test_a_topic_of_a_list_comes_goes_and_comes_again_and_the_others_are_read(serve):
    service = serve(OfTwo, data_loss=DataLossPolicy.SKIP)
    visits, clicks, wide = service.topic("acme"), service.clicks(), service.wide()
    service.begin()
    assert service.row().state == "waiting"
    assert f"topic {clicks} is not there yet" in service.row().note
    assert f"partition 2 of {wide} is not there yet" in service.row().note

    service.topics.make_named(clicks, 2)
    service.topics.make_named(wide, 3)
    for partition in range(3):
        service.sent(wide, 1 + partition, partition)
    service.sent(clicks, 4, partition=1)
    service.comes_to(f"{clicks}[1]", 4)
    service.comes_to(f"{wide}[2]", 3)
    service.until(lambda: service.row().state == "active")
    whole = {f"{visits}[0]": 5, f"{clicks}[0]": 0, f"{clicks}[1]": 4, f"{wide}[2]": 3}
    assert service.at() == whole
    before = service.ids()

    service.topics.delete(clicks)
    service.driver.observer.doubt(
        service.driver.board.streams[ACME],
        service.driver.board.streams[ACME].lanes[f"{clicks}[1]"],
        "a look now, and not in half a minute",
    )
    service.until(lambda: f"topic {clicks} is not there yet" in service.row().note)
    service.send("acme", 2)
    service.comes_to(f"{visits}[0]", 7)
    assert service.store.failures.every(ACME) == []

    service.topics.make_named(clicks, 1)
    service.sent(clicks, 3)
    service.comes_to(f"{clicks}[0]", 3)
    assert service.at() == {f"{visits}[0]": 7, f"{clicks}[0]": 3, f"{wide}[2]": 3}
    now = service.ids()
    assert {topic for topic in now if now[topic] != before[topic]} == {clicks}
    assert {failure.slice.lane_topic for failure in service.store.failures.every(ACME)} == {clicks}
    assert sorted(service.told) == sorted(7 * [visits] + 7 * [clicks] + 3 * [wide])
    service.bolt_is_undisturbed()


def test_topics_that_a_pattern_matches_are_found_while_it_runs_and_their_tenants(serve):
    service = serve(ByPattern, creates_tenants=True)
    service.begin()
    assert service.at() == {f"{service.topic('acme')}[0]": 5}
    for name in (service.clicks(), f"{service.clicks()}.dlq", f"corp.{service.name}-wide"):
        service.topics.make_named(name, 2)
        service.sent(name, 2, partition=1)
    service.seen["corp"] = []
    service.comes_to(f"{service.clicks()}[1]", 2)
    service.until(lambda: service.seen["corp"] == [(1, 0), (1, 1)])
    assert set(service.ids()) == {service.topic("acme"), service.clicks()}
    found = {tenant.name for tenant in service.store.registry.tenants()}
    assert found == {"acme", "bolt", "corp"}
    service.bolt_is_undisturbed()
