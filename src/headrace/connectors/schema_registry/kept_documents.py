"""Texts that schemas refer to, kept for the next schema that refers to them, up to a size.

A worker lives for days, and whoever writes records says which schemas are fetched. So of these
texts the ones that were asked for last are kept, and the others are fetched again.
"""

from __future__ import annotations

from collections import OrderedDict

from headrace.connectors.schema_registry.texts import MOST_CHARACTERS, Document, Referred


class KeptDocuments:
    """Texts by where they are; for one thread at a time."""

    def __init__(self, most_characters: int = 2 * MOST_CHARACTERS) -> None:
        """Nothing is kept yet; take how much may be, above what one schema may refer to."""
        self._most_characters = most_characters
        self._kept: OrderedDict[Referred, Document] = OrderedDict()
        self._characters = 0

    def get(self, referred: Referred) -> Document | None:
        """A text; None: it is not kept, or not any more."""
        found = self._kept.get(referred)
        if found is not None:
            self._kept.move_to_end(referred)
        return found

    def put(self, referred: Referred, document: Document) -> None:
        """Keep one that was not kept, in place of those that were not asked for longest."""
        self._kept[referred] = document
        self._characters += len(document.text)
        while self._characters > self._most_characters:
            _, gone = self._kept.popitem(last=False)
            self._characters -= len(gone.text)
