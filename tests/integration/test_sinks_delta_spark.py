"""A Delta table of ours, read by Delta's own Spark, which writes to it as well."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import delta_app
import delta_spark_app
import pytest

from headrace.connectors.delta import writer
from headrace.connectors.delta.upkeep import kept_in
from headrace.embedded.jars import jars
from headrace.errors import ServerError
from headrace.ports import Written

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


@pytest.fixture
def theirs(tmp_path):
    """Asks Delta's Spark about the table."""
    delta_app.SINK.prepare(delta_app.site(tmp_path, "w"))
    try:
        there = ",".join(map(str, jars("spark-delta")))
    except ServerError as error:
        pytest.skip(f"Delta's jars for Spark could not be fetched: {error}")
    command = [sys.executable, Path(delta_spark_app.__file__), tmp_path / "visits", there]
    with (
        (tmp_path / "spark.log").open("wb") as log,
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
        ) as process,
    ):

        def asked(what):
            process.stdin.write(what + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
            assert line, (tmp_path / "spark.log").read_text()[-3000:]
            return json.loads(line)

        yield asked
        process.stdin.close()


def write(folder, wave, *effects):
    opened = delta_app.SINK.open(delta_app.site(folder, wave))
    try:
        return list(opened.write(effects))
    finally:
        opened.close()


def test_spark_reads_what_is_there_and_writes_beside_it(theirs, tmp_path):
    assert write(tmp_path, "w", *delta_app.wave()) == [Written()] * 2
    due = [[tenant, value] for tenant in ("acme", "bolt") for value in range(100)]
    assert theirs("read") == {"rows": due, "counted": 50}
    # A checkpoint of theirs, which has to keep our marks, and no commit from before it.
    found = theirs("append 11")["rows"]
    assert found == sorted([*due, *[["nobody", 0]] * 11])
    log = tmp_path / "visits/_delta_log"
    newest = max(log.glob("*.checkpoint*.parquet")).name.partition(".")[0]
    for commit in log.glob("*.json"):
        if commit.stem < newest:
            commit.unlink()
    writer._kept.clear()
    assert [told.reached for told in write(tmp_path, "w", *delta_app.wave())] == [(100,)] * 2
    assert write(tmp_path, "v", delta_app.effect("acme", 100, 5)) == [Written()]
    upkeep = kept_in(tmp_path, "visits")
    assert sum(upkeep.merge(crowd).before for crowd in upkeep.crowds()) > 0
    assert theirs("read")["rows"] == sorted(
        [*found, *[["acme", value] for value in range(100, 105)]]
    )
