"""The store's promises, kept by the one in memory."""

import pytest

from headrace.model.everyone import EVERYONE
from headrace.model.streams import Tenant
from headrace.testing.memory_store import MemoryStore
from headrace.testing.store_contract import *  # noqa: F403 - the suites
from headrace.testing.store_contract.everyone import a_customer_called_everyone


@pytest.fixture
def store():
    return MemoryStore()


@pytest.fixture
def open_again(store):
    return lambda: MemoryStore(store.data)


def test_a_customer_of_an_earlier_version_keeps_the_name_until_it_is_removed(store):
    store.data.tenants[EVERYONE] = Tenant(EVERYONE)
    a_customer_called_everyone(store)
