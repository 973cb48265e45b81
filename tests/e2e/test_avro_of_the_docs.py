"""The page that shows Avro from end to end, typed as it stands there."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest
from service import own_console_port

from headrace.cli.kept_ports import KeptPorts
from headrace.embedded.addresses import free_ports

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow]

PAGE = Path(__file__).parents[2] / "docs" / "avro.md"
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
#: of the page, and what stands for it here
GATEWAY_PORT = "8601"
STAY = ("headrace up", "headrace gateway")


class Folder:
    """A folder, and the terminals in it."""

    def __init__(self, path):
        self.path, self.terminals = path, []
        # What is typed as `headrace` and `python` is what is tested.
        names = path / "bin"
        names.mkdir()
        for name, words in (("headrace", "-m headrace"), ("python", "")):
            (names / name).write_text(f'#!/bin/sh\nexec {sys.executable} {words} "$@"\n')
            (names / name).chmod(0o755)
        self.env = {**os.environ, "PATH": f"{names}{os.pathsep}{os.environ['PATH']}"}

    def begin(self, line):
        """A command that stays."""
        with (self.path / "log").open("ab") as out:
            started = subprocess.Popen(
                ["sh", "-c", f"exec {line}"], cwd=self.path, env=self.env, stdout=out, stderr=out
            )
        self.terminals.append(started)

    def typed(self, text):
        give_up_s = time.monotonic() + 90
        while True:
            done = subprocess.run(
                ["sh", "-ec", text],
                cwd=self.path,
                env=self.env,
                capture_output=True,
                text=True,
                timeout=180,
                check=False,
            )
            # What is typed while `up` still starts is told to be typed once more.
            if "say this again" not in done.stderr or time.monotonic() > give_up_s:
                break
        assert done.returncode == 0, f"{text}\n{done.stdout}{done.stderr}\n{self.log()}"
        return done.stdout

    def log(self):
        return (self.path / "log").read_text()[-5000:]

    def until(self, holds):
        give_up_s = time.monotonic() + 90
        while not holds():
            assert all(one.poll() is None for one in self.terminals), self.log()
            assert time.monotonic() < give_up_s, self.log()
            time.sleep(0.2)

    def has_registry(self):
        file = self.path / ".headrace" / "up" / "servers.json"
        return file.exists() and "registry_url" in json.loads(file.read_text())

    def end(self):
        for one in reversed(self.terminals):
            one.send_signal(signal.SIGTERM)
            assert one.wait(60) == 0, self.log()


@pytest.fixture
def folder(tmp_path):
    own_console_port(tmp_path)
    KeptPorts(tmp_path / ".headrace" / "up").take("schema registry")
    made = Folder(tmp_path)
    yield made
    for one in made.terminals:
        if one.poll() is None:
            one.kill()
            one.wait(60)


def answers(url):
    try:
        return "schemas" not in httpx.get(f"{url}/readyz", timeout=60).json()
    except httpx.TransportError:
        return False


def test_what_the_page_says_is_what_comes_out(folder):
    (port,) = map(str, free_ports(1))
    url, said = f"http://127.0.0.1:{port}", []
    for kind, block in FENCE.findall(PAGE.read_text()):
        text = block.replace(GATEWAY_PORT, port)
        if kind == "json":
            (folder.path / "visit.avsc").write_text(text)
        elif kind in ("yaml", "python"):
            name = re.match(r"# (\S+)\n", text)[1]
            (folder.path / name).write_text(text)
        elif not text.startswith("pip "):
            said.append(said_by(folder, text, port, url))
    _, registered, _, sent, came, listed = said
    assert "version 1, id 1" in registered
    first, second = map(json.loads, sent.replace("}{", "}\n{").splitlines())
    assert first["topic"] == "acme.visits"
    assert (second["status"], second["pointer"]) == (422, "/ms")
    (shown,) = re.findall(r"^It shows `(.*?)`", PAGE.read_text(), re.MULTILINE)
    assert came.strip() == shown
    names = re.findall(r"^ *(\S+)  +1 ", listed, re.MULTILINE)
    assert names == ["acme.scores-value", "visits-value"]
    (stream,) = json.loads(listed[listed.index("\n[") :])
    (schema,) = stream["schemas"]
    assert (schema["subject"], schema["version"]) == ("visits-value", 1)
    folder.end()


def said_by(folder, text, port, url):
    if text.startswith("headrace up"):
        folder.begin(f"{text.strip()} -c headrace.yaml")
        folder.until(folder.has_registry)
        return ""
    if text.startswith("headrace gateway"):
        folder.begin(f"{text.strip()} --port {port}")
        folder.until(lambda: answers(url))
        return ""
    return folder.typed(text)
