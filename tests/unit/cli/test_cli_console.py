"""`headrace console`: what it serves is asked for a key, and the first one is shown once."""

import re
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from headrace.cli import console_server
from headrace.cli.console_server import consoled
from headrace.cli.servers import with_address
from headrace.console.opening import console_listening, first_key
from headrace.doors.keys import new_key
from headrace.errors import ConfigError
from headrace.model.credentials import Role
from headrace.settings import read_settings

SECRET = "0123456789abcdef0123456789abcdef"
LINK = re.compile(r"http://\S+/#key=(hr_\w{8}_[\w-]{43})")


@pytest.fixture(autouse=True)
def secret(monkeypatch):
    monkeypatch.setenv("HEADRACE_SECRET", SECRET)


@pytest.fixture
def served(monkeypatch):
    """Apps that would have been served, and where."""
    found = []

    def serve(app, where, on_bound):
        found.append((app, where))
        on_bound(f"http://{where.host}:{where.port}")

    monkeypatch.setattr(console_server, "serve", serve)
    return found


def test_the_first_start_shows_a_key_and_the_next_one_does_not(headrace, store, served):
    first, second = headrace("console"), headrace("console")
    assert first.exit_code == second.exit_code == 0, first.output
    (key,) = LINK.findall(first.output)
    assert "http://127.0.0.1:8600" in second.output
    assert not LINK.findall(second.output)
    (kept,) = store.keys.every()
    assert (kept.role, kept.prefix) == (Role.OPERATOR, key[3:11])


def test_a_key_is_made_if_none_of_an_operator_works_any_more(store):
    secret = SECRET.encode()
    for role in (Role.VIEWER, Role.OPERATOR):
        _, key = new_key(role, None, "", secret, 5.0)
        store.keys.add(key)
    assert first_key(store.keys, secret, 6.0) is None
    store.keys.revoke(key.prefix, 7.0)
    assert first_key(store.keys, secret, 8.0) is not None


def test_what_is_typed_goes_before_the_file(headrace, served, config):
    config.write_text(config.read_text() + "console:\n  host: 127.0.0.2\n  port: 7000\n")
    headrace("console")
    headrace("console", "--host", "127.0.0.3", "--port", "7001")
    assert [(listening.host, listening.port) for _, listening in served] == [
        ("127.0.0.2", 7000),
        ("127.0.0.3", 7001),
    ]


def test_without_a_secret_it_says_how_to_make_one(headrace, served, monkeypatch):
    monkeypatch.delenv("HEADRACE_SECRET")
    refused = headrace("console")
    assert refused.exit_code == 2
    assert "HEADRACE_SECRET" in refused.output
    assert served == []


def test_nobody_is_let_in_without_a_key_where_others_can_call(headrace, served):
    refused = headrace("console", "--insecure-no-auth", "--host", "0.0.0.0")
    assert refused.exit_code == 2
    assert "127.0.0.1" in refused.output
    opened = headrace("console", "--insecure-no-auth")
    assert opened.exit_code == 0
    assert not LINK.findall(opened.output)


def test_there_is_room_for_views_and_for_requests_besides(config):
    settings = with_address(read_settings(config), "console", None, None)
    patience = console_listening(settings).patience
    assert patience.most_connections > settings.console.most_clients


@contextmanager
def beside(config, **chosen):
    settings = read_settings(config)
    console = settings.console.model_copy(update=chosen)
    with consoled(settings.model_copy(update={"console": console}), Path(config).parent) as url:
        yield url


def test_beside_a_driver_it_answers_and_asks_for_a_key(config, store):
    with beside(config) as url:
        assert httpx.get(f"{url}/readyz", timeout=60).status_code == 200
        assert httpx.get(f"{url}/v1/tenants", timeout=60).status_code == 401


def test_a_port_that_is_taken_is_passed_over_unless_it_was_asked_for(config, store):
    with beside(config) as first, beside(config) as second:
        assert first != second
        port = int(first.rpartition(":")[2])
        with pytest.raises(ConfigError, match="listens there already"), beside(config, port=port):
            pass


def test_an_address_in_brackets_is_told_whole(config, store, monkeypatch, capsys):
    monkeypatch.setattr(console_server, "first_key", lambda *_: None)
    url = "http://[fe80::1]:8600"
    console_server.tell(read_settings(config), store, url, insecure=False)
    assert f"console  {url}\n" in capsys.readouterr().err
