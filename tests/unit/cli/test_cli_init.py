"""`init` makes a folder that runs as it is, and overwrites nothing."""

import subprocess
import sys

import pytest
from typer.testing import CliRunner

from headrace.cli.app import app
from headrace.cli.init import FILES, text_of
from headrace.cli.servers import folder_of, remember
from headrace.deploying.offer import load
from headrace.settings import read_settings


def init(*words):
    return CliRunner().invoke(app, ["init", *map(str, words)])


def test_what_init_makes_passes_its_test_and_can_be_deployed(tmp_path):
    made = init(tmp_path / "visits")
    assert made.exit_code == 0, made.output
    assert sorted(path.name for path in (tmp_path / "visits").iterdir()) == sorted(FILES)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    ran = subprocess.run(
        command, cwd=tmp_path / "visits", capture_output=True, text=True, check=False
    )
    assert "2 passed" in ran.stdout, ran.stdout
    settings = read_settings(tmp_path / "visits" / "headrace.yaml")
    assert set(load(settings, tmp_path / "visits").use_cases) == {"pages"}


def test_what_to_type_next_is_told_in_order(tmp_path):
    told = init(tmp_path / "my visits").output
    commands = [line[2:36].strip() for line in told.splitlines()[2:]]
    assert f"cd '{tmp_path}/my visits'" in told
    assert commands[0] == "python -m pytest"
    assert commands[1] == "headrace up"
    for command in commands:
        if command.startswith("headrace "):
            typed = CliRunner().invoke(app, [*command.split()[1:], "--help"])
            assert typed.exit_code == 0, command


def test_here_is_where_it_is_made_if_nothing_is_said(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert init().exit_code == 0
    assert (tmp_path / "use_cases.py").is_file()


@pytest.mark.parametrize("name", FILES)
def test_nothing_is_overwritten_and_nothing_half_made(tmp_path, name):
    (tmp_path / name).write_text("mine")
    refused = init(tmp_path)
    assert refused.exit_code == 2
    assert f"{name} is in {tmp_path} already" in " ".join(refused.output.split())
    assert [path.read_text() for path in tmp_path.iterdir()] == ["mine"]


def test_another_folder_is_advised_that_is_not_there(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for advised in ("visits-2", "visits-3"):
        init("visits")
        assert f"as in 'headrace init {advised}'" in " ".join(init("visits").output.split())
        init(advised)


def test_a_place_that_cannot_be_written_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    refused = init(tmp_path / "file" / "folder")
    assert (refused.exit_code, "cannot be written" in refused.output) == (2, True)


def test_the_sender_says_within_seconds_that_no_kafka_answers(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["send.py"])
    monkeypatch.chdir(tmp_path)
    (tmp_path / "visits.jsonl").write_text(text_of("visits.jsonl"))
    remember(folder_of(tmp_path), {"bootstrap.servers": "127.0.0.1:1"})
    program = text_of("send.py")
    assert '"message.timeout.ms": 10000' in program
    quick = program.replace("10000", "1000")
    with pytest.raises(SystemExit, match=r"no Kafka answers at 127.0.0.1:1; does 'headrace up'"):
        exec(quick, {})
