"""What several tests of Kafka begin with, and an empty database."""

import contextlib
import uuid

import psycopg
import pytest
from sqlalchemy import make_url

from headrace.connectors.kafka import KafkaDeadLetters
from headrace.testing.kafka_topics import KafkaTopics


@pytest.fixture
def topics(kafka):
    return KafkaTopics(kafka.bootstrap_servers)


@pytest.fixture
def letters(topics):
    with contextlib.closing(KafkaDeadLetters(topics.config)) as made:
        yield made


@pytest.fixture
def soon(monkeypatch):
    """Drivers look at topics, and believe what they see, in seconds, and not in half a minute.

    How long that is has tests of its own (tests/unit/cycle), with a clock that is moved.
    """
    for name in ("topics.TOPICS_EVERY_S", "topics.LIST_EVERY_S", "newcomers.LOOK_EVERY_S"):
        monkeypatch.setattr(f"headrace.cycle.{name}", 1.0)
    for room in ("topic_ids", "lineage"):
        monkeypatch.setattr(f"headrace.cycle.{room}.LIST_PATIENCE_S", 2.0)


@pytest.fixture
def empty_postgres(postgres):
    """The URL of a database of one's own on a real server."""
    name = f"empty_{uuid.uuid4().hex}"
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    yield make_url(postgres.url).set(database=name).render_as_string(hide_password=False)
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
