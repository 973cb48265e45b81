"""A table of rows of which the newest of each key stays, as the suite of sinks writes to it."""

import itertools
from typing import ClassVar

import pyarrow as pa

from headrace.testing.sink_cases import State


class NewestRows:
    """What suites of such a table have in common."""

    where = "WHERE gone IS NOT TRUE"

    def rows(self, states):
        return pa.table(
            {
                "key": pa.array([state.key for state in states], pa.string()),
                "value": pa.array([state.text for state in states], pa.string()),
                "gone": pa.array([state.gone for state in states], pa.bool_()),
            }
        )

    def states(self, states):
        return self.rows(states)

    def table(self, values):
        made = self.rows([State(value, "", 0) for value in values])
        return made.set_column(1, "value", pa.array(list(values), pa.string()))

    def refused_table(self):
        return self.table(["a"]).set_column(0, "key", pa.array([None], pa.string()))

    def wrong_table(self):
        return self.table(["a"]).drop_columns(["value"])


class OrderedRows(NewestRows):
    """Rows that say in which order they came, which their target does not, and how new they are."""

    columns: ClassVar = {
        "key": "text",
        "value": "text",
        "gone": "boolean",
        "came": "bigint",
        "newness": "version",
    }
    came = itertools.count()

    def rows(self, states):
        came = pa.array([next(self.came) for _ in states], pa.int64())
        return super().rows(states).append_column("came", came)

    def states(self, states):
        newness = pa.array([state.version for state in states], pa.int64())
        return super().states(states).append_column("newness", newness)


class ByData:
    """The same, told apart by a column of the data."""

    columns: ClassVar = OrderedRows.columns | {"newness": "bigint"}

    def table(self, values):
        made = super().table(values)
        return made.append_column("newness", pa.array([1] * len(values), pa.int64()))
