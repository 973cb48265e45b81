"""A random key that seals records sent back, and the time of a record that failed.

The key is made here, once for all who use the store. On the way back it is gone: what was sealed
with it and not read yet is then, after another way up, an ordinary record for every use case.
"""

from __future__ import annotations

import secrets

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

_NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Make the key, and add the column."""
    made = op.create_table(
        "headrace_secrets",
        sa.Column("name", _NAME, primary_key=True),
        sa.Column("value", sa.LargeBinary(), nullable=False),
    )
    op.bulk_insert(made, [{"name": "seal", "value": secrets.token_bytes(32)}])
    op.add_column("headrace_failures", sa.Column("record_timestamp_ms", sa.BigInteger()))


def downgrade() -> None:
    """Drop them again."""
    op.drop_column("headrace_failures", "record_timestamp_ms")
    op.drop_table("headrace_secrets")
