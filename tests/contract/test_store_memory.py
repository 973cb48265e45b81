"""The store's promises, kept by the one in memory."""

import pytest

from headrace.testing.memory_store import MemoryStore
from headrace.testing.store_contract import *  # noqa: F403 - the suites


@pytest.fixture
def store():
    return MemoryStore()


@pytest.fixture
def open_again(store):
    return lambda: MemoryStore(store.data)
