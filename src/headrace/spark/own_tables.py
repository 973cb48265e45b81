"""A table that nobody else can write to.

Arrow takes a NumPy array as it is, without a copy, and a handler may use one array for all of its
calls. What it returned for one tenant would then say what it computed for the next one, as a table
waits for others before it is written. So what a handler returns is copied at once.

What it was given is not copied: Arrow lets nobody write to that. A table that is taken from another
one, as a few of its rows, costs only these.
"""

from __future__ import annotations

import pyarrow as pa


def owned(table: pa.Table) -> pa.Table:
    """The same table in memory of its own."""
    if table.num_rows == 0 or table.num_columns == 0:
        return table
    try:
        copies = [
            pa.ipc.read_record_batch(batch.serialize(), table.schema)
            for batch in table.to_batches()
        ]
    except pa.ArrowKeyError:
        # What a dictionary stands for goes with a stream only, which costs a few times as much.
        return _through_stream(table)
    return pa.Table.from_batches(copies, table.schema)


def _through_stream(table: pa.Table) -> pa.Table:
    target = pa.BufferOutputStream()
    with pa.ipc.new_stream(target, table.schema) as stream:
        stream.write_table(table)
    return pa.ipc.open_stream(target.getvalue()).read_all()
