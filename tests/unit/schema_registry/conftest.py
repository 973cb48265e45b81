"""A registry for each test."""

import pytest
from registry_parts import World


@pytest.fixture
def world():
    return World()
