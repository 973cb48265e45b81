"""The fake is what any Kinesis is."""

import pytest

from headrace.testing.clock import FakeClock
from headrace.testing.kinesis.contract import *  # noqa: F403 - the suite
from headrace.testing.kinesis.contract import Service
from headrace.testing.kinesis.service import FakeKinesis


@pytest.fixture
def service():
    clock = FakeClock()
    return Service(FakeKinesis(clock), clock.move)
