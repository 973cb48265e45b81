"""What stays in memory for good, and need not be looked through again and again."""

from __future__ import annotations

import gc

#: more than a turn over 10,000 lanes makes
_COLLECT_AFTER_OBJECTS = 200_000


def calm_garbage_collection() -> None:
    """Keep Python's collector out of the middle of a turn.

    What is there now (modules, settings, use cases) stays for good, and need not be walked by
    every full collection; and a turn over 10,000 lanes makes tens of thousands of short-lived
    objects without a cycle among them, which by default starts dozens of collections. Measured,
    the two made the slowest turns two to three times as long.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_COLLECT_AFTER_OBJECTS)
