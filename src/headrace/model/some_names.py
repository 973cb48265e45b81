"""Names in a sentence: the first ones, and how many more there are.

A reason or an error may be about ten thousand lanes. Who reads it knows by a few of them which ones
are meant, and by their number how bad it is.
"""

from __future__ import annotations

from collections.abc import Sequence


def some_of(names: Sequence[object], most: int) -> str:
    """As ``a, b and 3 more``; all of them if they are no more than so many."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(map(str, names[:most]))}{more}"
