"""The ids that the topics of streams had before, so that none goes back to one.

Nobody knows those of before, and none is needed: they are learned from the next one on. On the way
back they are forgotten.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Have a place for them."""
    op.add_column("headrace_streams", sa.Column("left_ids", sa.Text))


def downgrade() -> None:
    """Forget them."""
    op.drop_column("headrace_streams", "left_ids")
