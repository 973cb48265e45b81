"""What Spark itself writes to stderr."""

from headrace.spark import session


def test_a_start_of_spark_does_not_set_the_level_of_its_log_and_tell_so():
    lines = session._QUIET_LOGS.read_text("utf-8").splitlines()
    assert "logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer" in lines
    (root,) = (line for line in lines if line.startswith("rootLogger.level"))
    assert f"logger.gateway.level = {root.split()[-1]}" in lines
