"""Drivers that share the streams of one store, and what to do about records that Kafka lost.

Before, whoever started last took every stream. Now a driver has a name, and a stream has the driver
that holds it. Streams that were held by a nameless one are free, and taken by the next to start; so
are the waves that one wrote down. On the way back everybody's streams are everybody's again.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Add the table and the columns."""
    op.create_table(
        "headrace_drivers",
        sa.Column("name", _NAME, primary_key=True),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("beats", sa.BigInteger(), nullable=False),
        sa.Column("use_cases", sa.Text(), nullable=False),
    )
    op.add_column("headrace_streams", sa.Column("holder", _NAME))
    op.add_column("headrace_intents", sa.Column("driver", _NAME))
    op.add_column(
        "headrace_deployments",
        sa.Column("data_loss", sa.Text(), nullable=False, server_default="fail"),
    )


def downgrade() -> None:
    """Drop them again."""
    op.drop_column("headrace_deployments", "data_loss")
    op.drop_column("headrace_intents", "driver")
    op.drop_column("headrace_streams", "holder")
    op.drop_table("headrace_drivers")
