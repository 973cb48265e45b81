"""What sinks say of the client libraries of their targets, where all say the same.

A library is imported when it is used, so that who has no such target need not have it.
"""

from __future__ import annotations

from typing import Final

from headrace.errors import CodeNotLoaded, words_of

#: of a server or a cluster, by all of them
REFUSES_LOGIN: Final = (
    "does not take this user and password; mend them under 'connections:' and start drivers anew"
)


def not_here(needs: str, extra: str, error: Exception) -> CodeNotLoaded:
    """That a library cannot be imported on this machine.

    Args:
        needs: who needs which.
        extra: of this package, with which it comes.
        error: what the import raised.
    """
    return CodeNotLoaded(
        f"{needs}, which is not here: pip install 'headrace[{extra}]' ({words_of(error)})"
    )
