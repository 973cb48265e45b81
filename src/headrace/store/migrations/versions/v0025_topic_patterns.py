"""Use cases that read topics by a pattern, and those that make tenants by it.

No use case had one before, so none makes tenants. On the way back a store is refused in which a use
case reads by a pattern: an earlier Headrace would take it for the name of a topic that is not
there.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from headrace.errors import ConfigError

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None

_PATTERNS = (
    "SELECT use_case, topic FROM headrace_deployments WHERE topic LIKE '% of %' ORDER BY use_case"
)


def upgrade() -> None:
    """Let no use case make tenants."""
    column = sa.Column("creates_tenants", sa.Boolean, nullable=False, server_default=sa.false())
    op.add_column("headrace_deployments", column)


def downgrade() -> None:
    """See that nobody reads by one."""
    for row in op.get_bind().execute(sa.text(_PATTERNS)).all():
        raise ConfigError(
            f"use case {row.use_case} reads topics {row.topic}, and an earlier Headrace knows no "
            "pattern: stay with this version; nothing was changed"
        )
    op.drop_column("headrace_deployments", "creates_tenants")
