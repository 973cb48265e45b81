"""Failures that stop one lane and have an end, and what a use case may do about them.

Before, a failure suspended its whole stream and stayed for ever. Now it is open until somebody
decides, and stops its lane as long. So the newest failure of a lane of a suspended stream is open,
if the lane is not past it, and all others are over; what was suspended stays so until it is
resumed. On the way back an open failure suspends its stream again: an older Headrace knows nothing
else that would keep it from going on.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_OPEN = sa.text("state = 'open'")
_OPEN_WHAT_STANDS = """
UPDATE headrace_failures SET state = 'open' WHERE id IN (
    SELECT max(f.id)
    FROM headrace_failures f
    JOIN headrace_streams s ON s.use_case = f.use_case AND s.tenant = f.tenant
    JOIN headrace_positions p
      ON p.use_case = f.use_case AND p.tenant = f.tenant AND p.partition = f.partition
    WHERE s.state = 'suspended'
      AND p.next_offset >= f.from_offset
      AND p.next_offset <= coalesce(f.record_offset, f.until_offset - 1)
    GROUP BY f.use_case, f.tenant, f.partition
)
"""
_SUSPEND_WHAT_IS_OPEN = """
UPDATE headrace_streams SET state = 'suspended', reason = 'a failure of it is open'
WHERE state = 'active' AND EXISTS (
    SELECT 1 FROM headrace_failures f
    WHERE f.use_case = headrace_streams.use_case AND f.tenant = headrace_streams.tenant
      AND f.state = 'open'
)
"""


def upgrade() -> None:
    """Add the columns, with what the code did until now as defaults."""
    for table, column in _columns():
        op.add_column(table, column)
    op.execute(_OPEN_WHAT_STANDS)
    op.create_index(
        "headrace_open_failures",
        "headrace_failures",
        ["use_case", "tenant", "partition"],
        unique=True,
        sqlite_where=_OPEN,
        postgresql_where=_OPEN,
    )


def downgrade() -> None:
    """Drop the columns; streams with an open failure are suspended."""
    op.execute(_SUSPEND_WHAT_IS_OPEN)
    op.drop_index("headrace_open_failures", "headrace_failures")
    for table, column in _columns():
        op.drop_column(table, column.name)


def _columns() -> list[tuple[str, sa.Column[Any]]]:
    def needed(name: str, kind: sa.types.TypeEngine[Any], default: str) -> sa.Column[Any]:
        return sa.Column(name, kind, nullable=False, server_default=default)

    return [
        ("headrace_tenants", needed("burst_s", sa.Double(), "1")),
        ("headrace_deployments", needed("bad_record", sa.Text(), "suspend")),
        ("headrace_deployments", needed("retries", sa.Integer(), "3")),
        ("headrace_deployments", needed("handler_timeout_s", sa.Double(), "30")),
        ("headrace_deployments", sa.Column("max_rate_per_lane", sa.Double())),
        ("headrace_failures", needed("attempts", sa.Integer(), "1")),
        ("headrace_failures", needed("state", sa.Text(), "retried")),
    ]
