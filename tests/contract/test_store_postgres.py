"""The store's promises, kept by PostgreSQL."""

import pytest

from headrace.store import open_store
from headrace.testing.store_contract import *  # noqa: F403 - the suites


@pytest.fixture
def open_again(made_postgresql_url):
    return lambda: open_store(made_postgresql_url)


@pytest.fixture
def store(open_again):
    store = open_again()
    yield store
    store.close()
