"""Commands find the servers that `up` started, and what the YAML file names wins."""

import socket
import stat

import pytest

from headrace.cli.servers import completed, folder_of, port_before, remember
from headrace.errors import ConfigError
from headrace.settings import Settings

ADDRESSES = {
    "bootstrap.servers": "127.0.0.1:9092",
    "smtp_url": "smtp://127.0.0.1:25",
    "database_url": "sqlite:///up.db",
}


@pytest.fixture(autouse=True)
def nothing_in_the_environment(monkeypatch):
    monkeypatch.delenv("DATABASE_URL", raising=False)
    monkeypatch.delenv("SMTP_URL", raising=False)


def settings(**more):
    driver = {"driver": {"bin_budget": "250ms"}}
    return Settings.model_validate({"module": "use_cases.py", **driver, **more})


def test_what_is_not_named_is_taken_from_up(tmp_path):
    remember(folder_of(tmp_path), ADDRESSES)
    found = completed(settings(), tmp_path)
    assert found.kafka["bootstrap.servers"] == "127.0.0.1:9092"
    assert found.store_url() == "sqlite:///up.db"
    assert found.mail_url() == "smtp://127.0.0.1:25"
    assert found.driver.bin_budget == 0.25


def test_what_is_named_wins(tmp_path, monkeypatch):
    remember(folder_of(tmp_path), ADDRESSES)
    named = settings(kafka={"bootstrap.servers": "kafka:9092"}, smtp_url="smtp://mail")
    monkeypatch.setenv("DATABASE_URL", "sqlite:///mine.db")
    found = completed(named, tmp_path)
    assert found.kafka["bootstrap.servers"] == "kafka:9092"
    assert found.store_url() == "sqlite:///mine.db"
    assert found.mail_url() == "smtp://mail"


def test_without_up_nothing_changes(tmp_path):
    assert completed(settings(), tmp_path) == settings()


def test_the_addresses_are_for_their_owner_only_and_a_broken_file_says_what_to_do(tmp_path):
    folder = folder_of(tmp_path)
    remember(folder, ADDRESSES)
    path = folder / "servers.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.write_text("{half")
    with pytest.raises(ConfigError, match="start 'headrace up' again"):
        completed(settings(), tmp_path)


def test_up_takes_the_ports_of_the_last_time_unless_somebody_has_them(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        kafka, store = f"127.0.0.1:{port}", f"postgresql://me:secret@127.0.0.1:{port}/headrace"
        remember(tmp_path, {"bootstrap.servers": kafka, "database_url": store})
        assert port_before(tmp_path, "bootstrap.servers") is None
    assert port_before(tmp_path, "bootstrap.servers") == port
    assert port_before(tmp_path, "database_url") == port


def test_without_a_last_time_up_takes_free_ports(tmp_path):
    assert port_before(tmp_path, "bootstrap.servers") is None
    remember(tmp_path, {"database_url": "sqlite:///headrace.db"})
    assert port_before(tmp_path, "bootstrap.servers") is None
    assert port_before(tmp_path, "database_url") is None
    (tmp_path / "servers.json").write_text("{half")
    assert port_before(tmp_path, "database_url") is None
