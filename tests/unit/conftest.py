"""What several unit tests begin with."""

import pytest

from headrace.store import open_store


@pytest.fixture
def store(tmp_path):
    made = open_store(f"sqlite:///{tmp_path}/store.db")
    yield made
    made.close()
