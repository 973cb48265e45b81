"""What schemas came to before: clients ask for the same ones again and again.

A few bytes may come to megabytes, once every name in them is written out. So what is measured is
what is kept, both what came in and what it came to, and all together has a bound.
"""

from __future__ import annotations

from collections import OrderedDict
from sys import getsizeof
from threading import Lock

from headrace.ports.schemas import WrittenSchema
from headrace.schema_registry.rules.texts import Form

#: bytes of memory, of one and of all
_MOST_OF_ONE = 256 * 1024
_MOST_OF_ALL = 32 * 1024**2


class KnownForms:
    """Forms by schemas, the ones that were asked for last. Safe in several threads."""

    def __init__(self, most_of_one: int = _MOST_OF_ONE, most_of_all: int = _MOST_OF_ALL) -> None:
        """Nothing is known yet; take how many bytes one may have, and all together."""
        self._most_of_one, self._most_of_all = most_of_one, most_of_all
        self._kept: OrderedDict[WrittenSchema, tuple[Form, int]] = OrderedDict()
        self._size = 0
        self._lock = Lock()

    @property
    def size(self) -> int:
        """Bytes of all that is kept."""
        return self._size

    def get(self, written: WrittenSchema) -> Form | None:
        """What a schema came to; None: that is not known any more."""
        with self._lock:
            found = self._kept.get(written)
            if found is None:
                return None
            self._kept.move_to_end(written)
            return found[0]

    def put(self, written: WrittenSchema, form: Form) -> None:
        """Keep what a schema came to, if it is not too large."""
        size = _size(written, form)
        if size > self._most_of_one:
            return
        with self._lock:
            _, before = self._kept.pop(written, (form, 0))
            self._kept[written] = form, size
            self._size += size - before
            while self._size > self._most_of_all:
                _, (_, gone) = self._kept.popitem(last=False)
                self._size -= gone


def _size(written: WrittenSchema, form: Form) -> int:
    named = sum(getsizeof(name) + getsizeof(text) for name, text in written.references)
    formed = getsizeof(form.canonical) + getsizeof(form.normalized) + getsizeof(form.serialized)
    return getsizeof(written.text) + named + formed
