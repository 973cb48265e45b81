"""A gateway that cannot be what it is asked to be says so and ends."""

import socket

import pytest

from headrace.console.opening import console_listening
from headrace.schema_registry.opening import registry_listening
from headrace.settings import Settings


@pytest.fixture
def typed(config, monkeypatch):
    monkeypatch.setenv("HEADRACE_SECRET", "s" * 40)

    def add(text):
        config.write_text(config.read_text() + text)

    return add


TYPES = "gateway:\n  types: {visit: {topic: visits}}\n"


def refusal(headrace, *words):
    done = headrace("gateway", *words)
    assert done.exit_code == 2, done.output
    return " ".join(done.output.split())


def test_without_a_type_there_is_nothing_to_take(headrace, typed):
    assert "types: {visit: {topic: visits}}" in refusal(headrace)


def test_a_schema_that_is_not_there_is_named(headrace, typed):
    typed(TYPES.replace("visits}", "visits, schema: visit.json}"))
    assert "visit.json cannot be read" in refusal(headrace)


def test_without_keys_it_listens_on_this_machine_alone(headrace, typed):
    typed(TYPES)
    assert "--insecure-no-auth" in refusal(headrace, "--insecure-no-auth", "--host", "0.0.0.0")


def test_without_a_secret_no_key_can_be_checked(headrace, typed, monkeypatch):
    typed(TYPES)
    monkeypatch.delenv("HEADRACE_SECRET")
    assert "HEADRACE_SECRET" in refusal(headrace)


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("types: {visit: {topic: ../x}}", "gateway.types.visit.topic"),
        ("types: {a/b: {topic: x}}", "gateway.types"),
        ("types: {visit: {topic: x, key: lead}}", "gateway.types.visit.key"),
        ("types: {visit: {topic: x, shema: y}}", "there is no such key"),
        ("event_bytes: 5", "a size looks like"),
    ],
)
def test_a_setting_that_cannot_be_is_refused_by_its_name(headrace, typed, written, said):
    typed(f"gateway:\n  {written}\n")
    assert said in refusal(headrace)


def test_a_port_that_is_taken_is_refused_by_its_key(headrace, typed):
    typed(TYPES)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        told = refusal(headrace, "--port", str(taken.getsockname()[1]))
    assert "(gateway.port and gateway.host)" in " ".join(told.split())


def test_each_door_knows_its_section():
    chosen = Settings(module="a.py")
    assert console_listening(chosen).section == "console"
    assert registry_listening(chosen).section == "schema_registry"
