"""A failure that comes again is kept once, and what a tenant keeps is bounded.

What is there already stays as it is, and is counted by its bytes. On the way back only the counts
are lost, and which failures had no room for their record; their messages say so.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

_COUNT = """
UPDATE headrace_failures SET kept_bytes =
    coalesce(length(raw_key), 0) + coalesce(length(raw_value), 0)
    + length(message) + length(traceback)
    + coalesce((
        SELECT sum(length(h.name) + coalesce(length(h.value), 0))
        FROM headrace_failure_headers h WHERE h.failure_id = headrace_failures.id
    ), 0)
"""


def upgrade() -> None:
    """Add the columns, and count what is there."""
    for column in _columns():
        op.add_column("headrace_failures", column)
    op.execute(_COUNT)
    op.create_index("headrace_failures_tenants", "headrace_failures", ["tenant", "id"])


def downgrade() -> None:
    """Drop them again."""
    op.drop_index("headrace_failures_tenants", "headrace_failures")
    for column in _columns():
        op.drop_column("headrace_failures", column.name)


def _columns() -> tuple[sa.Column[int], sa.Column[int], sa.Column[bool]]:
    return (
        sa.Column("times", sa.Integer(), nullable=False, server_default="1"),
        sa.Column("kept_bytes", sa.BigInteger(), nullable=False, server_default="0"),
        sa.Column("record_kept", sa.Boolean(), nullable=False, server_default=sa.true()),
    )
