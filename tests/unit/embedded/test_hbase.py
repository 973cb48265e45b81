"""What becomes of an embedded HBase of which one of two processes ends; a script stands in."""

import os
import signal
import time

import psutil
import pytest

from headrace.embedded import EmbeddedHBase
from headrace.embedded import hbase as module
from headrace.errors import ServerError


@pytest.fixture
def java_says(tmp_path, monkeypatch):
    """Puts a shell script in the place of Java: what HBase does, and what its Thrift server."""

    def make(master, thrift):
        script = tmp_path / "java"
        script.write_text(
            f'#!/bin/sh\ncase "$*" in *ThriftServer*) {thrift};; *) {master};; esac\n'
        )
        script.chmod(0o755)
        monkeypatch.setattr(module, "find_java", lambda: script)
        monkeypatch.setattr(module, "jars", lambda _: [])
        node = EmbeddedHBase(tmp_path / "hbase")
        made.append(node)
        return node

    made = []
    yield make
    for node in made:
        node.stop()


@pytest.mark.parametrize(
    ("master", "thrift"),
    [("echo no room; exit 1", "exec sleep 60"), ("exec sleep 60", "echo no room; exit 1")],
)
def test_of_either_that_ends_while_starting_the_end_of_its_log_is_told(java_says, master, thrift):
    node = java_says(master, thrift)
    with pytest.raises(ServerError, match=r"HBase ended while starting(?s:.*)no room"):
        node.start()
    assert not node.running


def test_a_port_of_the_thrift_server_that_was_taken_meanwhile_is_tried_again(java_says, tmp_path):
    tries = tmp_path / "tries"
    node = java_says(
        "exec sleep 60", f"echo x >> {tries}; echo BindException: Address already in use; exit 1"
    )
    with pytest.raises(ServerError, match="Address already in use"):
        node.start()
    assert len(tries.read_text().split()) == 3


@pytest.mark.parametrize("which", ["pid", "thrift_pid"])
def test_where_one_of_the_two_ends_it_does_not_run_and_a_start_ends_the_other(
    java_says, monkeypatch, which
):
    node = java_says("exec sleep 60", "exec sleep 60")
    monkeypatch.setattr(EmbeddedHBase, "_ready", lambda _: True)
    node.start()
    old = {node.pid, node.thrift_pid}
    os.kill(getattr(node, which), signal.SIGKILL)
    give_up_s = time.monotonic() + 10
    while node.running:
        assert time.monotonic() < give_up_s
        time.sleep(0.01)
    node.start()
    assert node.running
    assert not any(psutil.pid_exists(pid) for pid in old)


def test_its_address_says_how_its_thrift_server_is_spoken_to(tmp_path):
    told = {"hbase.regionserver.thrift.framed": "true", "hbase.regionserver.thrift.compact": "true"}
    usual, other = EmbeddedHBase(tmp_path, 7000), EmbeddedHBase(tmp_path, 7000, settings=told)
    assert usual.url == "hbase://127.0.0.1:7000"
    assert other.url == "hbase://127.0.0.1:7000?transport=framed&protocol=compact"
