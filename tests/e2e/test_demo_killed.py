"""The demo as a user sees it, killed in the middle and started again by the same command."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

import kinesis_server

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.servers]


def start(folder: Path, log: Path, *words: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "headrace", "demo", "--folder", str(folder), "--rate", "600"]
    command += words
    environment = {**os.environ, "COLUMNS": "200"}
    with log.open("wb") as output:
        return subprocess.Popen(
            command,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        )


def wait_for(log: Path, text: str, process: subprocess.Popen[bytes], timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    while text not in log.read_text():
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, f"no {text!r} in\n{log.read_text()}"
        time.sleep(0.1)


def post_as_it_says(log: Path) -> None:
    """What a person does: copies the line and presses return."""
    (line,) = (line for line in log.read_text().splitlines() if line.startswith("or type  "))
    done = subprocess.run(
        line.removeprefix("or type  "), shell=True, capture_output=True, text=True, check=True
    )
    assert '"topic":"guest.visits"' in done.stdout, done.stdout + done.stderr


def of_folder(folder: Path) -> list[psutil.Process]:
    """Processes that still work in the demo's folder."""
    return [
        process
        for process in psutil.process_iter(["cmdline"])
        if any(str(folder) in word for word in process.info["cmdline"] or [])
    ]


def test_killed_in_the_middle_the_same_command_ends_with_the_same_verified_report(tmp_path):
    folder, first_log, second_log = tmp_path / "demo", tmp_path / "first", tmp_path / "second"
    first = start(folder, first_log)
    wait_for(first_log, "suspend blog", first, 120)
    os.kill(first.pid, signal.SIGKILL)
    first.wait(60)
    deadline = time.monotonic() + 60
    while of_folder(folder):
        assert time.monotonic() < deadline, of_folder(folder)
        time.sleep(0.1)

    second = start(folder, second_log)
    wait_for(second_log, "or type  ", second, 120)
    post_as_it_says(second_log)
    wait_for(second_log, "your visit is scored, kept and mailed: me has 10 points", second, 60)
    assert second.wait(240) == 0, second_log.read_text()
    told = second_log.read_text()
    assert "going on with a demo" in told
    assert "nothing lost, nothing twice" in told
    assert "visits in Delta, to the record" in told
    assert "DIFFERENT" not in told
    assert of_folder(folder) == []


def test_ctrl_c_drains_and_says_how_to_go_on(tmp_path):
    folder, log = tmp_path / "demo", tmp_path / "log"
    process = start(folder, log)
    wait_for(log, "add articles", process, 120)
    os.kill(process.pid, signal.SIGINT)
    assert process.wait(60) == 0, log.read_text()
    assert "the same command goes on" in log.read_text()
    assert of_folder(folder) == []


def test_through_kinesis_it_starts_afresh_and_ends_verified_over_splits_and_merges(tmp_path):
    kinesis_server.needed()
    folder, first_log, second_log = tmp_path / "demo", tmp_path / "first", tmp_path / "second"
    words = ("--log", "kinesis", "--acts", "1")
    first = start(folder, first_log, *words)
    wait_for(first_log, "add articles", first, 120)
    os.kill(first.pid, signal.SIGINT)
    assert first.wait(60) == 0, first_log.read_text()
    assert "the same command starts afresh" in first_log.read_text()

    second = start(folder, second_log, *words)
    assert second.wait(400) == 0, second_log.read_text()
    told = second_log.read_text()
    assert "a shard of each stream is split" in told
    assert "two shards of each stream are merged" in told
    report = {" ".join(line.split()) for line in told.splitlines()}
    assert "visits in Kinesis, by lane 10000 10000 ok" in report
    assert "shards split and merged 7 and 7 7 and 7 ok" in report
    assert "visits in Delta, to the record" in told
    assert "nothing lost, nothing twice" in told
    assert "DIFFERENT" not in told
    assert "or type" not in told
    assert of_folder(folder) == []
