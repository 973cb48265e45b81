"""A Kinesis for tests: kinesis-mock on Node, which splits, merges and ends as Amazon's does.

It is fetched with npm, 16 MB, compared with its checksum, and kept in the user's cache; it needs no
other package. ``scripts/setup-tests`` fetches it beforehand. Where Node is missing, or it cannot be
had, its tests are skipped.
"""

import itertools
import os
import shutil
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from urllib.parse import quote

import boto3
import pytest
from botocore.config import Config

from fetched_once import fetched_once
from headrace.embedded.addresses import free_ports
from headrace.ports import Server
from headrace.testing.kinesis.contract import Service

VERSION = "0.6.2"
SHA256 = "7f450e244b3c609b640b22ab005c9fdeaeb6e49d72403a3b6ebd9c3270b32cb5"
#: longest that a stream takes to be made or divided
SETTLES = "20ms"
_UP_S = 60.0
NO_NODE = "kinesis-mock needs Node: install nodejs 20 or later, and npm"


def fetched() -> Path:
    """The folder of its program; fetched now if it is not there."""
    return fetched_once("kinesis-local", VERSION, SHA256, _archive_in, _unpacked)


def _archive_in(folder: Path) -> Path:
    command = ["npm", "pack", f"kinesis-local@{VERSION}", "--silent", "--ignore-scripts"]
    subprocess.run(command, check=True, cwd=folder, stdout=subprocess.DEVNULL, timeout=300)
    (found,) = folder.glob("*.tgz")
    return found


def _unpacked(archive: Path, folder: Path) -> Path:
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    return folder / "package"


def has_node() -> bool:
    """Whether it can be fetched and run here."""
    return shutil.which("node") is not None and shutil.which("npm") is not None


def needed() -> Path:
    """The same; the test is passed over where it cannot be had."""
    if not has_node():
        pytest.skip(NO_NODE)
    try:
        return fetched()
    except (subprocess.SubprocessError, OSError) as error:
        pytest.skip(f"kinesis-mock could not be fetched with npm: {error}")


class KinesisServer:
    """A server on free ports, empty at first; a context manager."""

    def __init__(self, folder: Path) -> None:
        self.port, self._tls_port = free_ports(2)
        self.endpoint = f"http://127.0.0.1:{self.port}"
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self._numbers = itertools.count()
        self.client = boto3.client(
            "kinesis",
            region_name="eu-central-1",
            endpoint_url=self.endpoint,
            aws_access_key_id="000000000000",
            aws_secret_access_key="not a secret",
            config=Config(retries={"total_max_attempts": 1, "mode": "standard"}),
        )

    def __enter__(self):
        settings = {
            "KINESIS_MOCK_PLAIN_PORT": str(self.port),
            "KINESIS_MOCK_TLS_PORT": str(self._tls_port),
            "KINESIS_MOCK_CERT_PATH": str(fetched() / "server.json"),
            "AWS_REGION": "eu-central-1",
            "SHARD_LIMIT": "10000",
            "LOG_LEVEL": "ERROR",
        }
        for what in ("CREATE_STREAM", "DELETE_STREAM", "SPLIT_SHARD"):
            settings[f"{what}_DURATION"] = SETTLES
        settings["MERGE_SHARDS_DURATION"] = SETTLES
        with (self._folder / "kinesis.log").open("wb") as told:
            self._process = subprocess.Popen(
                [shutil.which("node"), str(fetched() / "main.js")],
                cwd=self._folder,
                env={**os.environ, **settings},
                stdin=subprocess.DEVNULL,
                stdout=told,
                stderr=subprocess.STDOUT,
            )
        self._wait()
        return self

    def __exit__(self, *_):
        self.client.close()
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    @property
    def server(self) -> Server:
        """What a connection to it says."""
        url = f"kinesis://eu-central-1?endpoint={quote(self.endpoint, safe='')}"
        return Server(url, "000000000000", "not a secret")

    def service(self) -> Service:
        """How suites speak to it, in real time; streams have names of their own."""
        made = Service(self.client, time.sleep)
        made._numbers = self._numbers
        return made

    def _wait(self) -> None:
        ends_s = time.monotonic() + _UP_S
        while True:
            try:
                self.client.list_streams()
            except Exception as error:
                log = self._folder / "kinesis.log"
                if self._process.poll() is not None or time.monotonic() > ends_s:
                    raise AssertionError(f"it does not start: {log.read_text()}") from error
                time.sleep(0.1)
            else:
                return


if __name__ == "__main__":
    if not has_node():
        sys.exit(NO_NODE)
    try:
        fetched()
    except (OSError, subprocess.SubprocessError) as error:
        sys.exit(f"kinesis-mock could not be fetched with npm: {error}")
