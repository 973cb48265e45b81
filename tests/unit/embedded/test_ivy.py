"""What Ivy is asked, and what is made of its answer."""

import pytest

from headrace.embedded import ivy as module
from headrace.embedded.ivy import Coordinates, retrieve
from headrace.errors import ServerError

JAR = Coordinates("org.x", "a", "1")


@pytest.fixture
def java(tmp_path, monkeypatch):
    """Makes Ivy a shell script."""

    def make(script):
        path = tmp_path / "java"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        monkeypatch.setattr(module, "find_java", lambda: path)

    return make


def test_each_jar_found_is_told(java, tmp_path):
    java("echo ':: resolving ::'; echo '\tfound org.x#a;1 in central'")
    told = []
    retrieve([JAR], tmp_path, told.append)
    assert told == ["org.x#a;1"]


def test_a_failure_shows_the_last_words_of_ivy(java, tmp_path):
    java("echo 'UNRESOLVED DEPENDENCIES'; exit 1")
    with pytest.raises(ServerError, match=r"HEADRACE_IVY_SETTINGS(?s:.)*UNRESOLVED DEPENDENCIES"):
        retrieve([JAR], tmp_path, lambda _: None)


@pytest.mark.parametrize("transitive", [True, False])
def test_dependencies_are_followed_only_when_asked(java, tmp_path, transitive):
    java(
        "while [ $# -gt 0 ]; do"
        f" case $1 in -ivy|-settings) cat $2 >> {tmp_path}/asked;; esac; shift; done"
    )
    retrieve([JAR], tmp_path, lambda _: None, transitive)
    asked = (tmp_path / "asked").read_text()
    assert f'name="a" rev="1" conf="default" transitive="{str(transitive).lower()}"' in asked
    assert ('usepoms="false"' in asked) is not transitive


def test_a_mirror_can_be_named(java, tmp_path, monkeypatch):
    monkeypatch.setenv("HEADRACE_IVY_SETTINGS", "/etc/mirror.xml")
    java(f'echo "$*" > {tmp_path}/asked')
    retrieve([JAR], tmp_path, lambda _: None)
    assert "-settings /etc/mirror.xml" in (tmp_path / "asked").read_text()


def test_pyspark_brings_ivy():
    assert module._ivy_jar().is_file()
