"""Writing effects: each row a document of bulk requests, of which the cluster judges each.

A document that is older than the one there is a conflict: it was done already, or is too late, and
either way nothing is left to do.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from headrace.connectors import row_by_row
from headrace.connectors.changes import Change
from headrace.connectors.in_parts import in_halves, sent
from headrace.connectors.search.documents import Documents
from headrace.connectors.search.library import TOO_LARGE, judged, odd, translated
from headrace.connectors.search.servers import Cluster
from headrace.errors import HeadraceError, SinkRefused
from headrace.model.patterns import TENANT
from headrace.ports import Effect, Written

#: through the alias alone
_BULK: Final = "/_bulk?require_alias=true&timeout={}"
#: how long shards are waited for that nobody has, alone and where others wait
_ALONE, _IN_COMPANY = "5s", "500ms"


class SearchWriter:
    """Writes the effects of a bin to indexes that are there."""

    def __init__(
        self,
        documents: Documents,
        cluster: Cluster,
        name: str,
        *,
        in_company: bool,
        until_s: float = math.inf,
    ) -> None:
        """Take what documents are and where; others wait until a second of the steady clock."""
        self._documents, self._cluster, self._name = documents, cluster, name
        self._by_tenant = TENANT in name
        self._bulk = _BULK.format(_IN_COMPANY if self._by_tenant and in_company else _ALONE)
        self._until_s = until_s

    def write(self, effects: Sequence[Effect]) -> Sequence[Written]:
        """Write all rows that can be written; see ``SinkWriter.write``."""
        return row_by_row.write(
            effects,
            self._changes,
            self._sent,
            self._documents.where,
            by_tenant=self._by_tenant,
        )

    def close(self) -> None:
        """Nothing to give up: the client is kept for the next bin."""

    def _changes(self, effect: Effect) -> list[Change]:
        index = self._name.replace(TENANT, effect.slices[0].lane.tenant)
        return self._documents.changes(effect.output, effect.version, index)

    def _sent(self, changes: Sequence[Change], use_case: str) -> list[HeadraceError | None]:
        with self._cluster.until(self._until_s):
            return sent(changes, use_case, self._judged, self._documents.where, self._until_s)

    def _judged(self, part: Sequence[Change]) -> list[HeadraceError | None]:
        return in_halves(part, self._asked)

    def _asked(self, part: Sequence[Change]) -> list[HeadraceError | None]:
        where = self._documents.where
        body = b"".join([change.values[0] for change in part])
        try:
            answer: Any = self._cluster.raw("POST", self._bulk, body)
        except Exception as error:
            if getattr(error, "status_code", None) == TOO_LARGE:
                # for who stands before the cluster
                raise SinkRefused(f"{where}: a document is too large for the server") from error
            raise translated(error, where) from error
        return _judgements(answer, len(part), where)


def _judgements(answer: Any, count: int, where: str) -> list[HeadraceError | None]:
    """What an answer says of each of so many documents."""
    try:
        items = [next(iter(item.values())) for item in answer["items"]]
        told = [judged(item["status"], item.get("error"), where) for item in items]
    except (LookupError, TypeError, AttributeError, StopIteration) as error:
        raise odd(where) from error
    if len(told) != count:
        raise odd(where)
    return told
