"""Migrations that go wrong; those that go right are in the contract tests."""

import pytest
from sqlalchemy import inspect, text

from headrace.errors import StoreTooNew
from headrace.model.streams import Tenant
from headrace.store import open_store
from headrace.store.database import open_database
from headrace.store.migrations import (
    VERSION_TABLE,
    newest_version,
    upgrade,
    version_of,
)


@pytest.fixture
def database(tmp_path):
    database = open_database(f"sqlite:///{tmp_path}/store.db")
    yield database
    database.close()


def tables(database):
    with database.read() as connection:
        return set(inspect(connection).get_table_names()) - {VERSION_TABLE}


def test_opening_again_changes_nothing(tmp_path):
    url = f"sqlite:///{tmp_path}/store.db"
    first = open_store(url)
    first.add_tenant(Tenant("acme"))
    second = open_store(url)
    assert second.tenants() == [Tenant("acme")]
    first.close()
    second.close()


def test_a_migration_that_fails_leaves_no_half_of_it(database):
    with database.write() as connection:
        connection.execute(text("CREATE TABLE headrace_failures (mine TEXT)"))
    with pytest.raises(Exception, match="headrace_failures"):
        upgrade(database)
    assert tables(database) == {"headrace_failures"}


def test_a_store_of_a_later_headrace_is_refused_and_left_alone(tmp_path, database):
    upgrade(database)
    with database.write() as connection:
        connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '9999'"))
    with pytest.raises(StoreTooNew, match=rf"9999.*{newest_version()}.*install the later Headrace"):
        open_store(f"sqlite:///{tmp_path}/store.db")
    with database.read() as connection:
        assert version_of(connection) == "9999"
