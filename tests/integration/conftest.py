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
def empty_postgres(postgres):
    """The URL of a database of one's own on a real server."""
    name = f"empty_{uuid.uuid4().hex}"
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    yield make_url(postgres.url).set(database=name).render_as_string(hide_password=False)
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
