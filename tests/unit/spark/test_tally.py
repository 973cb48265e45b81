"""When the records of a receipt happened."""

import pyarrow as pa
import pytest

from headrace.event_times import json_time
from headrace.spark.tally import sample_s
from headrace.testing.records import records


def visits(count):
    return records([b'{"at": %d}' % (1_700_000_000 + number) for number in range(count)])


def test_kafka_tells_unless_the_use_case_does():
    table = visits(3)
    by_kafka = sample_s(table, 32)
    assert by_kafka != sample_s(table, 32, json_time("/at"))
    assert sample_s(table, 32, json_time("/at")) == [1_700_000_000.0 + each for each in range(3)]


def test_only_the_records_that_are_sampled_are_asked():
    asked = []

    def counting(table: pa.Table) -> list[float]:
        asked.append(table.num_rows)
        return json_time("/at")(table)

    found = sample_s(visits(1000), 32, counting)
    assert asked == [32]
    assert (found[0], found[-1]) == (1_700_000_000.0, 1_700_000_999.0)


def test_a_record_that_does_not_tell_counts_from_kafkas_timestamp():
    table = records([b'{"at": 1700000000}', b"broken"])
    by_kafka = sample_s(table, 32)
    assert sample_s(table, 32, json_time("/at")) == [1_700_000_000.0, by_kafka[1]]


@pytest.mark.parametrize(
    "wrong",
    [
        lambda table: [1.0],
        lambda table: [float("nan")] * table.num_rows,
        lambda table: ["soon"] * table.num_rows,
        lambda table: 1 / 0,
    ],
)
def test_a_function_that_fails_costs_the_event_time_and_not_the_slice(wrong):
    table = visits(3)
    assert sample_s(table, 32, wrong) == sample_s(table, 32)
