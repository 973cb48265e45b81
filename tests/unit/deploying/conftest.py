"""What a driver collects is what came since it began, as its own heap is frozen by then."""

import gc

import pytest


@pytest.fixture(autouse=True, scope="module")
def _calm():
    """Else each collection walks all that the process of tests holds, for a second and longer."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()
