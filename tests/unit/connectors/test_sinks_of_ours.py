"""A sink that comes with Headrace is where CONTRIBUTING.md says that it has to be."""

import inspect
import re
from pathlib import Path

import pytest

from headrace import sinks
from headrace.operating import repeats

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "sinks.md").read_text()
OURS = [name for name in sinks.__all__ if inspect.isclass(getattr(sinks, name))]
SUITES = [path.read_text() for path in (ROOT / "tests" / "contract").glob("test_sink_*.py")]


def test_there_are_sinks():
    assert len(OURS) >= 4


@pytest.mark.parametrize("name", OURS)
def test_the_page_of_sinks_has_a_row_and_a_section(name):
    assert re.search(rf"^\| `{name}` \|", PAGE, re.MULTILINE)
    assert re.search(rf"^## {name}$", PAGE, re.MULTILINE)


@pytest.mark.parametrize("name", OURS)
def test_it_is_told_what_becomes_of_effects_that_are_made_again(name):
    cases = inspect.getsource(repeats.repeated)
    assert re.search(rf"^ *case .*\b{name}\(", cases, re.MULTILINE)


@pytest.mark.parametrize("name", OURS)
def test_it_is_held_to_the_laws_of_sinks(name):
    held = re.compile(rf"^class Test{name}\(.*\bSinkContract\)", re.MULTILINE)
    assert any(map(held.search, SUITES))
