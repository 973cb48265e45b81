"""What several unit tests begin with."""

from pathlib import Path

import pytest

from headrace.store import open_store
from quick_stores import QuickStores

#: its tests are about how tables are made and files are written
STORE = Path(__file__).parent / "store"


@pytest.fixture(scope="session")
def quick_stores(tmp_path_factory):
    return QuickStores(tmp_path_factory.mktemp("stores"))


@pytest.fixture(autouse=True)
def _stores(request, monkeypatch, quick_stores):
    if STORE not in request.path.parents:
        quick_stores.begin(monkeypatch)


@pytest.fixture
def store(tmp_path):
    made = open_store(f"sqlite:///{tmp_path}/store.db")
    yield made
    made.close()
