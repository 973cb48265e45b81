"""What a visit of a shard leaves to the next one, so that it need not be found again.

An iterator goes on with what is left and says nothing of what retention took. So who leaves one
says what he knew of that: how far back what he did not pass can lie, or that the record with which
he was to begin did not come yet. Without it losses that a place would show were not seen any more.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from headrace.model.places import Place

_WAITS: Final = "waits"


class Note(NamedTuple):
    """An iterator, and what holds where it is."""

    iterator: str
    #: nothing that was not passed came before this millisecond; 0: nobody knows
    unread_ms: int
    #: it is still to be seen that nothing is gone
    waits: bool = False

    def at(self, place: Place) -> str:
        """As it travels, for who begins at this place."""
        return f"{place} {_WAITS if self.waits else self.unread_ms} {self.iterator}"


def note_of(told: str, place: Place) -> Note | None:
    """The note of the last visit, if it came to where this one begins."""
    at, _, rest = told.partition(" ")
    known, _, iterator = rest.partition(" ")
    if at != str(place) or not iterator or not (known == _WAITS or known.isdecimal()):
        return None
    waits = known == _WAITS
    return Note(iterator, 0 if waits else int(known), waits)
