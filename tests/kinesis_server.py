"""A Kinesis for tests: kinesis-mock on Node, which splits, merges and ends as Amazon's does.

``scripts/setup-tests`` fetches it beforehand. Where Node is missing, or it cannot be had, its tests
are skipped.
"""

import itertools
import sys
import time
from pathlib import Path

import boto3
import pytest
from botocore.config import Config

from headrace.embedded import EmbeddedKinesis
from headrace.embedded.kinesis_program import kinesis_program
from headrace.errors import ServerError
from headrace.ports import Server
from headrace.testing.kinesis.contract import Service


def needed() -> Path:
    """Where its program is; the test is passed over where it cannot be had."""
    try:
        return kinesis_program()
    except ServerError as error:
        pytest.skip(str(error))


class KinesisServer:
    """A server on free ports, empty at first; a context manager.

    A durable one comes back with what it has, on its port.
    """

    def __init__(self, folder: Path, port: int | None = None, *, durable: bool = False) -> None:
        self.embedded = EmbeddedKinesis(folder, port, durable=durable)
        self._numbers = itertools.count()

    def __enter__(self):
        self.embedded.start()
        self.client = boto3.client(
            "kinesis",
            region_name="eu-central-1",
            endpoint_url=self.embedded.endpoint,
            aws_access_key_id="000000000000",
            aws_secret_access_key="not a secret",
            config=Config(retries={"total_max_attempts": 1, "mode": "standard"}),
        )
        return self

    def __exit__(self, *_):
        self.client.close()
        self.embedded.stop()

    @property
    def server(self) -> Server:
        """What a connection to it says."""
        return Server(self.embedded.url, "000000000000", "not a secret")

    def service(self) -> Service:
        """How suites speak to it, in real time; streams have names of their own."""
        made = Service(self.client, time.sleep)
        made._numbers = self._numbers
        return made


if __name__ == "__main__":
    try:
        kinesis_program()
    except ServerError as error:
        sys.exit(str(error))
