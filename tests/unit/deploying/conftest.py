"""What a driver collects is what came since it began, as its own heap is frozen by then."""

import gc

import pytest


@pytest.fixture(autouse=True)
def _frozen():
    """Else each attempt walks what earlier tests imported: fifteen times as long in all."""
    gc.freeze()
