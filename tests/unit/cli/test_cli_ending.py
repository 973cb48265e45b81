"""Who ends something is told what is waited for."""

import threading
from contextlib import contextmanager

import pytest

from headrace.cli import ending
from headrace.cli.ending import told_at_its_end


@pytest.fixture
def said(monkeypatch):
    """What is said, as it comes; a moment is none here."""
    lines, enough = [], threading.Event()

    def say(line, _console):
        lines.append(line)
        if len(lines) == 2:
            enough.set()

    monkeypatch.setattr(ending, "say", say)
    monkeypatch.setattr(ending, "FIRST_S", 0.01)
    monkeypatch.setattr(ending, "EVERY_S", 0.01)
    return lines, enough


def test_what_closes_for_long_is_named_until_it_has_closed(said):
    lines, enough = said

    @contextmanager
    def slow():
        yield "Kafka at 9092"
        assert enough.wait(60)

    with told_at_its_end("Kafka", slow()) as made:
        assert made == "Kafka at 9092"
        assert lines == []
    assert {line.split(",")[0] for line in lines} == {"waits for the end of Kafka"}


def test_what_goes_wrong_within_is_seen_by_what_closes(said):
    seen = []

    @contextmanager
    def server():
        try:
            yield
        except ValueError as error:
            seen.append(error)
            raise

    with pytest.raises(ValueError, match="within"), told_at_its_end("it", server()):
        raise ValueError("within")
    assert len(seen) == 1


def test_what_does_not_begin_is_waited_for_by_nobody(said):
    @contextmanager
    def server():
        raise ValueError("no port")
        yield

    with pytest.raises(ValueError, match="no port"), told_at_its_end("it", server()):
        raise AssertionError("it has not begun")
    assert said[0] == []
