"""A task is tried on a bench."""

import pytest
from task_bench import Bench


@pytest.fixture
def bench(tmp_path):
    made = Bench(tmp_path)
    yield made
    made.store.close()
