"""Where in a shard something is, as a place.

Kinesis numbers the records of a shard with up to 56 digits and gaps of any size, and that is not
enough to go on from. A record that the Kinesis Producer Library made has many in it, of which some
may be done. And where nothing comes for hours an answer can be empty again and again before the
next record, so how far these came has to be known as well; that moment also tells whether retention
can have taken something that nobody read.

So a place is the sequence number with ``_TAIL_DIGITS`` digits of ours behind it, and reads as such
to whoever knows the number. They say which part of the record is next, or that the record is passed
and up to which millisecond nothing came after it. Or somebody begins in the middle of a shard, at a
moment and behind no record that he knows; then they say that one. A shard that takes no more
records ends at `END`, behind all of them: so where a parent ends is known for ever, also when
nobody lists it any more.

How many records are between two places, only reading tells.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from headrace.model.places import OPEN, Place, Places, number_at, place_at

_TAIL_DIGITS: Final = 16
_TAIL: Final[int] = 10**_TAIL_DIGITS
#: a tail below it is the number of a part; from it on it is a moment
_PASSED: Final = 10**15
#: from this one on it is a moment before which nothing counts
_SINCE: Final = 5 * 10**15
#: a moment of which nobody says anything: it is before all that there ever was
_BEGUN_MS: Final = 1
#: digits of the widest sequence number that has room in a place; of Amazon's they are 56
MOST_DIGITS: Final = 59
_TOO_WIDE: Final[int] = 10**MOST_DIGITS
#: behind all records of a shard that takes no more
END: Final = place_at(_TOO_WIDE * _TAIL)


class Spot(NamedTuple):
    """What a place says."""

    #: the sequence number of a record; of a shard in which none was yet, the one it starts with
    number: int
    #: which part of that record is next; None: all of it is passed
    part: int | None
    #: if it is passed: nothing came after it before this millisecond since 1970; 0: nobody knows
    quiet_ms: int = 0
    #: the number is that which the shard starts with, and what came before the moment is not read
    is_since: bool = False

    @property
    def is_beginning(self) -> bool:
        """Whether it is where a shard began, and no record was looked for there yet."""
        return self.part is None and self.quiet_ms == _BEGUN_MS and not self.is_since

    @property
    def place(self) -> Place:
        """The place that says so."""
        if self.part is not None:
            return place_at(self.number * _TAIL + self.part)
        tail = (_SINCE if self.is_since else _PASSED) + self.quiet_ms
        return place_at(self.number * _TAIL + tail)

    def quiet_until(self, ms: int) -> Place:
        """The same place, with nothing behind it before a later moment."""
        return self._replace(quiet_ms=max(0, ms)).place


def spot_of(place: Place) -> Spot:
    """What a place says; of `END` nothing of use."""
    number, tail = divmod(number_at(place), _TAIL)
    if tail < _PASSED:
        return Spot(number, tail)
    is_since = tail >= _SINCE
    return Spot(number, None, tail - (_SINCE if is_since else _PASSED), is_since)


def before(number: int, part: int = 0) -> Place:
    """The place at which a record, or a part of it, is next."""
    return Spot(number, part).place


def passed(number: int, quiet_ms: int = 0) -> Place:
    """The place behind all of a record; nothing came after it before this millisecond."""
    return Spot(number, None, max(0, quiet_ms)).place


def beginning(starting: int) -> Place:
    """The place at which a shard begins that starts with this number, whatever is left of it."""
    return passed(starting, _BEGUN_MS)


def since(starting: int, ms: int) -> Place:
    """The place of who reads a shard that starts with this number from a moment on."""
    return Spot(starting, None, max(0, ms), is_since=True).place


def has_room(number: int) -> bool:
    """Whether a sequence number is one that places can be made of."""
    return 0 <= number < _TOO_WIDE


def _after(place: Place, records: int) -> Place:
    return OPEN if records else place


def _between(later: Place, place: Place) -> int | None:
    return 0 if later == place else None


def _behind(place: Place) -> Place:
    return place_at(number_at(place) + 1)


PLACES: Final = Places(after=_after, between=_between, behind=_behind)
