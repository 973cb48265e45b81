"""When positions were moved, what was passed over before them, and use cases that pass over.

When a position was moved before nobody knows, and no stream was left alone that nobody has taken
since. On the way back a store is refused in which a use case passes over what is too
old: an earlier Headrace would read it all.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from headrace.errors import ConfigError

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None

_RESTARTING = (
    "SELECT use_case FROM headrace_deployments WHERE restart_after_s IS NOT NULL ORDER BY use_case"
)


def upgrade() -> None:
    """Let none be known."""
    for name in ("restart_after_s", "max_age_s"):
        op.add_column("headrace_deployments", sa.Column(name, sa.Double))
    op.add_column("headrace_tenants", sa.Column("resumed_s", sa.Double))
    for name in ("silent_s", "expected_s"):
        op.add_column("headrace_streams", sa.Column(name, sa.Double))
    op.add_column("headrace_positions", sa.Column("moved_s", sa.Double))
    for name in ("moved_to", "passed_from", "passed_until"):
        op.add_column("headrace_positions", sa.Column(name, sa.Text))


def downgrade() -> None:
    """Forget all of it."""
    for row in op.get_bind().execute(sa.text(_RESTARTING)).all():
        raise ConfigError(
            f"use case {row.use_case} has restart latest, and an earlier Headrace reads every "
            "record: deploy it without, or stay with this version; nothing was changed"
        )
    for name in ("passed_until", "passed_from", "moved_to", "moved_s"):
        op.drop_column("headrace_positions", name)
    for name in ("expected_s", "silent_s"):
        op.drop_column("headrace_streams", name)
    op.drop_column("headrace_tenants", "resumed_s")
    for name in ("max_age_s", "restart_after_s"):
        op.drop_column("headrace_deployments", name)
