"""Finding many streams with few statements.

A stream is named by two columns, and SQLite has no arrays and a limit on parameters. So streams
are grouped by use case and asked for some hundred tenants at a time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator

from sqlalchemy import ColumnElement, Table, and_

from headrace.model.streams import StreamId

_TENANTS_AT_ONCE = 500


def matching(table: Table, streams: Collection[StreamId]) -> Iterator[ColumnElement[bool]]:
    """Conditions on ``use_case`` and ``tenant`` that together match exactly these streams.

    They come in the order of the keys, which is the order to lock rows in.
    """
    tenants_of = defaultdict(list)
    for use_case, tenant in sorted(set(streams)):
        tenants_of[use_case].append(tenant)
    for use_case, tenants in tenants_of.items():
        for start in range(0, len(tenants), _TENANTS_AT_ONCE):
            some = tenants[start : start + _TENANTS_AT_ONCE]
            yield and_(table.c.use_case == use_case, table.c.tenant.in_(some))


def of(table: Table, stream: StreamId) -> ColumnElement[bool]:
    """The condition on ``use_case`` and ``tenant`` that matches one stream."""
    return and_(table.c.use_case == stream.use_case, table.c.tenant == stream.tenant)
