"""Writing to indexes of which each tenant has one.

Those that are known share requests. One that has to be looked at, or made, comes behind them and by
itself: whatever that meets, and however long, is no matter of those who have theirs. Where nobody
answers a look, there is no cluster for anybody, and no more is asked in that call. But not where
others were slow before it: it may have lacked the time.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from headrace.connectors.search.documents import Documents
from headrace.connectors.search.fitting import Shape, fit_found, mapping_of
from headrace.connectors.search.library import is_late, is_silence
from headrace.connectors.search.servers import Cluster
from headrace.connectors.search.writer import SearchWriter
from headrace.connectors.tenants import TenantsWriter, is_cut_short
from headrace.errors import SinkUnavailable, TargetMissing
from headrace.model.patterns import TENANT
from headrace.ports import Effect, Written

NAME: Final = re.compile(r"[a-z0-9][a-z0-9_.-]{0,199}")


@dataclass(frozen=True, slots=True)
class KnownIndexes:
    """Which indexes were found to be what a sink describes, in this process."""

    cluster: Cluster
    #: with ``{tenant}`` in it
    name: str
    shape: Shape
    where: str

    def has(self, tenant: str) -> bool:
        """Whether that of a tenant is one of them."""
        return (self._index(tenant), self.shape) in self.cluster.fitted

    def forget(self, tenant: str) -> None:
        """Look at it again, or make it, before it is written to."""
        self.cluster.fitted.discard((self._index(tenant), self.shape))

    def look_at(self, tenant: str) -> dict[str, object] | None:
        """Its fields; None if there is none. Raises as ``mapping_of``."""
        index = self._index(tenant)
        if not NAME.fullmatch(index):
            raise TargetMissing(f"{self.where}: {index!r} is no name of an index")
        return mapping_of(self.cluster, index)

    def learn(self, tenant: str, fields: dict[str, object] | None) -> None:
        """Make it, or see that it has the fields. Raises as ``fit_found``."""
        index = self._index(tenant)
        fit_found(self.cluster, index, self.shape, fields)
        self.cluster.fitted.add((index, self.shape))

    def _index(self, tenant: str) -> str:
        return self.name.replace(TENANT, tenant)


class TenantsIndexesWriter:
    """Writes the effects of a bin, each to the index of its tenant."""

    def __init__(self, documents: Documents, known: KnownIndexes, *, in_company: bool) -> None:
        """Take what documents are, and which indexes are known."""
        self._documents, self._known, self._in_company = documents, known, in_company
        self._in_common = SearchWriter(documents, known.cluster, known.name, in_company=in_company)
        self._by_itself = TenantsWriter(self._opened, known.forget, in_company)
        #: why no more is asked in this call
        self._away: SinkUnavailable | None = None

    def write(self, effects: Sequence[Effect]) -> Sequence[Written]:
        """Write all effects that can be written; see ``SinkWriter.write``."""
        self._away = None
        tenants = [effect.slices[0].lane.tenant for effect in effects]
        known = {tenant for tenant in set(tenants) if self._known.has(tenant)}
        common = [place for place, tenant in enumerate(tenants) if tenant in known]
        others = [place for place, tenant in enumerate(tenants) if tenant not in known]
        told = [
            *self._in_common.write([effects[place] for place in common]),
            *self._by_itself.write([effects[place] for place in others]),
        ]
        outcomes = dict(zip([*common, *others], told, strict=True))
        for place in common:
            error = outcomes[place].error
            if error is not None and error.code == TargetMissing.__name__:
                # When a person resumes its lanes, its index is looked at again, or made.
                self._known.forget(tenants[place])
        return [outcomes[place] for place in range(len(effects))]

    def close(self) -> None:
        """Nothing to give up: the client is kept for the next bin."""

    def _opened(self, tenant: str, until_s: float) -> SearchWriter:
        if self._away is not None:
            raise self._away
        with self._known.cluster.until(until_s):
            self._known.learn(tenant, self._looked_at(tenant, until_s))
        return SearchWriter(
            self._documents,
            self._known.cluster,
            self._known.name,
            in_company=self._in_company,
            until_s=until_s,
        )

    def _looked_at(self, tenant: str, until_s: float) -> dict[str, object] | None:
        is_short = is_cut_short(until_s)
        try:
            return self._known.look_at(tenant)
        except SinkUnavailable as error:
            cause = error.__cause__
            if is_silence(cause) and not (is_short and is_late(cause)):
                self._away = error
            raise
