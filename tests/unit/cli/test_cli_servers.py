"""Commands find the servers that `up` started, and what the YAML file names wins."""

import os
import socket
import stat
from contextlib import ExitStack, closing, nullcontext

import pytest
from typer.testing import CliRunner

from headrace.cli import up as up_command
from headrace.cli import verifying
from headrace.cli.app import app
from headrace.cli.console import told_of_up
from headrace.cli.failure_text import when
from headrace.cli.kept_ports import KeptPorts
from headrace.cli.servers import completed, folder_of, remember, remembered
from headrace.cli.up import StoreKind
from headrace.embedded.folder_lock import FolderLock
from headrace.errors import (
    BrokerUnavailable,
    ConfigError,
    ConnectionDown,
    SinkUnavailable,
    Temporary,
)
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


REGISTRY = {"registry_url": "http://127.0.0.1:8081", "registry_user_file": "/k/registry-key"}


def test_a_registry_that_up_serves_is_asked_unless_the_file_names_one(tmp_path):
    key = tmp_path / "registry-key"
    key.write_text("drivers:hr_key\n")
    remember(folder_of(tmp_path), {**REGISTRY, "registry_user_file": str(key)})
    found = completed(settings(), tmp_path)
    assert found.registry_properties() == {
        "schema.registry.url": "http://127.0.0.1:8081",
        "basic.auth.credentials.source": "USER_INFO",
        "basic.auth.user.info": "drivers:hr_key",
    }
    assert "hr_key" not in repr(found) + (folder_of(tmp_path) / "servers.json").read_text()
    named = {"schema.registry.url": "https://theirs"}
    assert completed(settings(registry=named), tmp_path).registry_properties() == named


def test_one_that_the_file_named_once_is_asked_by_nobody_when_it_does_no_more(tmp_path):
    remember(folder_of(tmp_path), {"registry_url": "https://theirs"})
    assert not completed(settings(), tmp_path).names_a_registry()


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


def headrace(folder, *words):
    return CliRunner().invoke(app, [*words, "--config", str(folder / "headrace.yaml")])


@pytest.fixture
def yaml(tmp_path):
    """A folder where `up` starts everything."""
    (tmp_path / "headrace.yaml").write_text("module: use_cases.py\n")
    return tmp_path


@pytest.fixture
def no_kafka(monkeypatch):
    def away(*_):
        raise BrokerUnavailable("no Kafka broker answers")

    monkeypatch.setattr(verifying, "lags", away)


@pytest.mark.usefixtures("no_kafka")
def test_while_up_is_stopped_a_command_that_needs_it_says_so_and_what_to_do(yaml):
    store = f"sqlite:///{yaml}/headrace.db"
    remember(folder_of(yaml), {"bootstrap.servers": "127.0.0.1:1", "database_url": store})
    told = headrace(yaml, "verify")
    assert told.exit_code == 75
    assert (
        "no Kafka broker answers\n'headrace up' does not run here now: type 'headrace up'"
        in told.output
    )


AT_ANOTHER = """\
from headrace import use_case
from headrace.sinks import SqlTable

@use_case(topic="{tenant}.visits", sink=SqlTable("visits", {"n": "bigint"}, at="shop"))
def score(table, context):
    return table
"""


@pytest.mark.parametrize("kind", [ConnectionDown, SinkUnavailable])
def test_whether_up_is_spoken_of_depends_on_the_kind_of_an_error_and_not_on_its_words(yaml, kind):
    remember(folder_of(yaml), ADDRESSES)
    with (yaml / "headrace.yaml").open("a") as file:
        file.write("connections: {shop: {url: 'postgresql+psycopg://me:wrong@127.0.0.1:1/shop'}}\n")
    with pytest.raises(Temporary) as told, told_of_up(yaml / "headrace.yaml"):
        raise kind("the mails at shop: not now")
    assert ("headrace up" in str(told.value)) == (kind is SinkUnavailable)


