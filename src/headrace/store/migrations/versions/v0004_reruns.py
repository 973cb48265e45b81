"""Use cases that read a range of records once more, at a share of the executors.

On the way back the reruns are use cases like any other, which nobody can run: their names are in no
module.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns."""
    op.add_column(
        "headrace_deployments",
        sa.Column("share", sa.Double(), nullable=False, server_default="1"),
    )
    op.add_column("headrace_deployments", sa.Column("ends_at", sa.Text()))


def downgrade() -> None:
    """Drop them again."""
    op.drop_column("headrace_deployments", "ends_at")
    op.drop_column("headrace_deployments", "share")
