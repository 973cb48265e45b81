"""Records that a real Kafka lost under a driver that runs: told exactly, nobody else's matter."""

import pytest
from two_tenants import ACME, Service

from headrace.model.streams import DataLossPolicy
from headrace.testing.kafka_topics import KafkaTopics

pytestmark = [pytest.mark.kafka, pytest.mark.usefixtures("soon")]
FAIL, SKIP = DataLossPolicy.FAIL, DataLossPolicy.SKIP


@pytest.fixture
def service(tmp_path, kafka):
    made = []

    def make(policy):
        service = Service(tmp_path, KafkaTopics(kafka.bootstrap_servers), data_loss=policy)
        made.append(service)
        service.begin()
        return service

    yield make
    for driver in made:
        driver.close()


def expired(service):
    """Three records of acme that retention takes between plan and read, and two that stay."""

    def expire():
        service.topics.expire(service.topic("acme"), 0, 8)

    service.send("acme", 5)
    service.planned_and_then(expire)


def made_again(service, partitions=1):
    service.topics.delete(service.topic("acme"))
    service.topics = KafkaTopics(service.topics.config["bootstrap.servers"])
    service.topics.make_named(service.topic("acme"), partitions)
    service.send("acme", 3)


def test_what_retention_took_under_a_running_driver_is_skipped_by_exact_offsets(service):
    running = service(SKIP)
    expired(running)
    running.until(lambda: len(running.seen["acme"]) == 7)
    assert running.seen["acme"][5:] == [(0, 8), (0, 9)]
    assert running.notes() == [(0, 5, 8)]
    running.bolt_is_undisturbed()


def test_what_retention_took_under_a_running_driver_suspends_its_stream_with_the_offsets(service):
    running = service(FAIL)
    expired(running)
    running.until(lambda: running.stream().reason is not None)
    assert f"{running.topic('acme')}[0] lost offsets 5..8 to retention" in running.stream().reason
    assert len(running.seen["acme"]) == 5
    running.bolt_is_undisturbed()


def test_a_topic_made_again_under_a_running_driver_is_read_from_its_beginning(service):
    running = service(SKIP)
    made_again(running, partitions=2)
    running.send("acme", 2, partition=1)
    running.until(lambda: len(running.seen["acme"]) == 10)
    assert sorted(running.seen["acme"][5:]) == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1)]
    assert running.notes() == [(0, 5, 5)]
    running.bolt_is_undisturbed()


def test_a_topic_made_again_under_a_running_driver_suspends_its_stream(service):
    running = service(FAIL)
    made_again(running)
    running.until(lambda: running.stream().reason is not None)
    assert "TopicRecreated" in running.stream().reason
    assert len(running.seen["acme"]) == 5
    running.bolt_is_undisturbed()


@pytest.mark.parametrize("policy", [FAIL, SKIP])
def test_a_topic_deleted_under_a_task_is_waited_for_alone(service, policy):
    running = service(policy)
    running.send("acme", 1)
    running.planned_and_then(lambda: running.topics.delete(running.topic("acme")))
    running.until(
        lambda: any(row.stream == ACME and row.state == "waiting" for row in running.driver.rows())
    )
    assert running.store.failures.every(only_open=True) == []
    running.bolt_is_undisturbed()


def test_partitions_added_while_it_runs_are_read_from_their_beginning(service):
    running = service(FAIL)
    running.topics.add_partitions(running.topic("acme"), 3)
    running.send("acme", 4, partition=2)
    running.until(lambda: len(running.seen["acme"]) == 9)
    assert running.seen["acme"][5:] == [(2, offset) for offset in range(4)]
    running.bolt_is_undisturbed()
