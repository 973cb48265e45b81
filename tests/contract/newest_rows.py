"""A table of rows of which the newest of each key stays, as the suite of sinks writes to it."""

import pyarrow as pa

from headrace.testing.sink_cases import State


class NewestRows:
    """What suites of such a table have in common."""

    where = "WHERE gone IS NOT TRUE"

    def states(self, states):
        return pa.table(
            {
                "key": pa.array([state.key for state in states], pa.string()),
                "value": pa.array([state.text for state in states], pa.string()),
                "gone": pa.array([state.gone for state in states], pa.bool_()),
            }
        )

    def table(self, values):
        made = self.states([State(value, "", 0) for value in values])
        return made.set_column(1, "value", pa.array(list(values), pa.string()))

    def refused_table(self):
        return self.table(["a"]).set_column(0, "key", pa.array([None], pa.string()))

    def wrong_table(self):
        return self.table(["a"]).drop_columns(["value"])
