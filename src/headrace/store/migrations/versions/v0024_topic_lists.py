"""Lists of topics, which are kept where the name of a topic is.

Nothing is changed. On the way back a store is refused in which a use case reads a list: an earlier
Headrace would take it for the name of a topic that is not there.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from headrace.errors import ConfigError

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None

_LISTS = (
    "SELECT use_case, topic FROM headrace_deployments "
    "WHERE topic LIKE '%,%' OR topic LIKE '%]' ORDER BY use_case"
)


def upgrade() -> None:
    """Nobody read a list before."""


def downgrade() -> None:
    """See that nobody reads one."""
    for row in op.get_bind().execute(sa.text(_LISTS)).all():
        raise ConfigError(
            f"use case {row.use_case} reads topics {row.topic}, and an earlier Headrace reads no "
            "list: stay with this version; nothing was changed"
        )
