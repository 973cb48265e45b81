"""The demo under fire ends with the report it always ends with."""

import os
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow]


@pytest.mark.usefixtures("cassandra_jars", "opensearch_jars")
def test_killed_twice_and_without_its_broker_the_demo_ends_verified(open_folder):
    command = [sys.executable, "-m", "headrace", "demo", "--chaos", "--folder"]
    command += [str(open_folder / "demo"), "--with", "cassandra", "--replicate"]
    done = subprocess.run(
        [*command, "--rate", "600"],
        capture_output=True,
        text=True,
        timeout=540,
        check=False,
        env={**os.environ, "COLUMNS": "200"},
    )
    told = done.stdout
    assert done.returncode == 0, told + done.stderr
    assert told.count("kill -9 of driver, Spark and Kafka") == 2
    assert "kill -9 of the broker alone" in told + done.stderr
    assert "nothing lost, nothing twice" in told
    assert "visits in Delta" in told
    for kept in ("visits in Cassandra", "visits in OpenSearch", "a search for puppet", "in Valkey"):
        assert kept in told, kept
    assert "DIFFERENT" not in told
