"""A server that plays Kinesis is what any is, so the fake is held to what others do."""

import pytest

from headrace.testing.kinesis.contract import *  # noqa: F403 - the suite


@pytest.fixture
def service(kinesis):
    return kinesis.service()
