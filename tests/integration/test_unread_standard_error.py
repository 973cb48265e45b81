"""A driver whose standard error nobody reads: neither Spark nor handlers' prints wait for it."""

import os
import signal
import subprocess
import sys
from contextlib import suppress

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.slow]

#: starts Spark and runs a job whose workers print a megabyte each; says what came of it
DRIVER = """
import os, sys
from headrace.process.standard_error import written_by_a_thread
from headrace.spark.session import build_session, stop_session

def loud(_):
    for _ in range(5_000):
        print("y" * 99, file=sys.stderr)
        print("z" * 99)
    return [1]

with written_by_a_thread(100_000):
    os.set_blocking(2, False)
    try:
        while True:
            os.write(2, b"x" * 4096)
    except BlockingIOError:
        os.set_blocking(2, True)
    session = build_session("unread", "local[2]", {}, {})
    print(session.sparkContext.parallelize(range(2), 2).mapPartitions(loud).collect(), flush=True)
    stop_session(session)
"""


def test_spark_starts_and_runs_while_nobody_reads_what_it_and_its_workers_write():
    with subprocess.Popen(
        [sys.executable, "-c", DRIVER],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as driver:
        try:
            assert driver.wait(120) == 0
            assert driver.stdout.read() == "[1, 1]\n"
        finally:
            # The JVM, too, should it wait for a reader.
            with suppress(ProcessLookupError):
                os.killpg(driver.pid, signal.SIGKILL)
