"""Rows are told by the whole of their places, of any width."""

import pyarrow as pa
import pytest

from headrace.ports.reading import PLACE_COLUMN
from headrace.spark.row_places import rows_at


@pytest.mark.parametrize(
    ("places", "wanted", "found"),
    [
        (["7", "70", "71", "8"], {7}, [True, False, False, False]),
        (["9" * 20, "9" * 20 + "5"], {int("9" * 20)}, [True, False]),
        (["9" * 20, "9" * 20 + "5"], {7, int("9" * 20 + "5")}, [False, True]),
        (["7"], set(), [False]),
    ],
)
def test_a_wide_place_is_no_other_that_it_begins(places, wanted, found):
    columns = {"offset": pa.array(range(len(places)), pa.int64()), PLACE_COLUMN: places}
    assert rows_at(pa.table(columns), wanted).tolist() == found


def test_of_a_log_with_numbers_they_are_told_by_these():
    assert rows_at(pa.table({"offset": pa.array([7, 70, 8], pa.int64())}), {7, 8}).tolist() == [
        True,
        False,
        True,
    ]
