"""The service's secret: where it comes from, and who can read it."""

import stat

import pytest

from headrace.doors.secret import made_secret_file, secret_of
from headrace.errors import ConfigError
from headrace.settings import read_settings


@pytest.fixture
def settings(tmp_path):
    def settings(more=""):
        path = tmp_path / "headrace.yaml"
        path.write_text(f"module: use_cases.py\n{more}")
        return read_settings(path)

    return settings


def test_the_file_counts_more_than_the_environment(settings, tmp_path):
    (tmp_path / "secret").write_text("f" * 32 + "\n")
    named = settings("doors: {secret_file: secret}\n")
    assert secret_of(named, {"HEADRACE_SECRET": "e" * 32}) == b"f" * 32
    assert secret_of(settings(), {"HEADRACE_SECRET": "e" * 32}) == b"e" * 32


def test_without_a_secret_or_with_a_short_one_nothing_opens(settings):
    with pytest.raises(ConfigError, match="openssl rand"):
        secret_of(settings(), {})
    with pytest.raises(ConfigError, match="less than 32") as caught:
        secret_of(settings(), {"HEADRACE_SECRET": "e" * 31})
    assert "eee" not in str(caught.value)


def test_a_secret_is_made_once_and_for_its_owner(tmp_path):
    path = made_secret_file(tmp_path / "new" / "secret")
    text = path.read_text()
    assert len(text.strip()) >= 32
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert made_secret_file(path).read_text() == text
    assert [file.name for file in path.parent.iterdir()] == ["secret"]


def test_a_place_that_cannot_be_written_is_told(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="cannot be kept"):
        made_secret_file(tmp_path / "file" / "secret")