def test_a_database_of_somebody_else_that_is_not_reached_is_no_matter_of_up(yaml):
    store = f"sqlite:///{yaml}/headrace.db"
    remember(folder_of(yaml), {"bootstrap.servers": "127.0.0.1:1", "database_url": store})
    with (yaml / "headrace.yaml").open("a") as file:
        file.write("connections: {shop: {url: 'postgresql+psycopg://me:wrong@127.0.0.1:1/shop'}}\n")
    (yaml / "use_cases.py").write_text(AT_ANOTHER)
    told = headrace(yaml, "use-cases", "deploy")
    assert (told.exit_code, "connection shop" in told.output) == (75, True)
    assert "headrace up" not in told.output


@pytest.mark.parametrize(
    "words",
    [
        ("streams", "list"),
        ("use-cases", "deploy"),
        ("gateway",),
        ("console",),
        ("run",),
        ("keys", "create", "--role", "operator"),
        ("store", "version"),
    ],
)
def test_while_up_starts_a_command_says_to_try_again(yaml, words):
    with FolderLock(folder_of(yaml)):
        told = headrace(yaml, *words)
    assert told.exit_code == 75, told.output
    assert told.output.count("'headrace up' runs here since 20") == 1
    assert "and its servers are not all there yet: try again when it names them" in told.output


@pytest.mark.usefixtures("no_kafka")
def test_where_a_server_of_a_running_up_is_away_only_what_is_known_is_said(yaml):
    store = f"sqlite:///{yaml}/headrace.db"
    remember(folder_of(yaml), {"bootstrap.servers": "127.0.0.1:1", "database_url": store})
    os.utime(folder_of(yaml) / "servers.json", (0, 0))
    with FolderLock(folder_of(yaml)):
        lock = folder_of(yaml) / ".headrace.lock"
        os.utime(lock, (1_790_000_000, 1_790_000_000))
        since = f"'headrace up' runs here since {when(1_790_000_000)}, and its servers"
        told = headrace(yaml, "verify").output
        assert f"no Kafka broker answers\n{since} are not all there yet: try again" in told
        os.utime(folder_of(yaml) / "servers.json", (1_790_000_009, 1_790_000_009))
        told = headrace(yaml, "verify").output
        assert f"{since} were there at {when(1_790_000_009)}: see what it says" in told
        assert "starting" not in told


def test_without_an_up_a_command_says_that_no_store_is_named(yaml):
    told = headrace(yaml, "streams", "list")
    assert told.exit_code == 2
    assert "no store is named" in told.output


@pytest.mark.usefixtures("no_kafka")
def test_of_servers_that_the_file_names_nothing_is_said_of_up(yaml):
    with (yaml / "headrace.yaml").open("a") as file:
        file.write("database_url: sqlite:///mine.db\nkafka: {bootstrap.servers: '127.0.0.1:1'}\n")
    remember(folder_of(yaml), ADDRESSES)
    told = headrace(yaml, "verify")
    assert (told.exit_code, "headrace up" in told.output) == (75, False)


def test_a_second_up_in_a_folder_says_that_one_runs(yaml):
    with FolderLock(folder_of(yaml)):
        told = headrace(yaml, "up")
    assert told.exit_code == 1
    assert f"'headrace up' runs here already (process {os.getpid()}" in told.output


class Started:
    """A server as far as `up` tells of it."""

    def __init__(self, folder, _port):
        self.folder, self.port = folder, 7
        self.bootstrap_servers = self.url = "127.0.0.1:7"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


@pytest.mark.parametrize("kind", StoreKind)
@pytest.mark.parametrize("name", ["[/x]", "[red]", "a " * 90])
def test_where_servers_keep_their_data_is_told_as_it_is(tmp_path, monkeypatch, capsys, name, kind):
    for server in ("Kafka", "Smtp", "Postgres"):
        monkeypatch.setattr(up_command, f"Embedded{server}", Started)
    folder = tmp_path / name
    folder.mkdir(parents=True)
    with ExitStack() as stack:
        up_command.with_servers(Settings(module="m.py"), folder, kind, stack, KeptPorts(folder))
    told = capsys.readouterr().err
    kept = "headrace.db" if kind is StoreKind.SQLITE else "postgres"
    for place in ("mail", kept):
        assert f"{folder / place}\n" in told


