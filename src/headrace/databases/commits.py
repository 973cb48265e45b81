"""A commit, and what is left behind when it fails.

Where the answer is lost, an error does not mean that nothing was done: that has an error of its
own, so that whoever can reads back what became of it.

Where it is refused, as by a constraint that is checked only then, nothing was done. But SQLAlchemy
takes the transaction for ended and gives its connection to the next one as it is; SQLite does not
end it, and keeps the lock on the whole file. So it is rolled back here.
"""

from __future__ import annotations

from sqlalchemy import RootTransaction
from sqlalchemy.exc import DBAPIError

from headrace.errors import OutcomeUnknown


def commit(transaction: RootTransaction, where: str) -> None:
    """Commit, or leave nothing of it.

    Args:
        transaction: what is to be durable.
        where: the database, for errors.

    Raises:
        OutcomeUnknown: it may have happened or not.
        DBAPIError: it was refused.
    """
    try:
        transaction.commit()
    except DBAPIError as error:
        if not error.connection_invalidated:
            transaction.rollback()
            raise
        raise OutcomeUnknown(
            f"{where}: the answer to a commit was lost; it may have happened or not"
        ) from error
