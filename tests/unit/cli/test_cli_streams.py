"""The list of streams says which have lanes that a failure stopped."""

import pytest

from headrace.cli import streams
from headrace.testing.log_twin import LogTwin


@pytest.fixture(autouse=True)
def log(monkeypatch):
    monkeypatch.setattr(streams, "_log_of", lambda config: LogTwin())


def test_stopped_lanes_are_noted_with_what_shows_them(headrace, fail):
    fail()
    fail(partition=1)
    fail("bolt")
    shown = {line.split()[0]: line for line in headrace("streams", "list").output.splitlines()}
    assert "active" in shown["acme"]
    assert "2 lanes stopped, see 'headrace quarantine list'" in shown["acme"]
    assert "1 lane stopped" in shown["bolt"]


def test_why_a_stream_is_suspended_is_noted_too(headrace, fail):
    fail(stop_use_case=True)
    shown = {line.split()[0]: line for line in headrace("streams", "list").output.splitlines()}
    assert "use case stopped by acme/score" in shown["acme"]
    assert "1 lane stopped" in shown["acme"]
    assert "use case stopped by a failure of another tenant" in shown["bolt"]
    assert "lane stopped" not in shown["bolt"]
