"""A real schema registry for tests: Apicurio, which speaks as Confluent's does and runs on Java 17.

It is fetched from Maven Central with the Ivy of pyspark, 109 MB, and kept in the user's cache.
``scripts/setup-tests`` fetches it beforehand; where it cannot be had its tests are skipped.
"""

import json
import os
import signal
import subprocess
import sys
import tarfile
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path

from fetched_once import fetched_once, retrieved
from headrace.embedded.addresses import free_ports
from headrace.embedded.java import find_java

VERSION = "3.0.9"
SHA256 = "2b28181501a20cbf6efcd77f9b7153908fc01f3d3a7c32024c0bd9e1b04c8a43"
MODULE = f"""<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
<info organisation="headrace" module="registry"/><dependencies>
<dependency org="io.apicurio" name="apicurio-registry-app" rev="{VERSION}" transitive="false"
 conf="default"><artifact name="apicurio-registry-app" type="tar.gz" ext="tar.gz"
 m:classifier="all"/></dependency></dependencies></ivy-module>"""


def fetched() -> Path:
    """The folder of its jars; fetched now if it is not there."""
    return fetched_once("registry", VERSION, SHA256, _archive_in, _unpacked)


def _archive_in(folder: Path) -> Path:
    return retrieved(MODULE, folder, "*.tar.gz")


def _unpacked(archive: Path, folder: Path) -> Path:
    with tarfile.open(archive) as packed:
        packed.extractall(folder / "jars", filter="data")
    return folder / "jars"


class RegistryServer:
    """A registry on a port of its own, empty at its start."""

    def __init__(self, folder: Path) -> None:
        (self.port,) = free_ports(1)
        self.url = f"http://127.0.0.1:{self.port}/apis/ccompat/v7"
        self._log = (folder / "registry.log").open("wb")
        self._process = subprocess.Popen(
            [str(find_java()), "-Xmx400m", "-jar", f"apicurio-registry-app-{VERSION}-runner.jar"],
            cwd=fetched(),
            env={
                **os.environ,
                "QUARKUS_HTTP_PORT": str(self.port),
                "QUARKUS_HTTP_HOST": "127.0.0.1",
            },
            stdout=self._log,
            stderr=subprocess.STDOUT,
        )

    def __enter__(self):
        """Wait until it answers."""
        give_up_s = time.monotonic() + 120
        while True:
            try:
                urllib.request.urlopen(f"{self.url}/subjects", timeout=2).close()
            except (urllib.error.URLError, OSError):
                assert self._process.poll() is None, "the registry has ended; see its log"
                assert time.monotonic() < give_up_s, "the registry does not answer"
                time.sleep(0.1)
            else:
                return self

    @contextmanager
    def hanging(self):
        """Within it connections are taken and nothing is said."""
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def put(self, subject: str, text: str, kind: str = "AVRO", references=()) -> int:
        """Register a schema, as any client may; its id."""
        body = {"schema": text, "schemaType": kind, "references": list(references)}
        asked = urllib.request.Request(
            f"{self.url}/subjects/{subject}/versions",
            json.dumps(body).encode(),
            {"Content-Type": "application/vnd.schemaregistry.v1+json"},
        )
        with urllib.request.urlopen(asked, timeout=30) as answer:
            return json.load(answer)["id"]

    def __exit__(self, *_):
        self._process.kill()
        self._process.wait()
        self._log.close()


if __name__ == "__main__":
    try:
        fetched()
    except (subprocess.CalledProcessError, OSError) as error:
        sys.exit(f"the registry could not be fetched: {error}")
