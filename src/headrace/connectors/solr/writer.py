"""Writing effects: each row a document of requests, of which those that are older change nothing.

A request is refused as a whole for one document of it, and those before that may be there. So it is
halved, down to that document: who is written again changes nothing. Solr's reason names the id of
the document, which is the tenant's to choose. So where it blames the collection, that is looked at
before all lanes stop.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from headrace.connectors import row_by_row
from headrace.connectors.changes import Change
from headrace.connectors.in_parts import in_halves, sent
from headrace.connectors.solr.documents import SolrDocuments
from headrace.connectors.solr.fitting import CHAIN, fit
from headrace.connectors.solr.library import CollectionBlamed
from headrace.connectors.solr.servers import Solr
from headrace.errors import ConfigError, HeadraceError, SinkRefused, TargetMissing
from headrace.ports import Effect, Written

#: seen by searches within so many milliseconds
_UPDATE: Final = f"update?update.chain={CHAIN}&commitWithin=1000"


class SolrWriter:
    """Writes the effects of a bin to a collection that is there."""

    def __init__(
        self, documents: SolrDocuments, solr: Solr, collection: str, until_s: float = math.inf
    ) -> None:
        """Take what documents are and where; others wait until a second of the steady clock."""
        self._documents, self._solr, self._until_s = documents, solr, until_s
        self._collection = collection
        self._path = f"/{collection}/{_UPDATE}"

    def write(self, effects: Sequence[Effect]) -> Sequence[Written]:
        """Write all rows that can be written; see ``SinkWriter.write``."""
        return row_by_row.write(effects, self._changes, self._sent, self._documents.where)

    def close(self) -> None:
        """Nothing to give up: the client is kept for the next bin."""

    def _changes(self, effect: Effect) -> list[Change]:
        return self._documents.changes(effect.output, effect.version)

    def _sent(self, changes: Sequence[Change], use_case: str) -> list[HeadraceError | None]:
        with self._solr.until(self._until_s):
            return sent(changes, use_case, self._judged, self._documents.where, self._until_s)

    def _judged(self, part: Sequence[Change]) -> list[HeadraceError | None]:
        return in_halves(part, self._asked)

    def _asked(self, part: Sequence[Change]) -> list[HeadraceError | None]:
        documents = b",".join([change.values[0] for change in part])
        try:
            self._solr.asked(self._path, b"[" + documents + b"]")
        except CollectionBlamed as error:
            raise self._culprit(error) from error
        return [None] * len(part)

    def _culprit(self, error: CollectionBlamed) -> HeadraceError:
        try:
            fit(self._solr, self._collection, self._documents.columns)
        except ConfigError:
            return TargetMissing(str(error))
        return SinkRefused(str(error))
