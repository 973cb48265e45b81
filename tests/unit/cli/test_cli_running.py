"""What `run` and `up` do before there is a driver."""

import signal
from contextlib import contextmanager

import pytest
from typer.testing import CliRunner

from headrace.cli import running
from headrace.cli import up as up_command
from headrace.cli.app import app


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
