"""A PostgreSQL that may be cut off, stopped and killed."""

import uuid

import psycopg
import pytest
from cutting_proxy import CuttingProxy
from sqlalchemy import make_url


@pytest.fixture
def proxy(postgres):
    made = CuttingProxy(postgres.port)
    yield made
    made.close()


@pytest.fixture
def straight_url(postgres):
    """An empty database of one's own, by the straight way."""
    name = f"faults_{uuid.uuid4().hex}"
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    yield make_url(postgres.url).set(database=name).render_as_string(hide_password=False)
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def proxied_url(straight_url, proxy):
    """The same database, through the proxy."""
    return make_url(straight_url).set(port=proxy.port).render_as_string(hide_password=False)
