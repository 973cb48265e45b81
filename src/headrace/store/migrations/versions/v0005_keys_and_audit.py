"""API keys, and a log of what was changed through the doors they open.

On the way back both are lost, and whoever holds a key needs a new one.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_SERIAL = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "headrace_keys",
        sa.Column("prefix", _NAME, primary_key=True),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("tenant", _NAME, sa.ForeignKey("headrace_tenants.name")),
        sa.Column("label", sa.LargeBinary(), nullable=False),
        sa.Column("created_at_s", sa.Double(), nullable=False),
        sa.Column("expires_at_s", sa.Double()),
        sa.Column("revoked_at_s", sa.Double()),
    )
    op.create_table(
        "headrace_audit",
        sa.Column("id", _SERIAL, primary_key=True),
        sa.Column("at_s", sa.Double(), nullable=False),
        sa.Column("who", sa.LargeBinary(), nullable=False),
        sa.Column("action", sa.LargeBinary(), nullable=False),
        sa.Column("tenant", sa.LargeBinary()),
        sa.Column("status", sa.Integer(), nullable=False),
        sa.Column("detail", sa.LargeBinary(), nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_index("headrace_audit_tenants", "headrace_audit", ["tenant", "id"])


def downgrade() -> None:
    """Drop them again."""
    op.drop_table("headrace_audit")
    op.drop_table("headrace_keys")
