"""A real Spark keeps the laws of an engine."""

import pytest

from headrace.ports import Connections
from headrace.spark.engine import SparkEngine, TaskTools
from headrace.store import SqlPositionsFactory, open_store
from headrace.testing.dead_letters_fake import MemoryDeadLetters
from headrace.testing.engine_contract import RunningEngineContract
from headrace.testing.numbers_reader import NumbersReader


@pytest.mark.spark
@pytest.mark.slow
class TestSparkEngine(RunningEngineContract):
    @pytest.fixture(autouse=True)
    def _session(self, spark):
        self.spark = spark

    def new_engine(self, folder):
        url = f"sqlite:///{folder / 'store.db'}"
        open_store(url).close()
        connections = Connections({}, url, warehouse=str(folder / "files"))
        tools = TaskTools(connections, NumbersReader(), SqlPositionsFactory(), MemoryDeadLetters())
        return SparkEngine(self.spark, tools)
