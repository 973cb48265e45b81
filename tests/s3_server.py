"""A real S3 server for tests: S3Proxy, which people put before other stores, on files of a folder.

It is fetched from Maven Central with the Ivy of pyspark, 98 MB, and kept in the user's cache.
``scripts/setup-tests`` fetches it beforehand; where it cannot be had its tests are skipped. It
takes a name that is free by a link of the file system, so of two writers one alone has it, as with
Amazon's; whether a file is still the one that was looked at it asks a moment before.
"""

import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid
from pathlib import Path

import pytest

from fetched_once import fetched_once, retrieved
from headrace.embedded.addresses import free_ports
from headrace.embedded.java import find_java
from headrace.errors import ServerError
from headrace.ports import Server

VERSION = "4.0.0"
SHA256 = "8842c29ef4cf50c2488cff1da23df3428526c10905998384586e916cc98a2c67"
MODULE = f"""<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
<info organisation="headrace" module="s3"/><dependencies>
<dependency org="org.gaul" name="s3proxy" rev="{VERSION}" transitive="false" conf="default">
<artifact name="s3proxy" type="jar" ext="jar" m:classifier="jar-with-dependencies"/></dependency>
</dependencies></ivy-module>"""
KEY, SECRET = "AKIAHEADRACE", "not a secret"


def fetched() -> Path:
    """The folder of its jar; fetched now if it is not there."""
    return fetched_once("s3proxy", VERSION, SHA256, _jar_in, lambda jar, _folder: jar.parent)


def _jar_in(folder: Path) -> Path:
    return retrieved(MODULE, folder, "*.jar")


def needed() -> Path:
    """The same; the test is passed over where it cannot be had."""
    try:
        return fetched()
    except (ServerError, subprocess.CalledProcessError, OSError) as error:
        pytest.skip(f"S3Proxy could not be fetched: {error}")


class S3Server:
    """A server on a port that stays the same, empty at first; a context manager."""

    def __init__(self, folder: Path) -> None:
        (self.port,) = free_ports(1)
        self.endpoint = f"http://127.0.0.1:{self.port}"
        self._folder, self._root = folder, folder / "buckets"
        self._process: subprocess.Popen[bytes] | None = None
        self._root.mkdir(parents=True)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()

    def start(self, secret: str = SECRET) -> None:
        """Start it and wait until it answers; with another secret it lets no test in."""
        (self._folder / "s3.properties").write_text(
            f"s3proxy.endpoint={self.endpoint}\n"
            "s3proxy.authorization=aws-v2-or-v4\n"
            f"s3proxy.identity={KEY}\ns3proxy.credential={secret}\n"
            "jclouds.provider=filesystem-nio2\njclouds.identity=local\njclouds.credential=local\n"
            f"jclouds.filesystem.basedir={self._root}\n"
        )
        command = [str(find_java()), "-Xmx160m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
        command += ["-jar", str(fetched() / "s3proxy.jar")]
        command += ["--properties", str(self._folder / "s3.properties")]
        with (self._folder / "s3.log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        give_up_s = time.monotonic() + 60
        while not self._answers():
            assert self._process.poll() is None, "the S3 server has ended; see its log"
            assert time.monotonic() < give_up_s, "the S3 server does not answer"
            time.sleep(0.1)

    def stop(self) -> None:
        """Kill it; what it has told stays."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _answers(self) -> bool:
        try:
            urllib.request.urlopen(self.endpoint, timeout=2).close()
        except urllib.error.HTTPError:
            return True  # it lets nobody in without a key
        except OSError:
            return False
        return True

    def make_bucket(self) -> str:
        """The name of a bucket that nobody else uses."""
        name = f"bucket-{uuid.uuid4().hex[:12]}"
        (self._root / name).mkdir()
        return name

    def folder_of(self, bucket: str) -> Path:
        """Where the files of a bucket are, each by its whole name."""
        return self._root / bucket

    def at(self, bucket: str, port: int | None = None, **said: str) -> Server:
        """The connection to a bucket, if wanted by another port than the server's own."""
        endpoint = f"http://127.0.0.1:{port or self.port}"
        return Server(
            f"s3://{bucket}/lake?region=us-east-1&endpoint={endpoint}",
            said.get("user", KEY),
            said.get("password", SECRET),
        )


if __name__ == "__main__":
    try:
        fetched()
    except (ServerError, subprocess.CalledProcessError, OSError) as error:
        sys.exit(f"S3Proxy could not be fetched: {error}")
