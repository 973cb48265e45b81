"""What `run` and `up` do before there is a driver."""

import signal
from contextlib import contextmanager

import pytest
from typer.testing import CliRunner

from headrace.cli import running, use_cases
from headrace.cli import up as up_command
from headrace.cli.app import app
from headrace.errors import ConfigError


@pytest.fixture
def until_then_it_is_ours():
    """Without a handler of the command, the signal is not the end of the tests."""
    before = signal.signal(signal.SIGTERM, lambda *_: None)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.usefixtures("until_then_it_is_ours")
@pytest.mark.parametrize("command", [("run",), ("up", "--no-console")])
def test_a_signal_while_spark_comes_up_closes_what_there_is(command, tmp_path, monkeypatch):
    closed = []

    @contextmanager
    def assembled(*_, **__):
        try:
            signal.raise_signal(signal.SIGTERM)
            raise AssertionError("it came up")
            yield
        finally:
            closed.append("the store")

    monkeypatch.setattr(running, "assembled", assembled)
    monkeypatch.setattr(up_command, "assembled", assembled)
    monkeypatch.setattr(up_command, "with_servers", lambda settings, *_: settings)
    (tmp_path / "use_cases.py").write_text("")
    config = tmp_path / "headrace.yaml"
    config.write_text(
        "module: use_cases.py\n"
        "kafka:\n  bootstrap.servers: 127.0.0.1:1\n"
        f"database_url: sqlite:///{tmp_path}/store.db\n"
    )
    monkeypatch.setattr(up_command, "refuse_early", lambda *_: None)
    done = CliRunner().invoke(app, [*command, "-c", str(config)])
    assert (done.exit_code, closed) == (0, ["the store"]), done.output


@pytest.mark.usefixtures("until_then_it_is_ours")
@pytest.mark.parametrize("versions", ["", "versions: kept\n", "versions: {}/kept\n"])
@pytest.mark.parametrize(
    "command", [("run",), ("up", "--no-console"), ("use-cases", "deploy")], ids=" ".join
)
def test_copies_that_go_with_a_release_are_warned_of(command, versions, tmp_path, monkeypatch):
    def refused(*_, **__):
        raise ConfigError("far enough")

    monkeypatch.setattr(running, "assembled", refused)
    monkeypatch.setattr(up_command, "refuse_early", refused)
    monkeypatch.setattr(use_cases, "check", refused)
    (tmp_path / "release-1").mkdir()
    (tmp_path / "current").symlink_to("release-1")
    config = tmp_path / "current" / "headrace.yaml"
    config.write_text(
        "module: use_cases.py\n"
        "kafka:\n  bootstrap.servers: 127.0.0.1:1\n"
        f"database_url: sqlite:///{tmp_path}/store.db\n" + versions.format(tmp_path)
    )
    done = CliRunner().invoke(app, [*command, "-c", str(config)])
    assert "far enough" in done.output
    told = f"write 'versions: {tmp_path}/.headrace/versions' in {config}"
    assert (told in done.output) == ("{}" not in versions)
