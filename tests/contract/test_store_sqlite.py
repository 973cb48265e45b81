"""The store's promises, kept by SQLite."""

import pytest

from headrace.store import open_store
from headrace.testing.store_contract import StoreContract


class TestSqliteStore(StoreContract):
    @pytest.fixture
    def open_again(self, tmp_path):
        return lambda: open_store(f"sqlite:///{tmp_path}/store.db")

    @pytest.fixture
    def store(self, open_again):
        store = open_again()
        yield store
        store.close()
