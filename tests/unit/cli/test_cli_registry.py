"""The registry beside `up`: drivers are told where it is, unless somebody else has told them."""

import ssl
from pathlib import Path

import httpx
import pytest

from headrace.cli import registry as command
from headrace.cli.servers import with_addresses
from headrace.embedded.addresses import free_ports
from headrace.settings import Settings


@pytest.fixture
def said(monkeypatch):
    lines = []
    monkeypatch.setattr(command, "say", lambda line, _console: lines.append(line))
    return lines


@pytest.fixture
def key_file(tmp_path):
    return tmp_path / "up" / "registry-key"


@pytest.fixture
def settings(tmp_path, monkeypatch):
    monkeypatch.setenv("HEADRACE_SECRET", "s" * 32)

    def made(**more):
        (port,) = free_ports(1)
        given = {
            "database_url": f"sqlite:///{tmp_path}/store.db",
            "schema_registry": {"port": port},
        }
        return Settings.model_validate({"module": "use_cases.py", **given, **more})

    return made


def test_drivers_find_it_with_a_key_that_opens_it_the_same_at_the_next_start(
    settings, key_file, said
):
    keys = []
    for _ in range(2):
        chosen = settings()
        with command.registry_beside(chosen, key_file) as found:
            asked = with_addresses(chosen, found).registry_properties()
            user, password = asked["basic.auth.user.info"].split(":")
            answer = httpx.get(
                f"{asked['schema.registry.url']}/subjects", auth=(user, password), timeout=60
            )
            assert answer.status_code == 200
            keys.append(password)
    assert keys[0] == keys[1]
    assert password not in f"{said}{found}"


def test_one_that_the_file_names_is_asked_and_that_is_said(settings, key_file, said):
    chosen = settings(registry={"schema.registry.url": "http://me:word@theirs:8081"})
    with command.registry_beside(chosen, key_file) as found:
        assert with_addresses(chosen, found) == chosen
    assert said[-1].endswith("drivers ask the one that the YAML file names: http://theirs:8081")
    assert not key_file.exists()


def test_with_tls_drivers_are_not_sent_to_a_name_that_its_certificate_may_not_have(
    settings, key_file, said, monkeypatch
):
    monkeypatch.setattr("headrace.doors.serving._context", lambda _: _plain())
    tls = {"certificate_file": Path("c.pem"), "key_file": Path("k.pem")}
    with command.registry_beside(settings(doors={"tls": tls}), key_file) as found:
        assert found == {}
    assert "drivers ask none: with doors.tls its name is yours to say" in said[-1]
    assert not key_file.exists()


def _plain():
    return ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
