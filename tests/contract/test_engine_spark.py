"""A real Spark keeps the laws of an engine."""

import pytest

from headrace.ports import Connections
from headrace.spark.engine import SparkEngine, TaskTools
from headrace.store import SqlPositionsFactory, open_store
from headrace.testing.dead_letters_fake import MemoryDeadLetters
from headrace.testing.engine_contract import *  # noqa: F403 - the suites
from headrace.testing.engine_contract.running import TestRunning  # noqa: F401 - one more
from headrace.testing.numbers_reader import NumbersReader

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture
def new_engine(spark, tmp_path):
    url = f"sqlite:///{tmp_path / 'store.db'}"
    open_store(url).close()
    connections = Connections({}, url, warehouse=str(tmp_path / "files"))
    tools = TaskTools(connections, NumbersReader(), SqlPositionsFactory(), MemoryDeadLetters())
    return lambda: SparkEngine(spark, tools)
