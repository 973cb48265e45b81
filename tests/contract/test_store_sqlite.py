"""The store's promises, kept by SQLite."""

import pytest

from headrace.store import open_store
from headrace.testing.store_contract import *  # noqa: F403 - the suites


@pytest.fixture
def open_again(tmp_path):
    return lambda: open_store(f"sqlite:///{tmp_path}/store.db")


@pytest.fixture
def store(open_again):
    store = open_again()
    yield store
    store.close()
