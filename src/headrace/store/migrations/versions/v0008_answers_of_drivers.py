"""What drivers say to deployments, and what a deployment says of guarantee and sink.

Deployments that are there say neither until they are deployed again, which a driver does when it
starts. On the way back the answers are gone; drivers of the older Headrace give none.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

_NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_DEPLOYMENTS = "headrace_deployments"


def upgrade() -> None:
    """Add the table and the columns."""
    op.create_table(
        "headrace_answers",
        sa.Column("driver", _NAME, primary_key=True),
        sa.Column("use_case", _NAME, primary_key=True),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("digest", sa.Text()),
        sa.Column("since_s", sa.Double(), nullable=False),
        sa.Column("error", sa.LargeBinary()),
        sa.Column("again", sa.Boolean(), nullable=False),
    )
    for name in ("guarantee", "sink"):
        column = sa.Column(name, sa.Text(), nullable=False, server_default="")
        op.add_column(_DEPLOYMENTS, column)
    revisions = sa.Column("revision", sa.BigInteger(), nullable=False, server_default="0")
    op.add_column(_DEPLOYMENTS, revisions)


def downgrade() -> None:
    """Drop them again."""
    for name in ("revision", "sink", "guarantee"):
        op.drop_column(_DEPLOYMENTS, name)
    op.drop_table("headrace_answers")
