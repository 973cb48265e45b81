"""Real databases for the contract suites."""

import os
import uuid

import pytest
from sqlalchemy import create_engine, make_url, text


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
def store_url(request, tmp_path):
    """The URL of an empty store, on each database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/store.db"
    return request.getfixturevalue("postgres_url")
