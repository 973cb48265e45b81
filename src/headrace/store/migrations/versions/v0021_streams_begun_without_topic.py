"""Streams that began when their topic was not there.

Before, a stream whose topic came later began at its end, where its use case says ``latest``. None
is told to have begun: those that wait say so when a driver looks next. On the way back a store is
refused in which a use case begins at a time or at offsets: an earlier Headrace knows no such words.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from headrace.errors import ConfigError

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None

_UNKNOWN = (
    "SELECT use_case, starting_offsets FROM headrace_deployments "
    "WHERE starting_offsets NOT IN ('earliest', 'latest') ORDER BY use_case"
)


def upgrade() -> None:
    """Let none have begun so."""
    column = sa.Column("begun_without_topic", sa.Boolean, nullable=False, server_default=sa.false())
    op.add_column("headrace_streams", column)


def downgrade() -> None:
    """Forget which did."""
    for row in op.get_bind().execute(sa.text(_UNKNOWN)).all():
        raise ConfigError(
            f"use case {row.use_case} has startingOffsets {row.starting_offsets}, and an earlier "
            "Headrace knows earliest and latest alone: deploy it with one of these, or stay with "
            "this version; nothing was changed"
        )
    op.drop_column("headrace_streams", "begun_without_topic")
