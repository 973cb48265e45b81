"""The first tables.

They are spelled out and not taken from ``schema.py``: a migration must go on making what it made.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_SERIAL = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Make all tables, and the first revision."""
    _nouns()
    _progress()
    _failures()
    op.execute("INSERT INTO headrace_revision (id, revision) VALUES (1, 0)")


def downgrade() -> None:
    """Drop all tables, with what is in them."""
    for table in (
        "headrace_failure_headers",
        "headrace_failures",
        "headrace_intents",
        "headrace_positions",
        "headrace_streams",
        "headrace_deployments",
        "headrace_tenants",
        "headrace_revision",
    ):
        op.drop_table(table)


def _nouns() -> None:
    op.create_table(
        "headrace_revision",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("revision", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "headrace_tenants",
        sa.Column("name", _NAME, primary_key=True),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("weight", sa.Double, nullable=False),
        sa.Column("records_per_s", sa.Double),
        sa.Column("bytes_per_s", sa.Double),
    )
    op.create_table(
        "headrace_deployments",
        sa.Column("use_case", _NAME, primary_key=True),
        sa.Column("module", sa.Text, nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("topic", sa.Text, nullable=False),
        sa.Column("record_order", sa.Text, nullable=False),
        sa.Column("starting_offsets", sa.Text, nullable=False),
        sa.Column("all_tenants", sa.Boolean, nullable=False),
        sa.Column("priority", sa.Integer, nullable=False),
        sa.Column("options", sa.Text, nullable=False),
    )
    op.create_table(
        "headrace_streams",
        sa.Column(
            "use_case", _NAME, sa.ForeignKey("headrace_deployments.use_case"), primary_key=True
        ),
        sa.Column("tenant", _NAME, sa.ForeignKey("headrace_tenants.name"), primary_key=True),
        sa.Column("topic", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("topic_id", sa.Text),
        sa.Column("epoch", sa.BigInteger, nullable=False),
        sa.Column("reason", sa.Text),
    )


def _progress() -> None:
    op.create_table(
        "headrace_positions",
        sa.Column("use_case", _NAME, primary_key=True),
        sa.Column("tenant", _NAME, primary_key=True),
        sa.Column("partition", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("next_offset", sa.BigInteger, nullable=False),
        sa.Column("epoch", sa.BigInteger, nullable=False),
        _of_stream(),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "headrace_intents",
        sa.Column("id", _SERIAL, primary_key=True),
        sa.Column("wave_id", sa.Text, nullable=False, unique=True),
        sa.Column("wave", sa.Text, nullable=False),
        sqlite_autoincrement=True,
    )


def _failures() -> None:
    op.create_table(
        "headrace_failures",
        sa.Column("id", _SERIAL, primary_key=True),
        sa.Column("at_s", sa.Double, nullable=False),
        sa.Column("use_case", _NAME, nullable=False),
        sa.Column("tenant", _NAME, nullable=False),
        sa.Column("partition", sa.Integer, nullable=False),
        sa.Column("topic", sa.Text, nullable=False),
        sa.Column("from_offset", sa.BigInteger, nullable=False),
        sa.Column("until_offset", sa.BigInteger, nullable=False),
        sa.Column("epoch", sa.BigInteger, nullable=False),
        sa.Column("more", sa.Boolean, nullable=False),
        sa.Column("temporary", sa.Boolean, nullable=False),
        sa.Column("code", sa.Text, nullable=False),
        sa.Column("message", sa.LargeBinary, nullable=False),
        sa.Column("traceback", sa.LargeBinary, nullable=False),
        sa.Column("record_offset", sa.BigInteger),
        sa.Column("raw_key", sa.LargeBinary),
        sa.Column("raw_value", sa.LargeBinary),
        sa.Column("retry_after_s", sa.Double),
        _of_stream(),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "headrace_failure_headers",
        sa.Column("failure_id", _SERIAL, sa.ForeignKey("headrace_failures.id"), primary_key=True),
        sa.Column("place", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("name", sa.LargeBinary, nullable=False),
        sa.Column("value", sa.LargeBinary),
    )


def _of_stream() -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(
        ["use_case", "tenant"], ["headrace_streams.use_case", "headrace_streams.tenant"]
    )
