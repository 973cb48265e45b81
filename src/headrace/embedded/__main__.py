"""Fetching jars ahead of time, and making their lock files: ``python -m headrace.embedded``.

Set-up scripts want the wait at the start and not in the middle of a first demo. This is not the
command line of Headrace, which is ``headrace``.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from headrace.embedded.jars import ROOTS, jars, make_lock
from headrace.errors import ServerError


def main(arguments: Sequence[str]) -> int:
    """``fetch`` or ``lock``, and the names of jar sets; all sets when none is named."""
    actions = {"fetch": jars, "lock": make_lock}
    action = actions.get(arguments[0]) if arguments else None
    if action is None:
        sys.stderr.write("usage: python -m headrace.embedded fetch|lock [SET...]\n")
        return 2
    try:
        for name in arguments[1:] or ROOTS:
            action(name)
    except ServerError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
