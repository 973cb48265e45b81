"""Lines of the log name things alike, and look as asked for."""

import ast
import json
import re
from pathlib import Path

import pytest
import structlog

import headrace
from headrace.cli.console import LogFormat, configure_logs
from headrace.model.streams import LaneId, Slice, StreamId
from headrace.model.waves import Wave
from headrace.telemetry.log_fields import FIELDS, of_slice, of_stream, of_wave

SOURCE = Path(headrace.__file__).parent
LEVELS = {"debug", "info", "warning", "error", "critical", "exception"}
HELPERS = {"of_stream": of_stream, "of_slice": of_slice, "of_wave": of_wave}
#: fields that only a helper sets, so that what belongs with them is never forgotten
BY_HELPER = {"stream", "slice", "wave"}
ACME = StreamId("score", "acme")


def calls():
    for path in sorted(SOURCE.rglob("*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                owner = node.func.value
                if isinstance(owner, ast.Name) and owner.id == "log" and node.func.attr in LEVELS:
                    yield f"{path.relative_to(SOURCE)}:{node.lineno}", node


def test_every_field_of_a_line_is_declared_and_every_declared_one_is_used():
    used = set()
    for where, call in calls():
        for keyword in call.keywords:
            if keyword.arg is None:
                assert isinstance(keyword.value, ast.Call), where
                assert keyword.value.func.id in HELPERS, where
            else:
                assert keyword.arg in FIELDS or keyword.arg == "exc_info", f"{where}: {keyword.arg}"
                assert keyword.arg not in BY_HELPER, f"{where}: {keyword.arg} comes from its helper"
                used.add(keyword.arg)
    # The last one is set on lines that a handler says.
    used |= BY_HELPER | {"driver", "tenant", "use_case", "logger"}
    assert used - {"exc_info"} == set(FIELDS)


def test_a_line_says_what_happened_in_fixed_words_and_the_rest_in_fields():
    for where, call in calls():
        (said,) = call.args
        words = [said.body, said.orelse] if isinstance(said, ast.IfExp) else [said]
        for word in words:
            fixed = isinstance(word, ast.Constant) and isinstance(word.value, str)
            named = isinstance(word, ast.Name | ast.Attribute | ast.JoinedStr) and "fleet" in where
            assert fixed or named, f"{where}: {ast.unparse(word)}"


def test_what_a_line_is_about_is_written_alike():
    piece = Slice(LaneId("score", "acme", "acme.visits[2]"), "acme.visits", 3, 7, 1)
    stream = {"tenant": "acme", "use_case": "score", "stream": "acme/score"}
    assert of_stream(ACME) == stream
    assert of_slice(piece) == {**stream, "slice": "acme.visits[2] 3..7"}
    assert of_wave(Wave("run-1.0", "score", (), 1.0)) == {"use_case": "score", "wave": "run-1.0"}
    assert {*of_slice(piece), "wave"} <= set(FIELDS)


def test_the_documentation_names_every_field():
    text = (SOURCE.parents[1] / "docs" / "observability.md").read_text("utf-8")
    told = dict(re.findall(r"^\| `(\w+)` \| (.*?) \|$", text, re.MULTILINE))
    assert {name: meaning for name, meaning in told.items() if name in FIELDS} == FIELDS


@pytest.fixture
def settled():
    before = structlog.get_config()
    yield
    structlog.configure(**before)


@pytest.mark.usefixtures("settled")
@pytest.mark.parametrize(("form", "is_json"), [("json", True), ("pretty", False), ("auto", True)])
def test_lines_look_as_asked_for(form, is_json, capsys):
    configure_logs("INFO", LogFormat(form))
    log = structlog.get_logger()
    log.debug("not shown")
    log.info("wave failed", **of_stream(ACME))
    line = capsys.readouterr().err
    assert line.count("\n") == 1
    assert line.startswith("{") == is_json
    if is_json:
        found = json.loads(line)
        assert (found["event"], found["level"], found["tenant"]) == ("wave failed", "info", "acme")
    else:
        assert "tenant=acme" in line


@pytest.mark.usefixtures("settled")
@pytest.mark.parametrize("form", list(LogFormat))
def test_an_error_is_logged_with_its_traceback(form, capsys):
    configure_logs("INFO", form)
    try:
        int("boom")
    except ValueError as error:
        structlog.get_logger().error("request failed", exc_info=error)
    assert "ValueError: invalid literal" in capsys.readouterr().err
