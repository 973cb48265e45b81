"""What every sink says of an effect: its name, and why it was not written.

A reader that drops repeats needs one text for one effect, and the driver needs one shape for a
failure, whichever sink met it. Both are made here. This module writes nothing anywhere.
"""

from __future__ import annotations

from headrace.errors import HeadraceError, Temporary, code_of, text_of
from headrace.model.receipts import SliceError
from headrace.model.streams import original
from headrace.ports import Effect, Written


def identity(effect: Effect) -> str:
    """Name an effect: ``use_case/tenant/partition:from-reached``, joined by commas if several.

    The same slice run again to the same offset has the same identity; nothing else has.
    """
    return ",".join(
        f"{original(piece.lane.use_case)}/{piece.lane.tenant}/{piece.lane.partition}:{piece.from_offset}-{reached}"
        for piece, reached in zip(effect.slices, effect.reached, strict=True)
    )


def failed(error: HeadraceError) -> Written:
    """Say that nothing was written, and whether trying again can help."""
    temporary = isinstance(error, Temporary)
    return Written(
        error=SliceError(
            temporary=temporary,
            code=code_of(error),
            message=text_of(error),
            retry_after_s=error.retry_after_s if isinstance(error, Temporary) else None,
        )
    )
