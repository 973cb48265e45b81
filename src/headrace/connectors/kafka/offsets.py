"""Offsets as places: Kafka numbers the records of a partition one after the other.

So of two offsets it is known how many records are between them at most, and of one where so many
records end. Nobody outside of this room knows that; others have it as ``OFFSETS``. Between here and
the client of Kafka an offset is an ``int``.
"""

from __future__ import annotations

import operator

from headrace.model.places import Place, Places, number_at, place_at
from headrace.model.streams import Slice


def behind(offset: Place) -> Place:
    """The offset after that of a record."""
    return place_at(number_at(offset) + 1)


#: functions in C, as they are called for each lane in each turn
OFFSETS = Places(after=operator.add, between=operator.sub, behind=behind, numbers=True)


def span_of(piece: Slice) -> int:
    """How many offsets a slice spans: at least as many as the records in it (there can be gaps)."""
    return number_at(piece.until_offset) - number_at(piece.from_offset)
