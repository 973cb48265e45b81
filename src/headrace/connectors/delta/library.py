"""The client library of Delta tables, and what it raises in the words of sinks.

It is imported when it is used, so that who has no such table need not have it. Its errors are few
kinds and long texts; what the operating system said is in these by its number.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from headrace.connectors.client_libraries import not_here
from headrace.connectors.local_files import passes_by
from headrace.errors import HeadraceError, SinkUnavailable, TargetMissing, words_of

_HALF_SEEN = re.compile(
    r"commit files, but found gap|Invalid table version|not the same as the specified end version"
)
_OS_ERROR = re.compile(r"\(os error (\d+)\)")


class BeatenError(Exception):
    """Somebody else has committed since the snapshot; nothing of this commit is there."""


class HalfSeenError(SinkUnavailable):
    """The log was listed while others wrote to it, and a list left one of their commits out.

    Amazon's lists have all that is there; of other stores, and of folders, not every one does.
    """


def library() -> Any:
    """The client library, which only who uses such a table needs.

    Raises:
        CodeNotLoaded: it is not installed on this machine.
    """
    try:
        import deltalake  # noqa: PLC0415 - only who writes Delta needs it
        import deltalake.exceptions  # noqa: PLC0415
    except ImportError as error:
        raise not_here("DeltaTable needs deltalake", "delta", error) from error
    return deltalake


@contextmanager
def told(where: str) -> Iterator[None]:
    """Tell what the library or the system meets in the words of sinks.

    Raises:
        SinkUnavailable: it may pass by itself.
        TargetMissing: a person has to mend it.
    """
    try:
        yield
    except (HeadraceError, BeatenError):
        raise
    except Exception as error:
        raise _as_sinks(error, where) from error


def _as_sinks(error: Exception, where: str) -> HeadraceError:
    if (known := of_the_table(error, where)) is not None:
        return known
    number = _OS_ERROR.search(str(error))
    if number is not None:
        error = OSError(int(number[1]), os.strerror(int(number[1])))
    if isinstance(error, OSError) and not passes_by(error):
        return TargetMissing(
            f"{where}: cannot be written: {error.strerror}; check the folder and the rights to it"
        )
    return SinkUnavailable(f"{where}: cannot be written now: {words_of(error)}")


def of_the_table(error: Exception, where: str) -> HeadraceError | None:
    """What the library says of the table, wherever it is; None: it is of its home."""
    if isinstance(error, library().exceptions.TableNotFoundError):
        return not_there(where)
    if is_half_seen(error):
        return HalfSeenError(f"{where}: others commit to it at this moment")
    return None


def is_half_seen(error: Exception) -> bool:
    """Whether the library has found a hole in a list of commits; see ``HalfSeenError``."""
    return _HALF_SEEN.search(str(error)) is not None


def not_there(where: str) -> TargetMissing:
    """The table is gone, or was never made."""
    return TargetMissing(f"{where}: there is no Delta table; 'headrace use-cases deploy' makes it")
