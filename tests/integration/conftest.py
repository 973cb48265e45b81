"""The Spark session of the integration tests."""

import pytest

from headrace.spark.session import build_session


@pytest.fixture(scope="session")
def event_log(tmp_path_factory):
    """Where Spark writes what it would show to anybody."""
    return tmp_path_factory.mktemp("events")


@pytest.fixture(scope="session")
def spark(event_log):
    """One real Spark on two slots for the whole session."""
    options = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": event_log.as_uri(),
        "spark.eventLog.compress": "false",
        "spark.driver.memory": "1g",
    }
    session = build_session("headrace tests", "local[2]", options, {"quick": 3, "slow": 1})
    yield session
    session.stop()
