"""Real databases for the contract suites."""

import os
import uuid
from contextlib import closing

import pytest
from sqlalchemy import create_engine, make_url, text

from made_stores import MadeDatabases, MadeFile


@pytest.fixture
def postgres_url(request):
    """An empty schema of its own: where ``HEADRACE_TEST_DATABASE_URL`` says, else in our server."""
    given = os.environ.get("HEADRACE_TEST_DATABASE_URL")
    if given is None:
        given = request.getfixturevalue("postgres").url
    url = make_url(given).set(drivername="postgresql+psycopg")
    schema = f"headrace_test_{uuid.uuid4().hex}"
    engine = create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f"CREATE SCHEMA {schema}"))
    inside = url.update_query_dict({"options": f"-csearch_path={schema}"})
    yield inside.render_as_string(hide_password=False)
    with engine.connect() as connection:
        connection.execute(text(f"DROP SCHEMA {schema} CASCADE"))
    engine.dispose()


@pytest.fixture(params=["sqlite", "postgresql"])
def database_kind(request):
    return request.param


@pytest.fixture
def store_url(request, database_kind, tmp_path):
    """The URL of an empty store, on each database."""
    if database_kind == "sqlite":
        return f"sqlite:///{tmp_path}/store.db"
    return request.getfixturevalue("postgres_url")


@pytest.fixture
def made_store_url(request, database_kind):
    """The same where the tables are there already."""
    return request.getfixturevalue(f"made_{database_kind}_url")


@pytest.fixture(scope="session")
def made_file(tmp_path_factory):
    return MadeFile(tmp_path_factory.mktemp("made"))


@pytest.fixture
def made_sqlite_url(made_file, tmp_path):
    return made_file.copied(tmp_path / "store.db")


@pytest.fixture(scope="session")
def made_databases(postgres):
    with closing(MadeDatabases(postgres.url)) as made:
        yield made


@pytest.fixture
def made_postgresql_url(request):
    """Where ``HEADRACE_TEST_DATABASE_URL`` says nobody may make databases: migrations run there."""
    if "HEADRACE_TEST_DATABASE_URL" in os.environ:
        yield request.getfixturevalue("postgres_url")
        return
    with request.getfixturevalue("made_databases").copied() as url:
        yield url
