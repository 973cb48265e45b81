"""The store's promises, kept by PostgreSQL.

Runs where ``HEADRACE_TEST_DATABASE_URL`` names a database; each test works in a schema of its own.
"""

import os
import uuid

import pytest
from sqlalchemy import create_engine, make_url, text

from headrace.store import open_store
from headrace.testing.store_contract import StoreContract

_URL = os.environ.get("HEADRACE_TEST_DATABASE_URL")


@pytest.mark.skipif(_URL is None, reason="HEADRACE_TEST_DATABASE_URL names no PostgreSQL database")
class TestPostgresStore(StoreContract):
    @pytest.fixture
    def open_again(self):
        schema = f"headrace_test_{uuid.uuid4().hex}"
        url = make_url(_URL).set(drivername="postgresql+psycopg")
        engine = create_engine(url, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.execute(text(f"CREATE SCHEMA {schema}"))
        inside = url.update_query_dict({"options": f"-csearch_path={schema}"})
        yield lambda: open_store(inside.render_as_string(hide_password=False))
        with engine.connect() as connection:
            connection.execute(text(f"DROP SCHEMA {schema} CASCADE"))
        engine.dispose()

    @pytest.fixture
    def store(self, open_again):
        store = open_again()
        yield store
        store.close()
