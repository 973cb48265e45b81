"""What a handler returned does not change any more, whatever it does with its memory."""

import numpy as np
import pyarrow as pa
import pytest
from task_bench import ListSink

from headrace.spark import own_tables
from headrace.spark.calling import call_rules
from headrace.spark.handling import handle
from headrace.spark.own_tables import owned
from headrace.testing.records import records
from headrace.use_cases import SliceContext, use_case


class Reused:
    """Handlers that compute in the same array each time."""

    def __init__(self):
        self.array = np.zeros(100, dtype="int64")

    def tenants(self, table, context):
        found = self.array[: table.num_rows]
        found[:] = len(context.tenant) * 100 + ord(context.tenant[0])
        return pa.table({"value": found})

    def offsets(self, table, context):
        for row, value in enumerate(table["value"].to_pylist()):
            if value == b"bad":
                raise context.bad_record(row, "no")
        found = self.array[: table.num_rows]
        found[:] = table["offset"].to_numpy()
        return pa.table({"offset": found})


def test_an_array_that_is_used_again_shows_no_tenant_what_was_computed_for_another(bench):
    sink = ListSink()
    bench.run(sink, handler=Reused().tenants)
    found = {tenant: set(values) for tenant, *_, values in sink.written}
    assert found == {"acme": {400 + ord("a")}, "bolt": {400 + ord("b")}}


def test_an_array_that_is_used_again_for_what_follows_a_bad_record_doubles_nothing():
    made = use_case(
        topic="{tenant}.visits", sink=ListSink(), name="keep", bad_record="dead-letter"
    )(Reused().offsets)
    given = records([b"a", b"a", b"bad", b"a", b"a"])
    rules = call_rules(made, 1.0, shared=False)
    done = handle(made, given, SliceContext("keep", "acme", ()), rules)
    assert done.output["offset"].to_pylist() == [0, 1, 3, 4]


COLUMNS = {
    "numbers": pa.array([1, None, 3]),
    "texts": pa.array(["a", None, "c" * 100]),
    "lists": pa.array([[1], None, []]),
    "dictionary": pa.array(["a", "b", "a"]).dictionary_encode(),
    "maps": pa.array([[("a", 1)], None, []], pa.map_(pa.string(), pa.int64())),
    "runs": pa.RunEndEncodedArray.from_arrays([2, 3], pa.array([7, 8])),
    "views": pa.array(["a", None, "c" * 100], pa.string_view()),
    "nothing": pa.nulls(3),
}


@pytest.mark.parametrize("column", COLUMNS.values(), ids=COLUMNS)
def test_a_copy_is_the_same_table(column):
    schema = pa.schema([pa.field("x", column.type, metadata={"a": "b"})], metadata={"c": "d"})
    table = pa.concat_tables([pa.table([column], schema), pa.table([column.slice(1)], schema)])
    copy = owned(table)
    assert copy.equals(table)
    assert copy.schema.equals(schema, check_metadata=True)


def spans(column):
    """Where the memory of a column is."""
    if isinstance(column, pa.ChunkedArray):
        return [span for chunk in column.chunks for span in spans(chunk)]
    found = [(buffer.address, buffer.size) for buffer in column.buffers() if buffer and buffer.size]
    return found + (spans(column.dictionary) if pa.types.is_dictionary(column.type) else [])


WRITABLE = {
    "array": pa.array(np.arange(3)),
    "strided": pa.array(np.arange(6)[::2]),
    "dictionary of arrays": pa.DictionaryArray.from_arrays(np.array([0, 1, 0]), np.arange(2)),
    "struct": pa.StructArray.from_arrays([pa.array(np.arange(3))], ["a"]),
}


@pytest.mark.parametrize("row_bytes", [0, 1024], ids=["through Arrow's format", "by buffers"])
@pytest.mark.parametrize("column", (COLUMNS | WRITABLE).values(), ids=COLUMNS | WRITABLE)
def test_no_byte_of_a_copy_is_a_byte_of_what_was_copied(column, row_bytes, monkeypatch):
    monkeypatch.setattr(own_tables, "_ROW_BYTES", row_bytes)
    table = pa.concat_tables([pa.table({"x": column}), pa.table({"x": column.slice(1)})])
    copy = owned(table)
    assert copy.equals(table)
    for begin, size in spans(copy["x"]):
        for other, other_size in spans(table["x"]):
            assert begin + size <= other or other + other_size <= begin


def test_a_small_table_is_copied_buffer_by_buffer(monkeypatch):
    """Through Arrow's format it takes more than twice as long, for each call of a handler."""
    monkeypatch.setattr(pa.ipc, "read_record_batch", None)
    assert owned(pa.table({"x": [1, 2], "y": ["a", "b"]}))["y"].to_pylist() == ["a", "b"]


def test_a_few_rows_of_a_large_table_cost_no_more_than_these():
    large = pa.table({"x": pa.array(range(100_000))})
    assert owned(large.slice(7, 2)).get_total_buffer_size() < 1_000


def test_a_table_without_columns_keeps_its_rows():
    assert owned(pa.table({"x": [1, 2]}).select([])).num_rows == 2
