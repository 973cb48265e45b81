"""Keys that see some subjects of the schema registry alone.

Those that were made before see what their role and their tenant let them see, as before. On the way
back such keys are dropped: without the column they would see all.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column."""
    op.add_column("headrace_keys", sa.Column("subjects", sa.LargeBinary()))


def downgrade() -> None:
    """Drop it, and the keys that need it."""
    op.execute("DELETE FROM headrace_keys WHERE subjects IS NOT NULL")
    op.drop_column("headrace_keys", "subjects")
