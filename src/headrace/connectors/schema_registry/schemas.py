"""The schemas of one registry, as a Python worker knows them.

Every record names its schema, and a registry is one small server. So what an id means is asked for
once in a worker and kept. That leaves two troubles, and they must not be taken for one another:

*Nobody answers.* Records of ids that are known go on; the others wait, and so do their lanes. The
registry is not asked for every one of them: after a failure everybody waits for a moment, which
grows from one second to fifteen, and starts at one again when it answers.

*It does not know the id.* A writer may have registered it this very second, at a server that this
one follows; or the bytes are no id at all. So the id is asked for again for a minute, less and less
often, and its lane waits. Then it is unknown, which is a fault of the record. That is remembered
for seconds only: a schema that comes late is found. Each worker counts its own minute.

A schema may refer to others, and these to others again. All are fetched, within the same time; what
was fetched when the time was over is kept for the next try.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import quote
from uuid import UUID

from headrace.connectors.schema_registry.config import URL, RegistryConfig, registry_config
from headrace.connectors.schema_registry.exchange import Exchange
from headrace.connectors.schema_registry.pauses import Pauses
from headrace.connectors.schema_registry.subjects import Subjects
from headrace.connectors.schema_registry.texts import (
    Document,
    NotFoundError,
    ReferencesError,
    Referred,
    in_order,
)
from headrace.errors import RegistryUnavailable, SchemaUnknown
from headrace.ports import (
    Connections,
    NoRegistry,
    RegisteredSchema,
    Registering,
    SchemaId,
    SchemaRegistry,
    WrittenSchema,
)

#: for all that one lookup needs to ask
LOOKUP_S = 5.0
#: for so long an id may yet become known
_PATIENCE_S = 60.0
#: between two questions for an id that is not known: doubled each time
_LEAST_WAIT_S, _MOST_WAIT_S = 1.0, 15.0
#: an id that is unknown is asked for anew after this
_UNKNOWN_S = 10.0
#: of ids that are not known, the last so many are remembered
_MOST_UNKNOWN = 10_000


class _Missed(NamedTuple):
    """An id that was of no use when it was asked for."""

    #: when it was first asked for, how long was waited before the last time, and when it is again
    first_s: float
    wait_s: float
    next_s: float
    told: str
    #: it is waited for no more
    unknown: bool


@dataclass(frozen=True, slots=True)
class RegistrySchemasFactory:
    """Makes the schemas of a worker; where no registry is configured there are none."""

    def open(self, connections: Connections) -> SchemaRegistry:
        """Nobody is contacted yet.

        Raises:
            ConfigError: the settings cannot be.
        """
        if not connections.registry:
            return NoRegistry()
        return RegistrySchemas(registry_config(connections.registry))


class RegistrySchemas:
    """Implements ``headrace.ports.SchemaRegistry``."""

    def __init__(self, config: RegistryConfig, clock: Callable[[], float] = time.monotonic) -> None:
        """Take where the registry is.

        Args:
            config: of the client.
            clock: seconds, as waits are counted.
        """
        self._shown = str(config)
        self._exchange = Exchange(config)
        self._clock = clock
        self._pauses = Pauses(clock)
        self._known: dict[SchemaId, WrittenSchema] = {}
        self._documents: dict[Referred, Document] = {}
        self._missed: OrderedDict[SchemaId, _Missed] = OrderedDict()
        self._subjects = Subjects(self._exchange.ask, self._fetched_all, self._pauses, clock)

    def __repr__(self) -> str:
        return f"RegistrySchemas({self._shown})"

    def schema(self, id_: SchemaId) -> WrittenSchema:
        """What was kept, or is found now; see ``headrace.ports.Schemas``."""
        known = self._known.get(id_)
        if known is not None:
            return known
        self._refuse_missed(id_)
        until_s = time.monotonic() + LOOKUP_S
        kind = "guids" if isinstance(id_, UUID) else "ids"
        try:
            with self._pauses.between():
                document = Document.of(self._found(f"schemas/{kind}/{id_}", until_s))
                found = self._fetched_all(document, until_s)
        except NotFoundError as error:
            raise self._missing(id_, str(error)) from None
        except ReferencesError as error:
            raise self._unusable(id_, str(error)) from error
        self._missed.pop(id_, None)
        self._known[id_] = found
        return found

    def registered(self, subject: str, schema: WrittenSchema, how: Registering) -> RegisteredSchema:
        """The id to write by; see ``headrace.ports.SchemaIds``."""
        return self._subjects.registered(subject, schema, how, time.monotonic() + LOOKUP_S)

    def _found(self, path: str, until_s: float) -> Mapping[str, Any]:
        answer = self._exchange.ask(path, until_s)
        if answer.status != 200:
            raise NotFoundError(answer.message or f"HTTP {answer.status}, and no word of why")
        return answer.body

    def _fetched_all(self, document: Document, until_s: float) -> WrittenSchema:
        """A schema with all that it refers to."""
        names = in_order(document, lambda referred: self._document(referred, until_s))
        return WrittenSchema(document.kind, document.text, names)

    def _document(self, referred: Referred, until_s: float) -> Document:
        if referred not in self._documents:
            # What is referred to may have been deleted since: whoever refers to it needs it still.
            place = f"subjects/{quote(referred.subject, safe='')}/versions/{referred.version}"
            self._documents[referred] = Document.of(self._found(f"{place}?deleted=true", until_s))
        return self._documents[referred]

    def _refuse_missed(self, id_: SchemaId) -> None:
        missed = self._missed.get(id_)
        if missed is not None and self._clock() < missed.next_s:
            raise self._verdict(missed)

    def _missing(self, id_: SchemaId, why: str) -> RegistryUnavailable | SchemaUnknown:
        """What is said of an id that the registry did not know just now."""
        now_s = self._clock()
        before = self._missed.get(id_)
        first_s = now_s if before is None else before.first_s
        wait_s = _LEAST_WAIT_S if before is None else min(before.wait_s * 2, _MOST_WAIT_S)
        left_s = first_s + _PATIENCE_S - now_s
        told = f"schema {id_} is not in the registry {self._shown}: {why}"
        if left_s > 0:
            told += f"; it is asked for again, for {_PATIENCE_S:g} s"
            next_s = now_s + min(wait_s, left_s)
            return self._remember(id_, _Missed(first_s, wait_s, next_s, told, False))
        told += (
            f"; it was asked for during {_PATIENCE_S:g} s. See that {URL} names the registry of "
            "whoever wrote the record, and that its bytes are framed as the format says"
        )
        return self._remember(id_, _Missed(first_s, wait_s, now_s + _UNKNOWN_S, told, True))

    def _unusable(self, id_: SchemaId, why: str) -> RegistryUnavailable | SchemaUnknown:
        """What is said of an id whose schema is there, and is none that can be used."""
        now_s, told = self._clock(), f"schema {id_} of the registry {self._shown}: {why}"
        return self._remember(id_, _Missed(now_s, _MOST_WAIT_S, now_s + _UNKNOWN_S, told, True))

    def _remember(self, id_: SchemaId, missed: _Missed) -> RegistryUnavailable | SchemaUnknown:
        self._missed.pop(id_, None)
        self._missed[id_] = missed
        if len(self._missed) > _MOST_UNKNOWN:
            self._missed.popitem(last=False)
        return self._verdict(missed)

    def _verdict(self, missed: _Missed) -> RegistryUnavailable | SchemaUnknown:
        if missed.unknown:
            return SchemaUnknown(missed.told)
        left_s = max(missed.next_s - self._clock(), 0.0)
        return RegistryUnavailable(missed.told, retry_after_s=left_s)
