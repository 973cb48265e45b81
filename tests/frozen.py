"""Tests in which a driver collects garbage itself, in a process that knows all tests.

A driver freezes what it has when it begins, and collects what came since. Here there is besides all
that thousands of tests have imported, and each collection would walk it.
"""

import gc

import pytest


@pytest.fixture(autouse=True)
def frozen():
    """What is there before a test is walked by none of its collections."""
    gc.freeze()
