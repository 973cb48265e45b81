"""The page about the control API names what there is, and its examples can be sent."""

import json
import re
import shlex
from pathlib import Path

import pytest

from headrace.console.access import OPEN, OPERATOR, OWN_DOING, OWN_SEEING, RULES, SEEING
from headrace.console.live import live_view
from headrace.model.records import Deployment, LaneStart
from headrace.model.streams import StreamId

PAGE = (Path(__file__).parents[3] / "docs" / "control-api.md").read_text()
WHO = {
    OPEN: "anybody",
    OPERATOR: "operator",
    SEEING: "operator, viewer",
    OWN_SEEING: "operator, viewer, tenant",
    OWN_DOING: "operator, tenant",
}
COMMANDS = [
    line
    for block in re.findall(r"^```sh\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    for line in block.replace("\\\n", " ").splitlines()
    if line.startswith("curl")
]


def table():
    for (method, path), roles in RULES.items():
        shown = path.replace("{path:path}", "...")
        yield f"| `{method} {shown}` | {WHO[roles]} |"


def test_the_table_of_routes_is_that_of_the_code():
    lines = [line for line in PAGE.splitlines() if line.startswith(("| `GET", "| `P", "| `DEL"))]
    assert lines == list(table())


def read(command):
    """Method, path and body of a curl command."""
    words = shlex.split(command)
    url = next(word for word in words if "localhost" in word)
    body = words[words.index("-d") + 1] if "-d" in words else None
    method = words[words.index("-X") + 1] if "-X" in words else "POST" if body else "GET"
    return method, url.partition(":8600")[2], body


@pytest.fixture
def pages(store):
    """The stream that the page speaks of."""
    store.registry.deploy(Deployment("pages", "pages.py", "ab12", "{tenant}.visits"))
    store.progress.start_lanes(
        [
            LaneStart(
                StreamId("pages", "acme"), "topic-1", {"acme.visits[0]": 3, "acme.visits[1]": 3}
            )
        ]
    )


@pytest.mark.usefixtures("pages")
@pytest.mark.parametrize("command", COMMANDS)
def test_an_example_is_answered_with_a_yes(api, fail, command):
    for offset in (9, 8, 7, 6, 5, 4, 3):
        number = fail(offset=offset)
        if number == 7:
            break
        api.app.state.desk.store.failures.retry(number)
    method, path, body = read(command)
    if path == "/v1/live":
        assert live_view.__name__ in str(api.app.openapi()["paths"][path]["get"]["operationId"])
        return
    answer = api(method, path, json=None if body is None else json.loads(body))
    assert answer.status_code in (200, 201, 204), answer.text


def test_there_are_examples():
    assert len(COMMANDS) > 8
