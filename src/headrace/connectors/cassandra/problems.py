"""What makes a table none: names, kinds, and columns that do not fit each other."""

from __future__ import annotations

import datetime as dt
import re
from typing import TYPE_CHECKING

from headrace.connectors.cassandra.description import BUCKET
from headrace.connectors.newest import VERSION, problem_of
from headrace.connectors.newest_rows import kinds_problem
from headrace.connectors.own_servers import name_problem

if TYPE_CHECKING:
    from headrace.connectors.cassandra.table import CassandraTable

_NAME = re.compile(r"[a-z][a-z0-9_]{0,47}")
#: what Cassandra takes
_LONGEST = dt.timedelta(days=20 * 365)


def problem_with(sink: CassandraTable) -> str | None:
    """Why there can be no such table; None if there can."""
    if not sink.key:
        return "it needs a key"
    for name in (sink.name, *sink.columns):
        if not _NAME.fullmatch(name):
            return f"{name!r} is no name: use lower-case letters, digits and underscores"
    return (
        kinds_problem(sink.columns)
        or _key_problem(sink)
        or problem_of(
            sink.columns, sink.newest_by, sink.delete_by, in_one_lane=sink.key_in_one_lane
        )
    )


def _key_problem(sink: CassandraTable) -> str | None:
    for name in sink.key:
        if sink.columns.get(name) in (None, VERSION) or name == sink.delete_by:
            return f"key names {name!r}, which is no column that can be of it"
    if sink.key[: len(sink.partition_by)] != sink.partition_by:
        return "partition_by has to be the first columns of key"
    if not sink.at:
        return "at names no connection"
    return _time_problem(sink) or name_problem(sink.at)


def _time_problem(sink: CassandraTable) -> str | None:
    if sink.by_time is not None:
        if sink.by_time not in sink.key or sink.by_time in sink.partition_by:
            return f"by_time names {sink.by_time!r}, which has to be of the key behind partition_by"
        if sink.columns[sink.by_time] != "timestamp" or BUCKET in sink.columns:
            return f"by_time needs a timestamp, and no other column is called {BUCKET!r}"
    if sink.bucket not in ("day", "week"):
        return "bucket is 'day' or 'week'"
    if sink.ttl is not None and not dt.timedelta(seconds=1) <= sink.ttl <= _LONGEST:
        return "ttl is from a second to 20 years, or None"
    return None
