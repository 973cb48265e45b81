"""Lanes that follow others, with the parents that they wait for.

No log had such lanes before, so nothing has to be found out on the way here. On the way back a
store that has any is refused and stays as it is: an earlier Headrace would read them at once,
before what came before them.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from headrace.errors import ConfigError

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

_HEIR = "SELECT lane FROM headrace_positions WHERE parents IS NOT NULL LIMIT 1"


def upgrade() -> None:
    """Make room for parents."""
    op.add_column("headrace_positions", sa.Column("parents", sa.Text))


def downgrade() -> None:
    """Forget that lanes could have any."""
    lane = op.get_bind().execute(sa.text(_HEIR)).scalar()
    if lane is not None:
        raise ConfigError(
            f"the store has lane {lane!r}, which follows others, and an earlier Headrace would not "
            "wait for them: remove its stream first, or stay with this version; nothing was changed"
        )
    op.drop_column("headrace_positions", "parents")
