"""What every sink says of an effect: its name, and why it was not written.

A reader that drops repeats needs one text for one effect, and the driver needs one shape for a
failure, whichever sink met it. Both are made here. A handler's table can make a library raise
anything; what comes out of a writer stops or repeats the effects of all tenants of the call, so a
writer catches it where it still knows whose it is. This module writes nothing anywhere.
"""

from __future__ import annotations

from headrace.errors import (
    HeadraceError,
    SinkRefused,
    SinkUnavailable,
    TargetMissing,
    Temporary,
    code_of,
    text_of,
    words_of,
)
from headrace.model.lane_names import written_name
from headrace.model.receipts import SliceError
from headrace.model.streams import original
from headrace.ports import Effect, Written


def identity(effect: Effect) -> str:
    """Name an effect: ``use_case/tenant/lane:from-reached``, joined by commas if several.

    The same slice run again to the same place has the same identity; nothing else has. A numbered
    lane of the stream's own topic is called by its number, any other by its whole name.
    """
    parts = []
    for piece, reached in zip(effect.slices, effect.reached, strict=True):
        lane = piece.lane
        name = written_name(lane.name, piece.topic)
        parts.append(
            f"{original(lane.use_case)}/{lane.tenant}/{name}:{piece.from_offset}-{reached}"
        )
    return ",".join(parts)


def going_on(effect: Effect) -> str:
    """Which command lets what stopped at an effect go on."""
    return f"then 'headrace streams resume {effect.slices[0].lane.stream}' goes on"


def told(error: Exception, where: str) -> HeadraceError:
    """What one effect met, in our words; an error that nobody expected refuses that effect."""
    if isinstance(error, HeadraceError):
        return error
    if isinstance(error, MemoryError):
        return SinkUnavailable(f"{where}: there is not enough memory now")
    return SinkRefused(f"{where}: it cannot be written: {words_of(error)}")


def of_no_record(error: Exception, where: str) -> Temporary | TargetMissing:
    """The same of what is no record's: it came before one was sent, or to all that were sent."""
    if isinstance(error, Temporary | TargetMissing):
        return error
    if isinstance(error, HeadraceError):
        return TargetMissing(f"{where}: {error}")
    # Nothing of what was written is quoted.
    return SinkUnavailable(f"{where}: what came back is not understood ({type(error).__name__})")


def failed(error: Exception, where: str = "sink") -> Written:
    """Say that nothing was written, and whether trying again can help.

    Args:
        error: one of ``headrace.errors``; any other refuses the effect.
        where: names the sink, where the error is not ours.
    """
    error = told(error, where)
    temporary = isinstance(error, Temporary)
    return Written(
        error=SliceError(
            temporary=temporary,
            code=code_of(error),
            message=text_of(error),
            retry_after_s=error.retry_after_s if isinstance(error, Temporary) else None,
        )
    )
