"""Java that starts in half the time, for tests: some thirty times a session they start a Spark.

Most of what a start takes of the processors is loading and checking the same classes, and compiling
code a second time that ends before this is worth it. So no Java of a test compiles twice, and
Spark's classes are taken from an archive, which ``scripts/setup-tests`` has this file make. Without
the archive, or with one that another Java or Spark made, Java starts as ever.

Nothing here is for users: a driver that runs for days wants the second compilation.
"""

import os
import sys
from importlib.metadata import version
from pathlib import Path

ONCE = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
ARCHIVE = Path(sys.prefix) / f"spark-{version('pyspark')}.jsa"


def start_sooner():
    """From now on, for all that this process starts; what somebody chose himself stays."""
    os.environ.setdefault("JDK_JAVA_OPTIONS", ONCE)
    if ARCHIVE.exists():
        # An archive that does not fit is no news.
        os.environ.setdefault("SPARK_SUBMIT_OPTS", f"-XX:SharedArchiveFile={ARCHIVE} -Xlog:disable")


def make_archive():
    """Of the classes that a Spark needs for waves and for DataFrames; quick if it is there."""
    if ARCHIVE.exists():
        return
    sys.stderr.write("setup-tests: archiving Spark's classes, so that tests start it sooner\n")
    part = ARCHIVE.with_suffix(".part")
    os.environ["JDK_JAVA_OPTIONS"] = ONCE
    os.environ["SPARK_SUBMIT_OPTS"] = f"-XX:ArchiveClassesAtExit={part} -Xlog:disable"
    from pyspark import SparkContext  # noqa: PLC0415 - starts take long enough without it

    from headrace.spark.session import build_session  # noqa: PLC0415

    session = build_session("archive", "local[1]", {"spark.log.level": "OFF"}, {})
    frame = session.createDataFrame([(1, "a"), (2, "b")], "number int, word string")
    frame.groupBy("word").count().collect()
    session.stop()
    java = SparkContext._gateway.proc
    java.stdin.close()
    java.wait(120)
    if part.exists():
        part.rename(ARCHIVE)


if __name__ == "__main__":
    make_archive()
