"""Opening and closing what is somebody else's, inside a task.

What a task raises ends its Spark job, and with it the bins of all other tenants in the wave. A sink
of users may raise anything where it is opened or closed, and so may whatever reads, moves positions
or keeps dead letters. So that becomes an error of the slices of this bin alone. It is temporary: no
record is to blame, and what is missing there may be mended any moment.

What a sink raises where it closes says nothing of what it wrote: that was durable when ``write``
returned. So it counts, and is not written again.

It does not end what hangs, and does not call again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from headrace.errors import HeadraceError, SinkUnavailable, Temporary, words_of
from headrace.ports import Sink, SinkWriter, Site
from headrace.process.crash_points import PlayedKill

_T = TypeVar("_T")


def opened_for(use_case: str, sink: Sink, site: Site) -> SinkWriter:
    """What writes for a bin.

    Raises:
        HeadraceError: the sink's own, or ``SinkUnavailable`` for all else that it raises.
    """
    what = f"the sink {type(sink).__name__} of use case {use_case}"
    return opened_or_told(lambda: sink.open(site), what, SinkUnavailable)


def opened_or_told(open_it: Callable[[], _T], what: str, kind: type[Temporary]) -> _T:
    """What was opened.

    Args:
        open_it: opens it.
        what: is opened.
        kind: of the error, where it raises what is none of ours.

    Raises:
        HeadraceError: it cannot be opened.
    """
    try:
        return open_it()
    except (HeadraceError, PlayedKill):
        raise
    except BaseException as error:  # an exit too: it would end the job
        raise kind(
            f"{what} could not be opened: {words_of(error)}; mend what it says, or deploy "
            "another version; it is tried again until then"
        ) from error


def trouble_of_closing(use_case: str, sink: Sink, writer: SinkWriter) -> SinkUnavailable | None:
    """Close a writer; what it raised, if anything."""
    try:
        writer.close()
    except PlayedKill:
        raise
    except BaseException as error:  # an exit too: it would end the job
        trouble = SinkUnavailable(
            f"the sink {type(sink).__name__} of use case {use_case} could not be closed: "
            f"{words_of(error)}; what it wrote before counts; mend its close(), and deploy it"
        )
        trouble.__cause__ = error
        return trouble
    return None
