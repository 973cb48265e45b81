"""What drivers say to deployments: that they run one, or why not.

A driver's word stands as long as its row: who leaves, is inherited from or is replaced says nothing
any more, so that nobody waits for it or believes it. Each word replaces all that it said before.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict

from sqlalchemy import Connection, delete, insert, select

from headrace.model.records import Answer
from headrace.store.schema import answers


def every(connection: Connection) -> list[Answer]:
    """All answers, by use case and driver."""
    rows = connection.execute(select(answers).order_by(answers.c.use_case, answers.c.driver))
    return [Answer(**row) for row in rows.mappings()]


def replace(connection: Connection, driver: str, given: Collection[Answer]) -> None:
    """Let these be all that a driver says."""
    forget(connection, driver)
    if given:
        connection.execute(insert(answers), [asdict(answer) for answer in given])


def forget(connection: Connection, driver: str) -> None:
    """Drop what a driver said."""
    connection.execute(delete(answers).where(answers.c.driver == driver))
