"""Finding many rows with few statements.

SQLite has no arrays and a limit on parameters, so what is asked for is named some hundred at a
time. A stream is named by two columns: streams are grouped by use case, and their tenants so named.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from typing import TypeVar

from sqlalchemy import ColumnElement, Table, and_

from headrace.model.streams import LaneId, StreamId

_T = TypeVar("_T")

#: as many as a statement may name
AT_ONCE = 500


def portions(names: Sequence[_T], at_once: int | None = None) -> Iterator[Sequence[_T]]:
    """As many at a time as a statement may name, in their order."""
    some = at_once or AT_ONCE
    for start in range(0, len(names), some):
        yield names[start : start + some]


def matching(table: Table, streams: Collection[StreamId]) -> Iterator[ColumnElement[bool]]:
    """Conditions on ``use_case`` and ``tenant`` that together match exactly these streams.

    They come in the order of the keys, which is the order to lock rows in.
    """
    tenants_of = defaultdict(list)
    for use_case, tenant in sorted(set(streams)):
        tenants_of[use_case].append(tenant)
    for use_case, tenants in tenants_of.items():
        for some in portions(tenants):
            yield and_(table.c.use_case == use_case, table.c.tenant.in_(some))


def among(table: Table, lanes: Collection[LaneId]) -> ColumnElement[bool]:
    """A condition that these lanes match, and maybe others of the same names.

    No more lanes than a statement may name.
    """
    use_cases, tenants, names = (sorted(set(parts)) for parts in zip(*lanes, strict=True))
    column = table.c
    return column.use_case.in_(use_cases) & column.tenant.in_(tenants) & column.lane.in_(names)


def of(table: Table, stream: StreamId) -> ColumnElement[bool]:
    """The condition on ``use_case`` and ``tenant`` that matches one stream."""
    return and_(table.c.use_case == stream.use_case, table.c.tenant == stream.tenant)
