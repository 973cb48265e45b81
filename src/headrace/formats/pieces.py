"""Payloads in pieces: what Python makes of a record is many times as large as its bytes.

So it becomes columns piece by piece, and no more than one piece of it is held at once.
"""

from __future__ import annotations

from collections.abc import Sequence


def ends_of_pieces(values: Sequence[bytes | None], piece_bytes: int) -> list[int]:
    """Where pieces end, of about so many bytes each; there is one at least."""
    ends, held = list[int](), 0
    for number, value in enumerate(values, 1):
        held += len(value or b"")
        if held >= piece_bytes:
            ends.append(number)
            held = 0
    return ends if ends and ends[-1] == len(values) else [*ends, len(values)]
