"""What is said when a cluster cannot start; a script stands in for Spark's own."""

import pytest

from headrace.embedded import EmbeddedSparkCluster, spark_cluster
from headrace.embedded.folder_lock import FolderLock
from headrace.errors import ServerError


@pytest.fixture
def spark_says(tmp_path, monkeypatch):
    """Puts a shell script in the place of ``spark-class``."""

    def make(*lines):
        script = tmp_path / "spark" / "bin" / "spark-class"
        script.parent.mkdir(parents=True)
        script.write_text("\n".join(("#!/bin/sh", *lines)))
        script.chmod(0o755)
        monkeypatch.setattr(spark_cluster, "_spark_home", lambda: tmp_path / "spark")
        monkeypatch.setattr(spark_cluster, "find_java", lambda: tmp_path / "java")
        return EmbeddedSparkCluster(tmp_path / "cluster", cores=2)

    return make


def test_a_master_that_ends_is_told_with_the_end_of_its_log(spark_says):
    cluster = spark_says("echo 'no room for a heap'", "exit 1")
    with pytest.raises(ServerError, match=r"Spark master ended while starting(?s:.*)no room"):
        cluster.start()
    assert not cluster.running


def test_a_port_that_was_taken_meanwhile_is_tried_again_a_few_times(spark_says, tmp_path):
    tries = tmp_path / "tries"
    cluster = spark_says(f"echo x >> {tries}", "echo java.net.BindException: in use", "exit 1")
    with pytest.raises(ServerError, match="BindException"):
        cluster.start()
    assert len(tries.read_text().split()) == 3


def test_a_master_that_never_answers_is_stopped(spark_says, tmp_path):
    pid = tmp_path / "pid"
    cluster = spark_says(f"echo $$ > {pid}", "echo up", "exec sleep 600")
    with pytest.raises(ServerError, match="does not answer"):
        cluster.start(timeout_s=0.0)
    assert not cluster.running


def test_the_secret_is_new_at_each_start_and_in_no_file_or_command_line(spark_says, tmp_path):
    given = tmp_path / "given"
    cluster = spark_says(f"echo $_SPARK_AUTH_SECRET >> {given}", 'echo "$@"', "exit 1")
    for _ in range(2):
        with pytest.raises(ServerError):
            cluster.start()
        assert given.read_text().split()[-1] == cluster.environment["_SPARK_AUTH_SECRET"]
    first, second = given.read_text().split()
    assert first != second
    written = "".join(path.read_text() for path in cluster.folder.iterdir() if path.is_file())
    assert "--properties-file" in written
    assert "spark.authenticate true" in written
    assert second not in written


def test_a_folder_in_use_is_refused(spark_says, tmp_path):
    cluster = spark_says("exit 1")
    with FolderLock(tmp_path / "cluster"), pytest.raises(ServerError, match="in use by another"):
        cluster.start()


def test_without_pyspark_the_message_says_how_to_get_it(monkeypatch, tmp_path):
    monkeypatch.setattr(spark_cluster, "find_java", lambda: tmp_path / "java")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ServerError, match="pip install pyspark"):
        EmbeddedSparkCluster(tmp_path / "cluster").start()
