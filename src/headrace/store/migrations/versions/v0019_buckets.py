"""Into how many buckets the lanes of a use case are divided.

Nobody had any before. On the way back a store is refused in which lanes are divided, or are to be,
and stays as it is: an earlier Headrace would take a bucket for a lane that is not there, and read
the whole lane from its beginning.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from headrace.errors import ConfigError
from headrace.model.buckets import bucket_of

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None

_LANES = "SELECT use_case, tenant, lane FROM headrace_positions ORDER BY use_case, tenant, lane"
_KEYED = (
    "SELECT use_case, record_order FROM headrace_deployments WHERE record_order = 'key' "
    "OR (record_order = 'none' AND buckets > 1) ORDER BY use_case"
)


def upgrade() -> None:
    """Divide no lane."""
    column = sa.Column("buckets", sa.Integer, nullable=False, server_default="1")
    op.add_column("headrace_deployments", column)


def downgrade() -> None:
    """Forget that lanes could be divided."""
    connection = op.get_bind()
    for row in connection.execute(sa.text(_KEYED)).all():
        _refuse(f"use case {row.use_case} has order {row.record_order} and buckets")
    for row in connection.execute(sa.text(_LANES)).all():
        if bucket_of(row.lane) is not None:
            _refuse(f"the store has {row.lane!r} of {row.tenant}/{row.use_case}, a bucket")
    op.drop_column("headrace_deployments", "buckets")


def _refuse(what: str) -> None:
    raise ConfigError(
        f"{what}, and an earlier Headrace knows no buckets: deploy it with order lane, let that go "
        "on until 'headrace streams list' shows no buckets, or stay with this version; nothing was "
        "changed"
    )
