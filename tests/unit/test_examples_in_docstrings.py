"""Examples in docstrings are true, the planner's specification before all."""

import doctest
import importlib
from pathlib import Path

import pytest

import headrace

SRC = Path(headrace.__file__).parent
WITH_EXAMPLES = sorted(
    ".".join(("headrace", *path.relative_to(SRC).with_suffix("").parts)).removesuffix(".__init__")
    for path in SRC.rglob("*.py")
    if ">>> " in path.read_text("utf-8")
)


def test_the_specification_of_the_planner_has_some():
    assert "headrace.planning" in WITH_EXAMPLES


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_they_are_true(name):
    found = doctest.testmod(importlib.import_module(name))
    assert found.attempted > 0
    assert found.failed == 0
