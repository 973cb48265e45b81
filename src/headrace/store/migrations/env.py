"""How Alembic runs the migrations: on the connection, and in the transaction, it is given.

Headrace migrates when it opens a store, so there is no way here to connect on its own.
"""

from __future__ import annotations

from alembic import context

from headrace.store.migrations import VERSION_TABLE
from headrace.store.schema import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    version_table=VERSION_TABLE,
    transactional_ddl=True,
    # SQLite cannot alter most things of a table, so Alembic makes a new one and copies.
    render_as_batch=True,
    on_version_apply=context.config.attributes["on_apply"],
)
with context.begin_transaction():
    context.run_migrations()
