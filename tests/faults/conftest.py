"""A PostgreSQL that may be cut off, stopped and killed."""

import uuid
from contextlib import ExitStack, contextmanager

import psycopg
import pytest
from cutting_proxy import CuttingProxy
from sqlalchemy import make_url

from headrace.embedded import EmbeddedPostgres
from headrace.embedded.addresses import free_ports


@pytest.fixture
def proxy(postgres):
    made = CuttingProxy(postgres.port)
    yield made
    made.close()


@contextmanager
def _database_of(postgres):
    """An empty database of one's own, by the straight way."""
    name = f"faults_{uuid.uuid4().hex}"
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    yield make_url(postgres.url).set(database=name).render_as_string(hide_password=False)
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


def _through(proxy, url):
    return make_url(url).set(port=proxy.port).render_as_string(hide_password=False)


@pytest.fixture
def straight_url(postgres):
    """An empty database of one's own, by the straight way."""
    with _database_of(postgres) as url:
        yield url


@pytest.fixture
def new_database(postgres, proxy):
    """Makes empty databases; gives the straight way to each, and the one through the proxy."""
    with ExitStack() as made:

        def new():
            url = made.enter_context(_database_of(postgres))
            return url, _through(proxy, url)

        yield new


@pytest.fixture
def database(open_folder, request):
    """A PostgreSQL of the test's own."""
    folder = open_folder / request.node.name
    with EmbeddedPostgres(folder, free_ports(1)[0]) as server:
        yield server


@pytest.fixture
def proxied_url(straight_url, proxy):
    """The same database, through the proxy."""
    return _through(proxy, straight_url)
