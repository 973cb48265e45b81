"""Where in a lane something is: ordered, exact, as wide as its log needs, and opaque.

Kafka numbers the records of a partition one after the other, Kinesis gives them numbers of 56
digits with gaps of any size between them. Whoever subtracts one from another says something of the
first that is nonsense of the second. So a place can be compared, kept, written and read, and
nothing else: its log alone makes places and takes them apart, and says what others need to know of
two of them (`Places`). A place is always the *next* one to read.

At run time a place is a Python ``int``: exact, of any width, quick, and it travels anywhere. To the
type checker it is a class without arithmetic, so that a ``+`` outside of a log's room is an error
there. `tests/unit/model/test_places.py` holds who may make one.

What is no place in any lane stands here as well: `UNKNOWN` is before them all, `OPEN` behind.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

if TYPE_CHECKING:

    class Place:
        """A place in a lane; see the module."""

        def __eq__(self, other: object) -> bool: ...
        def __hash__(self) -> int: ...
        def __lt__(self, other: Place) -> bool: ...
        def __le__(self, other: Place) -> bool: ...
        def __gt__(self, other: Place) -> bool: ...
        def __ge__(self, other: Place) -> bool: ...

else:
    Place = int


def place_at(number: int) -> Place:
    """The place that a log numbers so; for the rooms of logs alone."""
    return cast("Place", number)


def number_at(place: Place) -> int:
    """The number that a log gave a place; for the rooms of logs alone."""
    return cast("int", place)


#: nothing of any lane is before it; where one begins only its log says, and that may be far behind
FIRST: Final = place_at(0)
#: nobody knows the place, or asked yet; before all places
UNKNOWN: Final = place_at(-1)
#: the last one that a number of 64 bits holds, for whoever writes places down as such
NARROW: Final = place_at(2**63 - 1)
#: no place at all: as far as there is anything; behind all places
OPEN: Final = place_at(10**76)
#: digits of the widest text that is read; of longer ones Python makes no number at all
_WIDEST: Final = 77


def text_of(place: Place) -> str:
    """A place as text, as it stands in a store, in JSON, and before people."""
    return str(place)


def read_place(text: str) -> Place:
    """The place that ``text_of`` wrote so.

    Raises:
        ValueError: it is the text of no place.
    """
    digits = text.isascii() and text.isdigit() and len(text) <= _WIDEST
    if not digits or (text[0] == "0" and text != "0"):
        shown = f"{text[:_WIDEST]}..." if len(text) > _WIDEST else text
        raise ValueError(f"{shown!r} is no place in a lane: digits alone, as they are shown")
    return place_at(int(text))


@dataclass(frozen=True, slots=True)
class Places:
    """What a log says of its places. Its functions are called for each lane in each turn."""

    #: the place so many records after another one, or `OPEN` where nobody knows without reading;
    #: never past the end if they were counted to be there
    after: Callable[[Place, int], Place]
    #: how many records there are from the second place up to the first, which is not before it; at
    #: most, where some of them are not there. None: nobody knows without reading, as there can be
    #: of lanes whose ends only reading tells, and of no others
    between: Callable[[Place, Place], int | None]
    #: the place behind the record at a place
    behind: Callable[[Place], Place]
    #: whether a place is the number of the record there, of which versions are made: then those of
    #: one lane compare whoever reads it. Else records are counted by each that does
    numbers: bool = False
