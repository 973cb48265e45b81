"""Documents of an index in OpenSearch or Elasticsearch, of which the newest of each key stays.

Each row is a document whose version is how new it is, so whatever comes twice, late, or in another
order leaves the same state, by the cluster's own means: exactly-once, by intent. What is gone stays
as a document without data. Readers find documents within the second that the index is refreshed in.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from headrace.connectors.newest import KeepsNewest, problem_of
from headrace.connectors.newest_rows import text_key_problem
from headrace.connectors.search.documents import Documents
from headrace.connectors.search.fitting import Shape, demand, fit
from headrace.connectors.search.servers import cluster_of
from headrace.connectors.search.tenants_indexes import (
    NAME,
    KnownIndexes,
    TenantsIndexesWriter,
)
from headrace.connectors.search.writer import SearchWriter
from headrace.errors import ConfigError
from headrace.model.patterns import TENANT
from headrace.ports import Site


@dataclass(frozen=True)
class SearchIndex(KeepsNewest):
    """An index of OpenSearch or Elasticsearch.

    Args:
        name: of the index, which is an alias; it is made when it is not there. With ``{tenant}`` in
            it each tenant has its own, made by who first writes to it.
        columns: name and kind of each column, as of ``SqlTable``; each is a field. Tables returned
            by the handler must have exactly these.
        key: columns of kind ``text``, ``bigint`` or ``date`` that the id of a document is made of.
        newest_by: the column that tells which row of a key is newer, and is the document's version:
            a ``bigint``, ``timestamp`` or ``date`` of the data that is not below 0, or of kind
            ``version``, as of ``SqlTable``.
        at: name of the cluster under ``connections`` in the YAML file.
        delete_by: the ``boolean`` column that says that the key of a row is gone. Such a document
            stays, without its data, so searches say that they want those where it is false.
        key_in_one_lane: all records of a key are in one partition of its topic. Versions compare
            along one lane alone, so a column of that kind needs this said.
        shards: of an index that is made.
        copies: of each shard, beside the first.

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
    shards: int = field(default=1, repr=False)
    copies: int = field(default=1, repr=False)

    def __post_init__(self) -> None:
        self._copy_given()
        problem = _problem(self)
        if problem:
            raise ConfigError(f"index {self.name!r}: {problem}")

    def prepare(self, site: Site) -> None:
        """Make the index, or see that the one there has the fields.

        Where each tenant has its own, that is done by who first writes to it.

        Raises:
            ConfigError: it has not, may not be made, or the YAML file names no such connection.
            SinkUnavailable: the cluster does not answer.
        """
        cluster = cluster_of(site.connections, self.at, telling=True)
        if TENANT in self.name:
            demand(cluster)
        else:
            fit(cluster, self.name, self._shape)

    def check(self, output: pa.Table) -> None:
        """See that a handler's table has the columns, and values that fit them.

        Raises:
            WrongSchema: the message names the column.
            SinkRefused: a value does not fit; the message names column and row.
        """
        self._documents.check(output)

    def open(self, site: Site) -> SearchWriter | TenantsIndexesWriter:
        """Open the writer of a bin; contacts nobody yet.

        Raises:
            ConfigError: the YAML file names no such connection.
        """
        cluster, in_company = cluster_of(site.connections, self.at), site.in_company
        documents = self._documents
        if TENANT not in self.name:
            return SearchWriter(documents, cluster, self.name, in_company=in_company)
        known = KnownIndexes(cluster, self.name, self._shape, self._where)
        return TenantsIndexesWriter(documents, known, in_company=in_company)

    @property
    def _shape(self) -> Shape:
        return Shape(tuple(self.columns.items()), self.shards, self.copies)

    @property
    def _documents(self) -> Documents:
        return Documents(self.columns, self.key, self.newest_by, self.delete_by, self._where)

    @property
    def _where(self) -> str:
        return f"index {self.name} at {self.at}"


def _problem(sink: SearchIndex) -> str | None:
    if not NAME.fullmatch(sink.name.replace(TENANT, "tenant")):
        return "the name has lower-case letters, digits, '.', '_' and '-', and {tenant}"
    return (
        text_key_problem(sink.columns, sink.key)
        or _own_problem(sink)
        or problem_of(
            sink.columns, sink.newest_by, sink.delete_by, in_one_lane=sink.key_in_one_lane
        )
    )


def _own_problem(sink: SearchIndex) -> str | None:
    if sink.shards < 1 or sink.copies < 0:
        return "shards is at least 1, and copies at least 0"
    return None if sink.at else "at names no connection"
