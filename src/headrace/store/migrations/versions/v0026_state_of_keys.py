"""State of keys, and how much of it there is.

No use case had any before. On the way back a store is refused in which there is some: an earlier
Headrace would move positions without it, and what it remembers would be wrong for ever.

No foreign key leads to the streams: a task adds the first row of a lane while it holds a position,
and to check one it would wait for whoever holds the stream and wants just that position.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from headrace.errors import ConfigError

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None

_NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_KEPT = "SELECT use_case, tenant FROM headrace_state_sizes ORDER BY use_case, tenant LIMIT 1"


def upgrade() -> None:
    """Make room for it."""
    op.create_table(
        "headrace_state",
        sa.Column("use_case", _NAME, primary_key=True),
        sa.Column("tenant", _NAME, primary_key=True),
        sa.Column("part", _NAME, primary_key=True),
        sa.Column("name", _NAME, primary_key=True),
        sa.Column("key", sa.LargeBinary, primary_key=True),
        sa.Column("value", sa.LargeBinary, nullable=False),
        sqlite_with_rowid=False,
        postgresql_with={"fillfactor": 80},
    )
    op.create_table(
        "headrace_state_sizes",
        sa.Column("use_case", _NAME, primary_key=True),
        sa.Column("tenant", _NAME, primary_key=True),
        sa.Column("lane", _NAME, primary_key=True),
        sa.Column("row_count", sa.BigInteger, nullable=False),
        sa.Column("byte_count", sa.BigInteger, nullable=False),
        sqlite_with_rowid=False,
        postgresql_with={"fillfactor": 80},
    )


def downgrade() -> None:
    """See that there is none."""
    for row in op.get_bind().execute(sa.text(_KEPT)).all():
        raise ConfigError(
            f"stream {row.tenant}/{row.use_case} keeps state, and an earlier Headrace knows none: "
            "remove it or stay with this version; nothing was changed"
        )
    op.drop_table("headrace_state_sizes")
    op.drop_table("headrace_state")
