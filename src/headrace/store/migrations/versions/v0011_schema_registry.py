"""Schemas that teams agree on: by id, by subject and version, with what refers to what.

On the way back all schemas are lost, so keep a copy of the tables where records name their ids.
Keys of role ``schemas`` are dropped with them: no version before knows the role.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

_NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Make the tables, and the row that ids are given from."""
    ids = op.create_table(
        "headrace_schema_ids",
        sa.Column("id", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("newest", sa.BigInteger(), nullable=False),
    )
    op.bulk_insert(ids, [{"id": 1, "newest": 0}])
    op.create_table(
        "headrace_schemas",
        sa.Column("id", sa.BigInteger(), primary_key=True, autoincrement=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False, unique=True),
        sa.Column("guid", sa.Text(), nullable=False, unique=True),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("text", sa.LargeBinary(), nullable=False),
    )
    op.create_table(
        "headrace_schema_references",
        sa.Column(
            "schema_id", sa.BigInteger(), sa.ForeignKey("headrace_schemas.id"), primary_key=True
        ),
        sa.Column("place", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("name", sa.LargeBinary(), nullable=False),
        sa.Column("subject", _NAME, nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Index("headrace_schema_referred", "subject", "version"),
    )
    op.create_table(
        "headrace_schema_versions",
        sa.Column("subject", _NAME, primary_key=True),
        sa.Column("version", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column(
            "schema_id", sa.BigInteger(), sa.ForeignKey("headrace_schemas.id"), nullable=False
        ),
        sa.Column("deleted", sa.Boolean(), nullable=False),
        sa.Index("headrace_schema_versions_schemas", "schema_id"),
    )
    op.create_table(
        "headrace_schema_settings",
        sa.Column("subject", _NAME, primary_key=True),
        sa.Column("setting", sa.Text(), primary_key=True),
        sa.Column("value", sa.Text(), nullable=False),
    )


def downgrade() -> None:
    """Drop them again."""
    op.execute("DELETE FROM headrace_keys WHERE role = 'schemas'")
    for name in ("settings", "versions", "references"):
        op.drop_table(f"headrace_schema_{name}")
    op.drop_table("headrace_schemas")
    op.drop_table("headrace_schema_ids")
