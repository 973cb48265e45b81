"""The store's promises, kept by the twin."""

import pytest

from headrace.testing.store_contract import StoreContract
from headrace.testing.store_twin import StoreTwin


class TestStoreTwin(StoreContract):
    @pytest.fixture
    def store(self):
        return StoreTwin()

    @pytest.fixture
    def open_again(self, store):
        return lambda: StoreTwin(store.data)
