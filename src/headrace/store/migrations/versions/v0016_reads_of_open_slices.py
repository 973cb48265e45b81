"""What was read of slices whose ends only reading tells.

No slice was open before, so there is nothing to find out on the way here. On the way back a store
in which such a slice is recorded is refused and stays as it is: an earlier Headrace would read
another part of the lane when it runs it again. What was read of slices that are done is forgotten.
"""

from __future__ import annotations

import json

import sqlalchemy as sa
from alembic import op

from headrace.errors import ConfigError
from headrace.model.places import OPEN, text_of

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

_NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Make room for what was read."""
    op.create_table(
        "headrace_reads",
        sa.Column("use_case", _NAME, primary_key=True),
        sa.Column("tenant", _NAME, primary_key=True),
        sa.Column("lane", _NAME, primary_key=True),
        sa.Column("from_offset", sa.Text, nullable=False),
        sa.Column("until_offset", sa.Text, nullable=False),
        sa.Column("records", sa.BigInteger, nullable=False),
        sa.ForeignKeyConstraint(
            ["use_case", "tenant"], ["headrace_streams.use_case", "headrace_streams.tenant"]
        ),
        sqlite_with_rowid=False,
    )


def downgrade() -> None:
    """Forget it, if nothing is to run again by it."""
    waves = op.get_bind().execute(sa.text("SELECT wave FROM headrace_intents ORDER BY id"))
    for wave in map(json.loads, waves.scalars()):
        for piece in (piece for bin_ in wave["bins"] for piece in bin_["slices"]):
            if piece.get("until_offset") == text_of(OPEN):
                raise ConfigError(
                    f"the store has a recorded slice of {piece['lane']} whose end only reading "
                    "tells, and an earlier Headrace would read another one: let it come to its end "
                    "or remove its stream first, or stay with this version; nothing was changed"
                )
    op.drop_table("headrace_reads")
