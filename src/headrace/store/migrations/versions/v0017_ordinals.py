"""How many records of a lane were passed, for logs that have no number for each.

No log had wider places than 47 bits hold before, so all of them begin at 0, which is told by nobody
of Kafka's offsets. On the way back the count is forgotten, and with it which versions were given:
the lanes of such a stream become deeper than they were, so that none of these is given again. Those
of a rerun stay as deep as what it reads was: what it makes again is never newer than what came
later.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from headrace.model.streams import original

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None

_COUNTED = """
SELECT s.use_case, s.tenant, s.depth AS base, MAX(p.depth) AS deepest
FROM headrace_streams s JOIN headrace_positions p
  ON p.use_case = s.use_case AND p.tenant = s.tenant
GROUP BY s.use_case, s.tenant, s.depth
HAVING MAX(p.ordinal) > 0
"""


def upgrade() -> None:
    """Begin to count."""
    op.add_column(
        "headrace_positions",
        sa.Column("ordinal", sa.BigInteger, nullable=False, server_default="0"),
    )


def downgrade() -> None:
    """Forget the count, and let no version come again."""
    connection = op.get_bind()
    for row in connection.execute(sa.text(_COUNTED)).all():
        if original(row.use_case) != row.use_case:
            continue
        given = {"more": max(row.base, row.deepest) - row.base + 1}
        given |= {"use_case": row.use_case, "tenant": row.tenant}
        for table in ("headrace_positions", "headrace_streams"):
            deeper = f"UPDATE {table} SET depth = depth + :more"  # noqa: S608
            ours = "use_case = :use_case AND tenant = :tenant"
            connection.execute(sa.text(f"{deeper} WHERE {ours}"), given)
    op.drop_column("headrace_positions", "ordinal")
