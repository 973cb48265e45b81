"""A wave of DataFrames that Spark reads again has to come to what its receipts count.

Receipts and what a handler computes are answers of several Spark jobs. In between only executors
have the records, and one that dies takes them along: then Spark reads them from Kafka once more,
and says nothing. By then a broker or a registry may be away, or back, or the log be shorter. The
handler would get fewer records than its positions move over, or some that come again later.

So whoever reads again is told what the receipts say, and raises where it finds anything else,
before it hands out a record of that slice. The action fails, and with it the wave, which is tried
again whole. As what is told goes with a job and not with the frame, a reading that was told nothing
is refused as well: it is of a job of no wave, or of a thread that its handler started.

What was read is known by how far it came and how many records it was. Seconds and bytes differ
between two readings of the same. A handler that goes on after an action of it failed is believed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from headrace.errors import ReadOtherwise
from headrace.model.places import Place
from headrace.model.receipts import Receipt
from headrace.model.streams import Slice
from headrace.model.waves import Bin

#: told to the reading that makes the receipts
FIRST = "first"
#: how Python tells of it in the text of somebody else's error
_TOLD = re.compile(rf"\b{ReadOtherwise.__module__}\.{ReadOtherwise.__name__}: ([^\n]*)")


class Seen(NamedTuple):
    """What a reading of a slice came to."""

    reached: Place
    records: int


def seen(receipt: Receipt) -> Seen:
    """What its receipt says of that."""
    return Seen(receipt.reached, receipt.records)


def to_tell(bins: Iterable[Bin], receipts: Iterable[Receipt]) -> str:
    """What the first reading came to, for tasks that read again."""
    found = {receipt.slice: seen(receipt) for receipt in receipts}
    return json.dumps([[found[piece] for piece in bin_.slices] for bin_ in bins])


def heard(text: str | None, number: int, planned: Bin) -> Mapping[Slice, Seen] | None:
    """What was told of a bin; None for the first reading.

    Raises:
        ReadOtherwise: nothing was told.
    """
    if text is None:
        raise ReadOtherwise("a frame is read again where nobody knows what it was at first")
    if text == FIRST:
        return None
    return dict(zip(planned.slices, (Seen(*of) for of in json.loads(text)[number]), strict=True))


def compare(before: Mapping[Slice, Seen], receipt: Receipt) -> None:
    """Hold a slice that was read again against what it was at first.

    Raises:
        ReadOtherwise: it is something else.
    """
    first, now = before[receipt.slice], seen(receipt)
    if first != now:
        why = f" ({receipt.error.code}: {receipt.error.message})" if receipt.error else ""
        raise ReadOtherwise(
            f"{receipt.slice} was {first.records} records up to {first.reached}, and when Spark "
            f"read it again {now.records} up to {now.reached}{why}"
        )


def read_otherwise(error: BaseException | None) -> ReadOtherwise | None:
    """The one that is behind an error of a handler, whatever Spark and the handler made of it."""
    passed = set[int]()
    while error is not None and id(error) not in passed:
        passed.add(id(error))
        if isinstance(error, ReadOtherwise):
            return ReadOtherwise(str(error))
        if found := _TOLD.search(_text(error)):
            return ReadOtherwise(found[1])
        error = error.__cause__ or error.__context__
    return None


def _text(error: BaseException) -> str:
    """All of it: what Spark tells of a task may be in the middle of a long text."""
    try:
        return str(error)
    except Exception:  # it is somebody else's, and may ask a Spark that is gone
        return ""
