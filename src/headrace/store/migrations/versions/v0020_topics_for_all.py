"""The tenant of topics that name none.

Nobody read such a topic before, so no tenant is the reserved one, and a customer of its name stays
one. On the way back a store is refused in which a use case reads one: an earlier Headrace could add
no tenant beside it.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from headrace.errors import ConfigError

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None

_PLAIN = (
    "SELECT use_case, topic FROM headrace_deployments WHERE topic NOT LIKE '%{tenant}%' "
    "ORDER BY use_case"
)


def upgrade() -> None:
    """Let every tenant be a customer."""
    column = sa.Column("reserved", sa.Boolean, nullable=False, server_default=sa.false())
    op.add_column("headrace_tenants", column)


def downgrade() -> None:
    """Forget that one could be none."""
    for row in op.get_bind().execute(sa.text(_PLAIN)).all():
        raise ConfigError(
            f"use case {row.use_case} reads topic {row.topic}, and an earlier Headrace reads no "
            "topic without {tenant}: stay with this version; nothing was changed"
        )
    op.drop_column("headrace_tenants", "reserved")
