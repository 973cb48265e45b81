"""Which processes a driver is and was.

Of those that joined before nobody knows: an earlier Headrace does not say it.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Let none be known."""
    op.add_column(
        "headrace_drivers", sa.Column("processes", sa.Text, nullable=False, server_default="")
    )


def downgrade() -> None:
    """Forget them."""
    op.drop_column("headrace_drivers", "processes")