def test_what_takes_a_while_to_start_is_said_before_it_is_there(tmp_path, monkeypatch, capsys):
    said = {}

    class Slow(Started):
        def __enter__(self):
            said[self.folder.name] = capsys.readouterr().err
            return self

    for server in ("Kafka", "Smtp", "Postgres"):
        monkeypatch.setattr(up_command, f"Embedded{server}", Slow)
    settings, ports = Settings(module="m.py"), KeptPorts(tmp_path)
    with ExitStack() as stack:
        up_command.with_servers(settings, tmp_path, StoreKind.POSTGRES, stack, ports)
    assert said["kafka"] == "starting Kafka ...\n"
    assert said["postgres"].endswith("starting PostgreSQL ...\n")


def test_readers_find_a_registry_that_the_file_names_and_up_says_that_it_is_asked(tmp_path, capsys):
    kafka = {"bootstrap.servers": "127.0.0.1:9092"}
    url = "https://me:hunter2@theirs:8443/, http://127.0.0.1:8081"
    named = settings(kafka=kafka, smtp_url="smtp://mail", registry={"schema.registry.url": url})
    with ExitStack() as stack:
        found = up_command.with_servers(named, tmp_path, None, stack, KeptPorts(tmp_path))
    told = remembered(tmp_path)
    assert told["registry_url"] == "https://theirs:8443,http://127.0.0.1:8081"
    assert found.registry == named.registry
    said = capsys.readouterr().err
    assert "registry  https://theirs:8443, http://127.0.0.1:8081" in said
    assert "hunter2" not in said


class Ended(Exception):
    """`up` came as far as a test looks."""


@pytest.fixture
def up_until_told(monkeypatch):
    """Type `up` in a folder; what is served, as far as it goes before a driver."""

    def typed(folder, *words):
        served = []

        def beside(*_):
            served.append("registry")
            return nullcontext({})

        def told(*_, **__):
            raise Ended

        for server in ("Kafka", "Smtp", "Postgres"):
            monkeypatch.setattr(up_command, f"Embedded{server}", Started)
        monkeypatch.setattr(up_command, "registry_beside", beside)
        monkeypatch.setattr(up_command, "refuse_early", lambda *_: None)
        monkeypatch.setattr(up_command, "_tell_kept", told)
        result = headrace(folder, "up", "--no-console", *words)
        return result, served

    return typed


def test_up_that_served_a_registry_once_serves_none_where_the_file_names_one(yaml, up_until_told):
    folder = folder_of(yaml)
    folder.mkdir(parents=True)
    (folder / "registry-key").write_text("drivers:hr_key\n")
    assert up_until_told(yaml)[1] == ["registry"]
    with (yaml / "headrace.yaml").open("a") as file:
        file.write("registry: {schema.registry.url: 'http://127.0.0.1:8081'}\n")
    result, served = up_until_told(yaml)
    assert isinstance(result.exception, Ended)
    assert served == []
    assert up_until_told(yaml, "--registry")[1] == ["registry"]


def test_where_another_process_has_the_port_of_the_registry_up_says_how_to_do_without(
    yaml, up_until_told
):
    folder = folder_of(yaml)
    port = KeptPorts(folder).take("schema registry")
    (folder / "registry-key").write_text("drivers:hr_key\n")
    with closing(socket.create_server(("127.0.0.1", port))):
        result, served = up_until_told(yaml)
    assert (result.exit_code, served) == (1, [])
    told = " ".join(result.output.split())
    assert "or, if that is 'headrace registry', name it in the YAML file (registry:" in told
    assert "'headrace up --no-registry' starts none" in told
