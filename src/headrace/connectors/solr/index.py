"""Documents of a collection in Solr, of which the newest of each key stays.

Each row is a document that says how new it is, and Solr leaves out what is not newer than what it
has, so whatever comes twice, late, or in another order leaves the same state, by its own means:
exactly-once, by intent. What is gone stays as a document without data. Searches find documents
within a second.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import pyarrow as pa

from headrace.connectors.newest import KeepsNewest, problem_of
from headrace.connectors.newest_rows import text_key_problem
from headrace.connectors.solr.documents import ID, NEWNESS, SolrDocuments
from headrace.connectors.solr.fitting import demand, fit
from headrace.connectors.solr.servers import solr_of
from headrace.connectors.solr.writer import SolrWriter
from headrace.connectors.tenants import TenantsWriter
from headrace.errors import ConfigError, TargetMissing
from headrace.model.patterns import TENANT
from headrace.ports import Site

_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}")


@dataclass(frozen=True)
class SolrIndex(KeepsNewest):
    """A collection of Solr, or a core of one that has no collections.

    Args:
        name: of the collection, which has to be there, with fields and a chain. With ``{tenant}``
            in it each tenant has its own, looked at by who first writes to it.
        columns: name and kind of each column, as of ``SqlTable``; each is a field. Tables returned
            by the handler must have exactly these.
        key: columns of kind ``text``, ``bigint`` or ``date`` that the id of a document is made of.
        newest_by: the column that tells which row of a key is newer: a ``bigint``, ``timestamp`` or
            ``date`` of the data, or of kind ``version``, as of ``SqlTable``.
        at: name of the Solr under ``connections`` in the YAML file.
        delete_by: the ``boolean`` column that says that the key of a row is gone. Such a document
            stays, without its data, so searches say that they want those where it is false.
        key_in_one_lane: all records of a key are in one partition of its topic. Versions compare
            along one lane alone, so a column of that kind needs this said.

    Raises:
        ConfigError: a name is none, a kind is unknown, or the columns do not fit each other.
    """

    name: str
    columns: Mapping[str, str]
    key: tuple[str, ...]
    newest_by: str
    at: str
    # Not where effects go, but how they look: a recorded wave goes on when they are changed.
    delete_by: str | None = field(default=None, repr=False)
    key_in_one_lane: bool = field(default=False, repr=False)

    def __post_init__(self) -> None:
        self._copy_given()
        problem = _problem(self)
        if problem:
            raise ConfigError(f"Solr index {self.name!r}: {problem}")

    def prepare(self, site: Site) -> None:
        """See that the collection is there, with its fields and its chain.

        Where each tenant has its own, that is done by who first writes to it.

        Raises:
            ConfigError: it is not, or the YAML file names no such connection.
            SinkUnavailable: Solr does not answer.
        """
        solr = solr_of(site.connections, self.at, telling=True)
        if TENANT in self.name:
            demand(solr)
        else:
            fit(solr, self.name, self.columns)

    def check(self, output: pa.Table) -> None:
        """See that a handler's table has the columns, and values that fit them.

        Raises:
            WrongSchema: the message names the column.
            SinkRefused: a value does not fit; the message names column and row.
        """
        self._documents.check(output)

    def open(self, site: Site) -> SolrWriter | TenantsWriter[SolrWriter]:
        """Open the writer of a bin; contacts nobody yet.

        Raises:
            ConfigError: the YAML file names no such connection.
        """
        if TENANT in self.name:
            opened, forget = partial(self._opened_for, site), partial(self._forget, site)
            return TenantsWriter(opened, forget, site.in_company)
        return SolrWriter(self._documents, solr_of(site.connections, self.at), self.name)

    def _opened_for(self, site: Site, tenant: str, until_s: float) -> SolrWriter:
        solr, collection = solr_of(site.connections, self.at), self._collection(tenant)
        if not _NAME.fullmatch(collection):
            raise TargetMissing(f"{self._where}: {collection!r} is no name of a collection")
        if self._fitted(collection) not in solr.fitted:
            with solr.until(until_s):
                fit(solr, collection, self.columns)
            solr.fitted.add(self._fitted(collection))
        return SolrWriter(self._documents, solr, collection, until_s)

    def _forget(self, site: Site, tenant: str) -> None:
        fitted = self._fitted(self._collection(tenant))
        solr_of(site.connections, self.at).fitted.discard(fitted)

    def _collection(self, tenant: str) -> str:
        return self.name.replace(TENANT, tenant)

    def _fitted(self, collection: str) -> object:
        return collection, tuple(self.columns.items())

    @property
    def _documents(self) -> SolrDocuments:
        return SolrDocuments(self.columns, self.key, self.newest_by, self.delete_by, self._where)

    @property
    def _where(self) -> str:
        return f"Solr index {self.name} at {self.at}"


def _problem(sink: SolrIndex) -> str | None:
    if not _NAME.fullmatch(sink.name.replace(TENANT, "tenant")):
        return "the name has letters, digits, '.', '_' and '-', and {tenant}"
    for name in (ID, NEWNESS):
        if name in sink.columns:
            return f"no column is named {name!r}, which the sink fills"
    return (
        text_key_problem(sink.columns, sink.key)
        or (None if sink.at else "at names no connection")
        or problem_of(
            sink.columns, sink.newest_by, sink.delete_by, in_one_lane=sink.key_in_one_lane
        )
    )
