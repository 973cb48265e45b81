"""What the demo says before its first number."""

import inspect

from headrace.demo import use_cases
from headrace.demo.scenario import SUSPENDED, opening
from headrace.use_cases import UseCase


def test_the_opening_explains_the_count_of_streams_and_the_first_delays():
    act, delays, _ = opening()
    assert "7 tenants" in act
    assert "three streams" in act
    made = inspect.getmembers(use_cases, lambda found: isinstance(found, UseCase))
    assert len(made) == 3
    assert "waited for Spark to start" in delays
    assert f"{SUSPENDED} is resumed" in delays
