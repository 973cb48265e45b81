"""Keys made at the terminal open doors, are shown once, and end when they are to."""

import json
import re
import time
from contextlib import ExitStack

import pytest

from headrace.cli.kept_ports import KeptPorts
from headrace.cli.servers import completed, folder_of, remember
from headrace.cli.up import with_servers
from headrace.doors.guard import Guard
from headrace.doors.problems import Problem
from headrace.doors.secret import secret_of
from headrace.model.credentials import Role
from headrace.settings import read_settings

SECRET = "a secret of thirty-two characters"


@pytest.fixture(autouse=True)
def secret(monkeypatch):
    monkeypatch.setenv("HEADRACE_SECRET", SECRET)


@pytest.fixture
def made(headrace):
    """The key that a command prints: all of its standard output."""

    def made(*words):
        result = headrace("keys", *words)
        assert result.exit_code == 0, result.output
        assert re.fullmatch(r"hr_[0-9a-z]{8}_[\w-]{43}\n", result.stdout)
        return result.stdout.strip()

    return made


def opens(store, text):
    try:
        return Guard(store.keys, SECRET.encode()).caller(f"Bearer {text}")
    except Problem:
        return None


def test_a_key_opens_the_door_and_is_in_no_list(made, headrace, store):
    text = made("create", "--role", "sender", "--tenant", "acme", "--label", "shop")
    caller = opens(store, text)
    assert (caller.role, caller.tenant) == (Role.SENDER, "acme")
    listed = headrace("keys", "list").output
    assert text not in listed
    assert re.search(rf"{text[3:11]} +sender +acme +shop .* works", listed)
    assert text[3:11] not in headrace("keys", "list", "--tenant", "bolt").output


def test_keys_are_listed_for_programs_in_the_words_of_the_api(made, headrace, store):
    text = made("create", "--role", "sender", "--tenant", "acme", "--label", "shop")
    listed = headrace("keys", "list", "--json").output
    (row,) = json.loads(listed)
    assert text not in listed
    (key,) = store.keys.every()
    assert row == {
        "prefix": text[3:11],
        "role": "sender",
        "tenant": "acme",
        "subjects": None,
        "label": "shop",
        "created_at_s": key.created_at_s,
        "expires_at_s": None,
        "revoked_at_s": None,
        "works": True,
    }
    headrace("keys", "revoke", row["prefix"])
    assert json.loads(headrace("keys", "list", "--json").output)[0]["works"] is False


def test_a_key_works_as_long_as_it_was_made_for(made, headrace, store):
    made("create", "--role", "viewer", "--expires", "720h")
    key = store.keys.every()[0]
    assert key.expires_at_s - key.created_at_s == 720 * 3600
    assert "works until" in headrace("keys", "list").output


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--role", "sender"), "needs a tenant"),
        (("--role", "sender", "--tenant", "nobody"), "no tenant nobody"),
        (("--role", "viewer", "--tenant", "acme"), "name none"),
        (("--role", "king"), "operator"),
        (("--role", "viewer", "--expires", "soon"), "a duration looks like"),
        (("--role", "viewer", "--subjects", "acme.*"), "is for no subjects"),
        (("--role", "schemas", "--subjects", "acme.*-value"), "with a * behind it"),
        (("--role", "schemas", "--subjects", ""), "with a * behind it"),
    ],
)
def test_a_key_that_makes_no_sense_is_refused(headrace, store, words, told):
    result = headrace("keys", "create", *words)
    assert result.exit_code != 0
    assert told in result.output
    assert store.keys.every() == []


def test_a_rotated_key_goes_on_for_the_overlap(made, headrace, store):
    old = made("create", "--role", "operator")
    new = made("rotate", old[3:11], "--overlap", "1h")
    assert opens(store, old)
    assert opens(store, new)
    key = store.keys.find(old[3:11])
    assert 3590 < key.expires_at_s - key.created_at_s < 3660
    assert headrace("keys", "rotate", "nobody00").exit_code != 0


def test_a_key_of_some_subjects_says_so_and_so_does_the_one_that_follows_it(made, headrace, store):
    old = made("create", "--role", "schemas", "--subjects", "acme.*", "--label", "team")
    made("rotate", old[3:11])
    assert [key.subjects for key in store.keys.every()] == ["acme.*"] * 2
    assert headrace("keys", "list").output.count("schemas (acme.*)") == 2
    rows = json.loads(headrace("keys", "list", "--json").output)
    assert [row["subjects"] for row in rows] == ["acme.*"] * 2


def test_a_revoked_key_opens_nothing(made, headrace, store):
    text = made("create", "--role", "operator")
    assert "is revoked" in headrace("keys", "revoke", text[3:11]).output
    assert opens(store, text) is None
    assert "revoked 2" in headrace("keys", "list").output
    result = headrace("keys", "revoke", "nobody00")
    assert "no key nobody00" in result.output
    assert result.exit_code != 0


def test_without_a_secret_a_key_is_not_made_and_with_that_of_up_it_is(
    headrace, store, config, monkeypatch
):
    monkeypatch.delenv("HEADRACE_SECRET")
    result = headrace("keys", "create", "--role", "operator")
    assert result.exit_code != 0
    assert "HEADRACE_SECRET" in result.output
    file = config.parent / "the-secret"
    file.write_text(SECRET)
    remember(folder_of(config.parent), {"secret_file": str(file)})
    assert opens(store, headrace("keys", "create", "--role", "operator").stdout.strip())


def test_up_makes_a_secret_unless_one_is_named_and_the_other_commands_find_it(config, monkeypatch):
    config.write_text(f"{config.read_text()}smtp_url: smtp://127.0.0.1:1\n")
    settings, folder = read_settings(config), folder_of(config.parent)
    ports = KeptPorts(folder)
    with ExitStack() as stack:
        assert not with_servers(settings, folder, None, stack, ports).doors.secret_file
        monkeypatch.delenv("HEADRACE_SECRET")
        started = with_servers(settings, folder, None, stack, ports)
    assert started.doors.secret_file == folder / "secret"
    assert secret_of(completed(settings, config.parent)) == secret_of(started)


def test_a_label_is_shown_as_it_is(headrace):
    headrace("keys", "create", "--role", "viewer", "--label", "[/ops] \x1b[2J")
    assert "[/ops] \\x1b[2J" in headrace("keys", "list").output


@pytest.fixture
def half_past(monkeypatch):
    """A zone that is half an hour off: what has it is not UTC by chance."""
    with monkeypatch.context() as zone:
        zone.setenv("TZ", "Asia/Kolkata")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("half_past")
def test_times_have_their_zone_wherever_they_are_listed(made, headrace, fail):
    made("create", "--role", "sender", "--tenant", "acme", "--expires", "1h")
    fail()
    a_time = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+05:30"
    assert re.search(rf" {a_time} +works until {a_time}", headrace("keys", "list").output)
    assert " 2026-09-21T19:43:20+05:30 " in headrace("quarantine", "list").output
