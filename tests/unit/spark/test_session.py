"""What is refused before a session starts, and the settings of an elastic one."""

import subprocess
import sys

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from headrace.errors import ConfigError
from headrace.spark.session import build_session, elastic_options, on_this_machine


@pytest.mark.parametrize(
    "master",
    [
        "local",
        "local[2]",
        "local[*,4]",
        "spark://127.0.0.1:7077",
        "spark://localhost:7077",
        "spark://[::1]:7077",
        "spark://localhost:7077,127.0.0.1:7078",
    ],
)
def test_local_masters_and_loopback_clusters_are_on_this_machine(master):
    assert on_this_machine(master)


@pytest.mark.parametrize(
    "master",
    [
        "yarn",
        "k8s://https://127.0.0.1:6443",
        "spark://spark-1:7077",
        "spark://localhost.example.org:7077",
        "spark://127.0.0.1:7077,spark-1:7077",
        "spark://10.127.0.0.1:7077",
    ],
)
def test_clusters_that_others_reach_are_not_on_this_machine(master):
    assert not on_this_machine(master)


def test_elastic_options_start_with_the_least_and_never_exceed_the_most():
    options = elastic_options(1, 8)
    prefix = "spark.dynamicAllocation."
    assert options[f"{prefix}enabled"] == "true"
    assert options[f"{prefix}minExecutors"] == options[f"{prefix}initialExecutors"] == "1"
    assert options[f"{prefix}maxExecutors"] == "8"
    assert options["spark.executor.cores"] == "1"


@pytest.mark.parametrize(("least", "most"), [(-1, 2), (3, 2), (0, 0)])
def test_bounds_that_make_no_sense_are_refused(least, most):
    with pytest.raises(ConfigError, match=f"least {least} and most {most}"):
        elastic_options(least, most)


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("spark.authenticate.secret", "x", "give secrets by environment or file"),
        ("spark.hadoop.fs.s3a.access.key", "x", "give secrets by environment or file"),
        ("spark.hadoop.fs.azure.account.key.acme", "x", "give secrets by environment or file"),
        ("spark.hadoop.fs.azure.sas.box.acme", "x", "give secrets by environment or file"),
        ("spark.executorEnv.DATABASE_URL", "postgresql://u:x@h/d", "give secrets by environment"),
        (
            "spark.executor.extraJavaOptions",
            "-Xss4m -Djavax.net.ssl.keyStorePassword=x",
            "give secrets by environment or file",
        ),
        ("spark.speculation", "true", "spark.speculation must be false"),
        ("executor.memory", "1g", "every key of the spark map starts with 'spark.'"),
    ],
)
def test_options_that_break_a_promise_are_refused_before_spark_starts(key, value, told):
    with pytest.raises(ConfigError, match=told):
        build_session("test", "local[1]", {key: value}, {})


@pytest.mark.parametrize(
    "key",
    [
        "spark.authenticate.secret.file",
        "spark.kubernetes.executor.secrets.kafka",
        "spark.kubernetes.executor.secretKeyRef.DATABASE_URL",
    ],
)
def test_where_a_secret_is_may_be_said(key):
    with pytest.raises(ConfigError, match=r"spark\.speculation must be false"):
        build_session("test", "local[1]", {key: "/etc/x", "spark.speculation": "true"}, {})


@pytest.fixture
def sleeping():
    begun = []

    def begin(name):
        command = [sys.executable, "-c", "import time; time.sleep(60)", name]
        begun.append(subprocess.Popen(command))
        return begun[-1]

    yield begin
    for process in begun:
        process.kill()
        process.wait()


def test_a_jvm_that_is_not_waited_for_is_ended(sleeping, monkeypatch):
    earlier, begun = sleeping("SparkSubmit of somebody else"), []

    def cut_short(_builder):
        begun.extend([sleeping("org.apache.spark.deploy.SparkSubmit"), sleeping("other")])
        raise SystemExit(0)

    monkeypatch.setattr(SparkContext, "_gateway", None)
    monkeypatch.setattr(SparkSession.Builder, "getOrCreate", cut_short)
    with pytest.raises(SystemExit):
        build_session("headrace", "local[1]", {}, {})
    jvm, other = begun
    assert jvm.wait(60) != 0
    assert (earlier.poll(), other.poll()) == (None, None)
