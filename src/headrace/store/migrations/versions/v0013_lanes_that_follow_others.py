"""Lanes that follow others, with the parents that they wait for, and their depth.

No log had such lanes before, so nothing has to be found out on the way here. On the way back a
store in which one still waits is refused and stays as it is: an earlier Headrace would read it at
once, before what comes before it. What came to its end, or was decided about, is forgotten; and so
is how often streams were sent back, which an earlier Headrace gives nobody.
"""

from __future__ import annotations

import json

import sqlalchemy as sa
from alembic import op

from headrace.errors import ConfigError

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

_HEIRS = """
SELECT use_case, tenant, lane, parents FROM headrace_positions
WHERE parents IS NOT NULL ORDER BY use_case, tenant, lane
"""
_PARENT = """
SELECT next_offset FROM headrace_positions
WHERE use_case = :use_case AND tenant = :tenant AND lane = :lane
"""


def upgrade() -> None:
    """Make room for parents."""
    op.add_column("headrace_positions", sa.Column("parents", sa.Text))
    for table in ("headrace_positions", "headrace_streams"):
        depth = sa.Column("depth", sa.BigInteger, nullable=False, server_default="0")
        op.add_column(table, depth)


def downgrade() -> None:
    """Forget that lanes could have any."""
    for row in op.get_bind().execute(sa.text(_HEIRS)).all():
        for parent, end in json.loads(row.parents):
            _check_done(row, parent, end)
    op.drop_column("headrace_positions", "parents")
    for table in ("headrace_positions", "headrace_streams"):
        op.drop_column(table, "depth")


def _check_done(row: sa.Row[str, str, str, str], parent: str, end: str | None) -> None:
    named = {"use_case": row.use_case, "tenant": row.tenant, "lane": parent}
    at = op.get_bind().execute(sa.text(_PARENT), named).scalar()
    if end is not None and at is not None and int(at) < int(end):
        raise ConfigError(
            f"the store has lane {row.lane!r} of {row.tenant}/{row.use_case}, which is not read "
            f"before {parent!r} is done, and an earlier Headrace would not wait: let it come to "
            "its end or remove its stream first, or stay with this version; nothing was changed"
        )
