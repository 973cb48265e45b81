"""Tenants that are told from earlier ones of their name, and who has stopped what.

Who added a tenant anew before this version is not known, so all rows are of the first one of their
name. What is suspended was so by a failure where a reason is told, else by an operator, who alone
resumes it. On the way back it is forgotten: what was an earlier tenant's is the later one's again,
and a tenant may resume whatever is suspended.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

_BY_FAILURE = """
UPDATE headrace_streams SET stopped_by = 'failure' WHERE state = 'suspended' AND reason IS NOT NULL
"""
_BY_HAND = "UPDATE {} SET stopped_by = 'operator' WHERE state = 'suspended' AND stopped_by IS NULL"


def upgrade() -> None:
    """Add the columns, and who has stopped what stands."""
    generation = sa.Column("generation", sa.BigInteger(), nullable=False, server_default="0")
    op.add_column("headrace_tenants", generation)
    op.add_column("headrace_tenants", sa.Column("added_again_s", sa.Double()))
    op.add_column("headrace_tenants", sa.Column("stopped_by", sa.Text()))
    op.add_column("headrace_streams", sa.Column("stopped_by", sa.Text()))
    op.add_column("headrace_audit", sa.Column("generation", sa.BigInteger()))
    op.execute(_BY_FAILURE)
    for table in ("headrace_streams", "headrace_tenants"):
        op.execute(_BY_HAND.format(table))


def downgrade() -> None:
    """Drop them again."""
    op.drop_column("headrace_audit", "generation")
    op.drop_column("headrace_streams", "stopped_by")
    for name in ("stopped_by", "added_again_s", "generation"):
        op.drop_column("headrace_tenants", name)
