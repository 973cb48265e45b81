"""The sink that docs/sinks.md shows keeps the laws of sinks."""

import re
import sys
import types
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "sinks.md"
FILE = re.compile(r"^```python\n# (?:test_)?lines_sink\.py\n(.*?)^```", re.MULTILINE | re.DOTALL)
SINK, SUITE = FILE.findall(PAGE.read_text())

# A module of its own, because a sink travels by pickle.
lines_sink = sys.modules["lines_sink"] = types.ModuleType("lines_sink")
exec(SINK, vars(lines_sink))
names = {"__name__": __name__}
exec(SUITE, names)
TestLines = names["TestLines"]
