"""What plays Kinesis is fetched with npm, and is what was published, or says why not."""

import subprocess

import pytest

from headrace.embedded import EmbeddedKinesis, kinesis_program
from headrace.errors import ServerError


@pytest.fixture
def npm(monkeypatch, tmp_path):
    """Fetches this archive, or fails with these words."""
    given = {}

    def run(_command, cwd, **_how):
        if "archive" in given:
            (cwd / "kinesis-local.tgz").write_bytes(given["archive"])
        return subprocess.CompletedProcess([], int("words" in given), "", given.get("words", ""))

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(kinesis_program.shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(kinesis_program.subprocess, "run", run)
    return given


def test_without_node_it_is_told_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr(kinesis_program.shutil, "which", lambda _name: None)
    with pytest.raises(ServerError, match="install nodejs 20 or later, and npm"):
        EmbeddedKinesis(tmp_path).start()


def test_another_program_than_was_published_is_refused_and_not_kept(npm, tmp_path):
    npm["archive"] = b"something else"
    with pytest.raises(ServerError, match=r"for kinesis-local@0\.6\.2 is not what was published"):
        kinesis_program.kinesis_program()
    assert not list((tmp_path / "headrace" / "jars").glob("kinesis-local-*"))


def test_what_npm_says_is_told_where_it_brings_nothing(npm):
    npm["words"] = "npm error network"
    with pytest.raises(ServerError, match=r"npm cannot fetch kinesis-local@0\.6\.2: npm error net"):
        kinesis_program.kinesis_program()
