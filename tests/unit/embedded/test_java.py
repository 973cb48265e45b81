"""What counts as a Java that can be used."""

import pytest

from headrace.embedded.java import find_java
from headrace.errors import ServerError


@pytest.fixture
def java_home(tmp_path, monkeypatch):
    """Makes a java that says what it is told to say, and points JAVA_HOME to it."""

    def make(said, code=0):
        java = tmp_path / "bin" / "java"
        java.parent.mkdir()
        java.write_text(f"#!/bin/sh\necho '{said}' >&2\nexit {code}\n")
        java.chmod(0o755)
        monkeypatch.setenv("JAVA_HOME", str(tmp_path))
        return java

    return make


@pytest.mark.parametrize("version", ["17.0.15", "17", "25-ea", "21.0.8"])
def test_java_17_and_later_is_taken_from_java_home(java_home, version):
    java = java_home(f'openjdk version "{version}" 2025-04-15')
    assert find_java() == java


@pytest.mark.parametrize(("version", "name"), [("1.8.0_432", "Java 8"), ("11.0.25", "Java 11")])
def test_an_older_java_is_refused_with_the_install_line(java_home, version, name):
    java_home(f'openjdk version "{version}"')
    with pytest.raises(ServerError, match=f"{name},.*apt-get install -y openjdk-17-jre-headless"):
        find_java()


def test_a_java_home_without_java_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(ServerError, match=f"JAVA_HOME is {tmp_path}"):
        find_java()


def test_no_java_at_all_shows_the_install_line(tmp_path, monkeypatch):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ServerError, match="apt-get install -y openjdk-17-jre-headless"):
        find_java()


def test_a_java_that_does_not_say_its_version_is_refused(java_home):
    java_home("Unable to locate a Java Runtime", code=1)
    with pytest.raises(ServerError, match="Unable to locate a Java Runtime"):
        find_java()
