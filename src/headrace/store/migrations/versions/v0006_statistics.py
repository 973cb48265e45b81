"""What drivers tell of themselves, and a day of history.

On the way back both are gone: they are figures to look at, and nothing depends on them.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

_NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "headrace_reports",
        sa.Column("driver", _NAME, primary_key=True),
        sa.Column("at_s", sa.Double(), nullable=False),
        sa.Column("report", sa.LargeBinary(), nullable=False),
    )
    op.create_table(
        "headrace_points",
        sa.Column("use_case", _NAME, primary_key=True),
        sa.Column("tenant", _NAME, primary_key=True),
        sa.Column("span_s", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("from_s", sa.BigInteger(), primary_key=True, autoincrement=False),
        sa.Column("lag_records", sa.BigInteger(), nullable=False),
        sa.Column("lag_s", sa.Double(), nullable=False),
        sa.Column("records_in", sa.BigInteger(), nullable=False),
        sa.Column("records_out", sa.BigInteger(), nullable=False),
        sa.Column("task_s", sa.Double(), nullable=False),
        sa.Column("delays", sa.BigInteger(), nullable=False),
        *(sa.Column(name, sa.Double()) for name in ("min_s", "p50_s", "p95_s", "p99_s", "max_s")),
        sa.Column("sketch", sa.LargeBinary(), nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_index("headrace_points_from", "headrace_points", ["from_s"])


def downgrade() -> None:
    """Drop them again."""
    op.drop_table("headrace_points")
    op.drop_table("headrace_reports")
