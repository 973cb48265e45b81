"""The process in which a version is unpacked as a worker does it, before it is deployed.

What is unpacked where it was made finds whatever was left there: modules that nobody sends, names
that something has registered. This process has only what it is sent and what is installed, and like
a worker it runs the modules for itself. `checking_process.py` starts it, after its own import; what
it says goes where that one's answers go, and so does what Python's fault handler tells of its end.
"""

from __future__ import annotations

import faulthandler
import os
import pickle
import sys
from dataclasses import dataclass

import cloudpickle

from headrace.deploying.answers import private_output, tell
from headrace.errors import words_of


@dataclass(frozen=True, slots=True)
class Packed:
    """A use case as workers are sent it."""

    #: file, line and name, for errors
    at: str
    code: bytes


@dataclass(frozen=True, slots=True)
class Unpacking:
    """What is to be unpacked, and what that may take."""

    limit_s: float
    packed: tuple[Packed, ...]


def main() -> None:
    """Unpack what standard input has; end with 1 where that fails, and tell why."""
    unpacking: Unpacking = pickle.load(sys.stdin.buffer)  # noqa: S301 - from who started this
    out = private_output()
    faulthandler.enable(out)
    faulthandler.dump_traceback_later(unpacking.limit_s, exit=True, file=out)
    for packed in unpacking.packed:
        tell(out, doing=f"{packed.at} is unpacked as executors do it")
        try:
            cloudpickle.loads(packed.code)
        except BaseException as error:  # a module may raise anything, SystemExit too
            told = f"{packed.at} cannot be unpacked as executors do it: {words_of(error)}"
            tell(out, refused=f"{told}; it has to do without what is there in this process alone")
            os._exit(1)
    # What a module has left running is of no interest.
    os._exit(0)


if __name__ == "__main__":
    main()
