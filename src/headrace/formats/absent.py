"""Columns of nulls, as writers of columns want them.

A struct that is null still has a value in each of its own columns, and one that may not be null has
to have something there, which nobody reads: Parquet and Spark look at columns, not at parents.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa


def absent(count: int, kind: Any) -> Any:
    """So many nulls; below them is no null where none may be."""
    # Made of Python's None it has empty values below; ``pyarrow.nulls`` has nulls there.
    one = pa.array([None], kind)
    return one.take(pa.array(np.zeros(count, np.int64)))
